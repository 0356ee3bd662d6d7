"""Activation checkpointing: `raygrad.checkpoint`, regions whose saved tensors are rematerialised by a second forward
(PP-08).

The graph is that of the region without checkpointing; only what its nodes save is replaced, by saved-tensor hooks that
run where the graph is recorded. After Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), for the idea
of trading memory for a second forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from raygrad.errors import AutogradError, CheckpointError
from raygrad.tracebacks import public

from ..core.modes import enable_grad, state
from ..core.pytree import flatten, unflatten
from ..core.recorder import Data
from ..dispatch.random_numbers import GeneratorState
from ..dispatch.settings import capture_settings, restored_settings
from ..saved.saved_tensor_hooks import PackedSavedTensor, PackHooks, current_hooks, with_pack_hooks
from ..storage.version_counter import stale_message, was_changed
from ..tensor.tensor import Tensor

R = TypeVar("R")


class _AllRecomputed(Exception):
    """All saved values of the region are rematerialised: the second run can end."""


SavedSpec: TypeAlias = "tuple[Any, Any] | None"
"""A saved value of the first run: shape and dtype of a tensor, or `FUNCTION_NODE`."""

FUNCTION_NODE: Final = None
"""The node of a Function that a session recorded."""


class _Argument:
    """A tensor argument of a region: kept as it is, or packed by the hooks around the region."""

    def __init__(self, tensor: Tensor) -> None:
        self._requires_grad = tensor._requires_grad
        self._packed: PackedSavedTensor | None = None
        self._tensor: Tensor | None = None
        self._version = tensor.counter()[0]
        if state.saving:
            self._packed = PackedSavedTensor(current_hooks(), tensor._data, None, tensor.counter())
        else:
            self._tensor = tensor

    def again(self, grads: Sequence[Any]) -> Tensor:
        """Return the argument as a leaf for the second run. In a session it depends on `grads`, so that no node of the
        second run starts, and holds memory, before these gradients are there."""
        if self._packed is not None:
            value = self._packed.tensor(None)
        else:
            assert self._tensor is not None
            if was_changed(self._tensor.counter(), self._version):
                what = f"[{self._tensor.dtype} {list(self._tensor.shape)}], an argument of a checkpointed function,"
                raise AutogradError(stale_message(what, self._tensor.counter()[0], self._version))
            value = self._tensor.detach()
        recorder = None if (task := state.here.task) is None else task.recorder
        awaited = [grad for grad in grads if grad is not None]
        if recorder is not None and awaited:
            data = [recorder.leaf(grad) if isinstance(grad, Tensor) else grad for grad in awaited]
            value = Tensor.made(recorder.with_dependencies(recorder.leaf(value), data))
        return value.requires_grad_(self._requires_grad)


class _SecondRun:
    """The values that a second run of a region has saved, by position: tensors, and nodes of recorded Functions."""

    def __init__(self, region: CheckpointedRegion | None = None) -> None:
        self._region = region
        self.saved: dict[int, Any] = {}

    def hooks(self) -> PackHooks:
        """Return the saved-tensor hooks that keep values by position."""
        return PackHooks(self._tensor, _refuse, region=self)

    def _tensor(self, tensor: Tensor) -> None:
        self._keep((tensor.shape, tensor.dtype), Tensor.made(tensor._data))

    def applied(self, node: Any) -> None:
        """Keep the node of a recorded Function."""
        self._keep(FUNCTION_NODE, node)

    def _keep(self, what: SavedSpec, value: Any) -> None:
        region, place = self._region, len(self.saved)
        assert region is not None
        expected = region.saved[place : place + 1]
        if expected != [what]:
            raise CheckpointError(
                f"{region.name}: run again for backward it {_described(what)} where its first run "
                f"{_described(expected[0]) if expected else 'saved nothing more'}; {_REMEDY}"
            )
        self.saved[place] = value
        if place + 1 == len(region.saved) and region.stops_early:
            raise _AllRecomputed


class CheckpointedRegion:
    """One call of `checkpoint`: its function and arguments, what the first run saved, and the second run.

    Attributes:
        stops_early: the second run ends when all that the first saved is there, and not at the function's end.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: dict[str, Any],
        around: AbstractContextManager[Any],
        stops_early: bool,
    ) -> None:
        self._function, self._around, self.stops_early = function, around, stops_early
        leaves, self._tree = flatten((tuple(args), dict(named)))
        self._leaves = [_Argument(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._random, self._settings = GeneratorState(), capture_settings()
        self.saved: list[SavedSpec] = []
        """The saved values of the first run, in order."""
        self._second = _SecondRun()
        self._pass: int | None = None
        """The number of the pass that the second run serves."""

    # ---- the first run -----------------------------------------------------------------------------------------------

    def hooks(self) -> PackHooks:
        """Return the saved-tensor hooks that keep positions instead of tensors."""
        return PackHooks(self._tensor, self._value, region=self)

    def _tensor(self, tensor: Tensor) -> int:
        return self._note((tensor.shape, tensor.dtype))

    def applied(self, node: Any) -> Callable[[Sequence[Data | None]], Any]:
        """Note a recorded Function, and return the function that rematerialises its node."""
        return partial(self._taken, self._note(FUNCTION_NODE))

    def _note(self, what: SavedSpec) -> int:
        self.saved.append(what)
        return len(self.saved) - 1

    # ---- the second --------------------------------------------------------------------------------------------------

    def _value(self, place: int) -> Tensor:
        """Return the saved tensor at a position."""
        task = state.here.task
        return self._taken(place, () if task is None else task.arrived)

    def _taken(self, place: int, grads: Sequence[Data | None]) -> Any:
        """Return the saved value at a position; run the function again if this pass has not done so."""
        task = state.here.task
        number = None if task is None else task.number
        if number != self._pass or place not in self._second.saved:
            self._run(grads)
            self._pass = number
        return self._second.saved.pop(place)

    def _run(self, grads: Sequence[Any]) -> None:
        second = _SecondRun(self)
        args, named = unflatten(self._tree, [x.again(grads) if isinstance(x, _Argument) else x for x in self._leaves])
        here = state.here
        outer, here.replaying = here.replaying, True
        try:
            with (
                restored_settings(self._settings),
                enable_grad(),
                self._random.again(),
                with_pack_hooks(second.hooks()),
            ):
                with self._around:
                    self._function(*args, **named)
        except _AllRecomputed:
            pass
        finally:
            here.replaying = outer
        if len(second.saved) != len(self.saved):
            again, first = _tensors(self.saved[: len(second.saved)]), _tensors(self.saved)
            raise CheckpointError(
                f"{self.name}: run again for backward it saved {again} tensors where its first run saved {first}; "
                f"{_REMEDY}"
            )
        self._second = second

    @property
    def name(self) -> str:
        return f"checkpoint({getattr(self._function, '__qualname__', self._function)})"


_REMEDY = (
    "it must do the same whenever it is called with equal arguments: let it depend on nothing that changes, and draw "
    "random numbers from raygrad alone"
)


def _described(what: SavedSpec) -> str:
    return "applied a Function" if what is None else f"saved a {what[1]} tensor of shape {list(what[0])}"


def _tensors(saved: Sequence[SavedSpec]) -> int:
    return len([what for what in saved if what is not FUNCTION_NODE])


def _refuse(kept: Any) -> Any:
    raise CheckpointError("a function that is run again for backward ran a backward of its own over the second run")


@public
def checkpoint(function: Callable[..., R], *args: Any, **named: Any) -> R:
    """Return `function(*args, **named)`, keeping only the arguments for backward. The tensors that its operations save
    are rematerialised by a second run when a backward first needs them.

    The second run draws the same random numbers, sees the same settings (autocast, the default dtype, `np.errstate` and
    their kind), and emits nothing. Gradients flow to arguments and to whatever else the function reads.
    Regions may be nested. A second backward runs it once more.

    Raises:
        TypeError: `function` cannot be called.
        CheckpointError: (in backward) the second run saved other tensors than the first; a RuntimeError.
    """
    if not callable(function):
        raise TypeError(f"checkpoint expects a function and its arguments, got {type(function).__name__}")
    if not state.here.grad or state.here.inference:
        return function(*args, **named)
    return checkpointed(function, args, named)


def checkpointed(
    function: Callable[..., R],
    args: Sequence[Any],
    named: dict[str, Any],
    contexts: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None,
    stops_early: bool = True,
) -> R:
    """Return `checkpoint(function, *args, **named)` with gradients recorded.

    Args:
        function, args, named: as of `checkpoint`.
        contexts: the context managers in which the first run and the second run.
        stops_early: as of `CheckpointedRegion`.
    """
    around, again = contexts or (nullcontext(), nullcontext())
    region = CheckpointedRegion(function, args, named, again, stops_early)
    with with_pack_hooks(region.hooks()), around:
        return function(*args, **named)
