"""Regions that are run again instead of kept: `checkpoint` (DESIGN §9, PP-08).

Rules of this file: what a region keeps, and how it is run again. The graph is that of the region without checkpointing;
only what its nodes save is replaced, by saved-tensor hooks that run where the graph is recorded. After Griewank and
Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), for the idea of trading memory for a second forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from raygrad.errors import AutogradError, CheckpointError

from .autocast import as_at, moment
from .creation import RandomPlace
from .modes import enable_grad, state
from .node import stale_message
from .saving import Hooks, Packed, hooked, in_force
from .tensor import Tensor
from .trees import flatten, unflatten
from .versions import was_changed

R = TypeVar("R")


class _Enough(Exception):
    """All that the region had saved is there again."""


class _Argument:
    """A tensor that a region was given: kept as it is, or packed by the hooks around the region."""

    def __init__(self, tensor: Tensor) -> None:
        self._requires_grad = tensor._requires_grad
        self._packed: Packed | None = None
        self._tensor: Tensor | None = None
        self._version = tensor.counter()[0]
        if state.saving:
            self._packed = Packed(in_force(), tensor._data, None, tensor.counter())
        else:
            self._tensor = tensor

    def again(self) -> Tensor:
        """Return the value as a leaf, which requires grad if the tensor did."""
        if self._packed is not None:
            value = self._packed.tensor(None)
        else:
            assert self._tensor is not None
            if was_changed(self._tensor.counter(), self._version):
                what = f"[{self._tensor.dtype} {list(self._tensor.shape)}], an argument of a checkpointed function,"
                raise AutogradError(stale_message(what, self._tensor.counter()[0], self._version))
            value = self._tensor.detach()
        return value.requires_grad_(self._requires_grad)


class Region:
    """One call of `checkpoint`: what it takes to run its function again, and what that has saved."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> None:
        self._function = function
        leaves, self._tree = flatten((tuple(args), dict(named)))
        self._leaves = [_Argument(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._random, self._casting = RandomPlace(), moment()
        self._metas: list[tuple[Any, Any]] = []
        """Of what was saved, in order."""
        self._values: dict[int, Tensor] = {}
        self._pass: int | None = None
        """The pass that `_values` are for."""

    def hooks(self) -> Hooks:
        """Return the hooks that keep places instead of tensors."""
        return Hooks(self._note, self._value)

    def _note(self, tensor: Tensor) -> int:
        self._metas.append((tensor.shape, tensor.dtype))
        return len(self._metas) - 1

    def _value(self, place: int) -> Tensor:
        """Return what was saved at a place; the first time that a pass asks, by running the function again."""
        task = state.here.task
        number = None if task is None else task.number
        if number != self._pass or place not in self._values:
            self._run()
            self._pass = number
        return self._values.pop(place)

    def _run(self) -> None:
        values: dict[int, Tensor] = {}
        metas = self._metas

        def keep(tensor: Tensor) -> None:
            place = len(values)
            if place < len(metas) and (tensor.shape, tensor.dtype) != metas[place]:
                raise CheckpointError(
                    f"{self._name}: run again for backward it saved a {tensor.dtype} tensor of shape "
                    f"{list(tensor.shape)} where its first run saved a {metas[place][1]} one of shape "
                    f"{list(metas[place][0])}; {_REMEDY}"
                )
            values[place] = Tensor.made(tensor._data)
            if len(values) == len(metas):
                raise _Enough

        args, named = unflatten(
            self._tree, [x.again() if isinstance(x, _Argument) else x for x in self._leaves]
        )
        here, now = state.here, RandomPlace()
        outer, here.again = here.again, True
        self._random.back()
        try:
            with enable_grad(), as_at(self._casting), hooked(Hooks(keep, _refuse)):
                self._function(*args, **named)
        except _Enough:
            pass
        finally:
            here.again = outer
            now.back()
        if len(values) != len(metas):
            raise CheckpointError(
                f"{self._name}: run again for backward it saved {len(values)} tensors where its first run saved "
                f"{len(metas)}; {_REMEDY}"
            )
        self._values = values

    @property
    def _name(self) -> str:
        return f"checkpoint({getattr(self._function, '__qualname__', self._function)})"


_REMEDY = (
    "it must do the same whenever it is called with equal arguments: let it depend on nothing that changes, and draw "
    "random numbers from raygrad alone"
)


def _refuse(kept: Any) -> Any:
    raise CheckpointError("a function that is run again for backward ran a backward of its own over the second run")


def checkpoint(function: Callable[..., R], *args: Any, **named: Any) -> R:
    """Return `function(*args, **named)`, keeping only the arguments for backward: what its operations save is made
    again, by a second run, when a backward first asks for it.

    The second run draws the same random numbers, sees the same autocast state, and emits nothing. Gradients flow to
    arguments and to whatever else the function reads. Regions may be nested. A second backward runs it once more.

    Raises:
        TypeError: `function` cannot be called.
        CheckpointError: (in backward) the second run saved other tensors than the first; a RuntimeError.
    """
    if not callable(function):
        raise TypeError(f"checkpoint expects a function and its arguments, got {type(function).__name__}")
    if not state.here.grad or state.here.inference:
        return function(*args, **named)
    region = Region(function, args, named)
    with hooked(region.hooks()):
        return function(*args, **named)
