"""Saved-tensor hooks (pack and unpack), their context managers, and one packed value (GR-01 to GR-14).

Nodes ask for the hooks in force when they save. Which slots are packed, all or one by one, is in `saved_tensors.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import says

from ..core.modes import state
from ..core.recorder import Data
from ..devices.serving import writable
from ..nodes.accumulator import AccumulateGrad
from ..nodes.closed_session import settle
from ..nodes.node import Edge
from ..registry.vjp_rules import Meta
from ..storage.version_counter import stale_message, was_changed
from ..tensor.tangent_levels import Tangents
from ..tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


class RegionHooks(Protocol):
    """A checkpointed region, which is rematerialised instead of saved: see `engine/checkpointing.py`."""

    def applied(self, node: Any) -> Callable[[Sequence[Data | None]], Any] | None:
        """Take note of a Function that a session recorded. Return what gives its node in a second run, once some
        gradients are there; None if this is the second run."""
        ...


class PackHooks(NamedTuple):
    """A pair of hooks: `pack(tensor)` returns the value to keep, `unpack` makes a tensor of it."""

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]
    about_to_change: Callable[[Tensor], None] | None = None
    """Called with a tensor before it is changed in place."""
    region: RegionHooks | None = None
    """The checkpointed region of these hooks, if any; they then run where the graph is recorded and keep nothing."""


class PackedSavedTensor:
    """A saved value as `pack` returned it.

    What `pack` returned as it was shown is still checked for changes in place (GR-05); an alias of it is not, as in
    PyTorch.
    """

    __slots__ = ("_counter", "_meta", "_unpack", "_value", "_version", "tangents")

    def __init__(self, hooks: PackHooks, data: Data, edge: Edge | None, counter: list[int]) -> None:
        self._unpack = hooks.unpack
        self.tangents: Tangents | None = None
        """What the saved tensor carried in forward mode: hooks see and replace values only."""
        self._meta: Meta = (data.shape, data.dtype)
        shown = tensor_at_edge(data, edge)
        shown._counter = counter
        before, version = state.grad, counter[0]
        state.grad = False
        try:
            value = hooks.pack(shown)
        except (AutogradError, ValueError) as error:
            if not says(error, "read-only") or writable(data):
                raise
            raise AutogradError(_MODIFYING) from error
        finally:
            state.grad = before
        if was_changed(counter, version):
            raise AutogradError(_MODIFYING)
        self._counter: list[int] | None = None
        self._version = version
        if isinstance(value, Tensor) and value._data is data:
            self._counter = counter
            value = Tensor.made(data)  # without its history: a node that holds its own output is a cycle
        self._value: Any = value

    @classmethod
    def rebuild(cls, unpack: Callable[[Any], Any], meta: Meta, value: Any) -> PackedSavedTensor:
        """Return what was packed in another process, of a tensor of shape and dtype `meta`."""
        self = object.__new__(cls)
        self._unpack, self._meta, self._value = unpack, meta, value
        self._counter, self._version, self.tangents = None, 0, None
        return self

    def unpacked_by(self, unpack: Callable[[Any], Any]) -> PackedSavedTensor:
        """Return the same packed value with another `unpack` hook."""
        made = object.__new__(type(self))
        made._unpack, made._meta, made._value = unpack, self._meta, self._value
        made._counter, made._version, made.tangents = self._counter, self._version, self.tangents
        return made

    @property
    def content(self) -> tuple[Meta, Any]:
        """Return what `rebuild` takes besides `unpack`."""
        return self._meta, self._value

    @property
    def checked(self) -> bool:
        """Whether it is the saved tensor itself, and so checked for changes in place."""
        return self._counter is not None

    def keep_old(self, old: Data, copy: Callable[[Data], Data]) -> None:
        """Keep what `copy` makes of memory that is about to be changed by the very operation that saved it."""
        if self._counter is not None and self._value._data is old:
            self._value, self._counter = Tensor.made(copy(old)), None

    def tensor(self, edge: Edge | None) -> Tensor:
        """Return the value as a new tensor in the place of the graph that `edge` names (GR-03).

        Raises:
            TypeError: what `unpack` returned is no tensor.
            RuntimeError: it has another shape or dtype; or what was kept was changed in place.
        """
        if self._counter is not None and was_changed(self._counter, self._version):
            what = f"[{self._meta[1]} {list(self._meta[0])}], kept by a pack hook as it was,"
            raise AutogradError(stale_message(what, self._counter[0], self._version))
        value = self._unpack(self._value)
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(value).__name__}"
            )
        if (value.shape, value.dtype) != self._meta:
            raise AutogradError(
                f"the unpack hook of a saved tensor returned a {value.dtype} tensor of shape {list(value.shape)}, but "
                f"a {self._meta[1]} tensor of shape {list(self._meta[0])} was saved"
            )
        made = tensor_at_edge(settle(value)._data, edge)
        made.share_counter(value)
        made._tangents = self.tangents
        return made


class RelocatedSavedTensor:
    """A packed value that takes its place in the graph from a given tensor."""

    def __init__(self, packed: PackedSavedTensor, place: Tensor | None) -> None:
        self._packed = packed
        self._edge = None if place is None or not place._requires_grad else place.edge()

    def tensor(self, edge: Edge | None) -> Tensor:
        """Return the value as a new tensor there; see `Packed.tensor`."""
        return self._packed.tensor(self._edge)


_MODIFYING = (
    "A saved tensor pack hook is modifying its input in place: others use that tensor, too. Work on a copy "
    "of it in the hook: tensor.clone()"
)


def tensor_at_edge(data: Data, edge: Edge | None) -> Tensor:
    """Return a new tensor over `data` whose gradient flows to `edge`; it requires no grad if that is None."""
    if edge is None or edge[0] is None:
        return Tensor.made(data)
    if not isinstance(edge[0], AccumulateGrad):
        return Tensor.made(data, edge[0], edge[1])
    leaf, accumulator = Tensor.made(data), edge[0]
    leaf._requires_grad = True
    leaf._accumulator = lambda: accumulator
    return leaf


def current_hooks() -> PackHooks:
    """Return the innermost hooks: only they apply (GR-06)."""
    return state.saving[-1]


# ---- the context managers --------------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """Pack what graphs save while the block runs: `pack_hook(tensor)` returns what to keep instead, and
    `unpack_hook(kept)` is called for a tensor whenever it is read, also after the block.

    Raises:
        TypeError: one of them cannot be called.
        RuntimeError: hooks are disabled here.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self._hooks = PackHooks(pack_hook, unpack_hook)
        self._outer: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        for hook in self._hooks[:2]:
            if not callable(hook):
                raise TypeError(f"saved-tensor hooks must be callable, got {type(hook).__name__}")
        if state.saving_refused is not None:
            raise AutogradError(state.saving_refused)
        self._outer.append(state.saving)
        _set((*state.saving, self._hooks))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._outer:  # a hook may have left the block before its end
            _set(self._outer.pop())


class save_on_cpu(saved_tensors_hooks):
    """Keep what graphs save in host memory, and move it back when it is read. On the host nothing is copied.

    Args:
        pin_memory: as in PyTorch, for programs that say so; it changes nothing, since copies from and to a GPU go
            through pinned buffers anyway, and what is kept is not pinned, of which a process has little.

    Raises:
        TypeError: `pin_memory` is neither True nor False.
    """

    def __init__(self, pin_memory: bool = False) -> None:
        if type(pin_memory) is not bool:
            raise TypeError(f"save_on_cpu(pin_memory=...) takes True or False, got {pin_memory!r}")
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda kept: kept[1].to(kept[0]))


class disable_saved_tensors_hooks:
    """Let nobody set saved-tensor hooks in a block, which they would not survive; a context manager or a decorator.

    Raises:
        RuntimeError: hooks are set; with this message, as whoever tries in the block.
    """

    def __init__(self, error_message: str) -> None:
        self._message = error_message
        self._outer: list[str | None] = []

    def __enter__(self) -> None:
        if state.saving:
            raise AutogradError(self._message)
        self._outer.append(state.saving_refused)
        state.saving_refused = self._message

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        state.saving_refused = self._outer.pop()

    def __call__(self, fn: F) -> F:
        @functools.wraps(fn)
        def without(*args: Any, **kwargs: Any) -> Any:
            with disable_saved_tensors_hooks(self._message):
                return fn(*args, **kwargs)

        return cast(F, without)


@contextmanager
def with_pack_hooks(hooks: PackHooks) -> Generator[None]:
    """Let these hooks pack what is saved in a block.

    Raises:
        RuntimeError: hooks are disabled here.
    """
    if state.saving_refused is not None:
        raise AutogradError(state.saving_refused)
    before = state.saving
    _set((*before, hooks))
    try:
        yield
    finally:
        _set(before)


def _set(saving: tuple[Any, ...]) -> None:
    state.saving = saving
    state.changed()
