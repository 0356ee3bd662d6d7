"""Regions that are run again instead of kept: `checkpoint` (DESIGN §9, PP-08).

Rules of this file: what a region keeps, and how it is run again. The graph is that of the region without checkpointing;
only what its nodes save is replaced, by saved-tensor hooks that run where the graph is recorded. After Griewank and
Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), for the idea of trading memory for a second forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from raygrad.errors import AutogradError, CheckpointError

from .autocast import as_at, moment
from .creation import RandomPlace
from .modes import enable_grad, state
from .node import stale_message
from .recording import Data
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

    def again(self, grads: Sequence[Any]) -> Tensor:
        """Return the value as a leaf, which requires grad if the tensor did; in a session, as one that is there after
        some gradients: what could run before them would, and hold what it saves all the while."""
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
            value = Tensor.made(recorder.after(recorder.leaf(value), data))
        return value.requires_grad_(self._requires_grad)


class _Second:
    """What a second run of a region has saved, by place."""

    def __init__(self, region: Region | None = None) -> None:
        self._region = region
        self.values: dict[int, Tensor] = {}
        self.functions: dict[int, Any] = {}

    def hooks(self) -> Hooks:
        """Return the hooks that keep what is saved."""
        return Hooks(self._keep, _refuse, region=self)

    def _keep(self, tensor: Tensor) -> None:
        region, place = self._region, len(self.values)
        assert region is not None
        if (tensor.shape, tensor.dtype) != (expected := region.meta(place)):
            raise CheckpointError(
                f"{region.name}: run again for backward it saved a {tensor.dtype} tensor of shape "
                f"{list(tensor.shape)} where its first run saved "
                + ("nothing more" if expected is None else f"a {expected[1]} one of shape {list(expected[0])}")
                + f"; {_REMEDY}"
            )
        self.values[place] = Tensor.made(tensor._data)
        self._look()

    def applied(self, node: Any) -> None:
        """Keep the node of a Function."""
        self.functions[len(self.functions)] = node
        self._look()

    def _look(self) -> None:
        assert self._region is not None
        if self._region.is_all(len(self.values), len(self.functions)):
            raise _Enough


class Region:
    """One call of `checkpoint`: what it takes to run its function again, and what that has saved."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> None:
        self._function = function
        leaves, self._tree = flatten((tuple(args), dict(named)))
        self._leaves = [_Argument(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._random, self._casting = RandomPlace(), moment()
        self._metas: list[tuple[Any, Any]] = []
        """Of what was saved, in order."""
        self._functions = 0
        """How many Functions a session recorded in it."""
        self._second = _Second()
        self._pass: int | None = None
        """The pass that the second run is for."""

    # ---- the first run --------------------------------------------------------------------------------------------

    def hooks(self) -> Hooks:
        """Return the hooks that keep places instead of tensors."""
        return Hooks(self._note, self._value, region=self)

    def _note(self, tensor: Tensor) -> int:
        self._metas.append((tensor.shape, tensor.dtype))
        return len(self._metas) - 1

    def applied(self, node: Any) -> Callable[[Sequence[Data | None]], Any]:
        """Take note of a Function that a session recorded."""
        place = self._functions
        self._functions += 1
        return partial(self._function_at, place)

    # ---- the second -----------------------------------------------------------------------------------------------

    def _value(self, place: int) -> Tensor:
        """Return what was saved at a place; the first time that a pass asks, by running the function again."""
        task = state.here.task
        return self._taken(lambda second: second.values, place, () if task is None else task.arrived)

    def _function_at(self, place: int, grads: Sequence[Data | None]) -> Any:
        return self._taken(lambda second: second.functions, place, grads)

    def _taken(self, where: Callable[[_Second], dict[int, Any]], place: int, grads: Sequence[Any]) -> Any:
        task = state.here.task
        number = None if task is None else task.number
        if number != self._pass or place not in where(self._second):
            self._run(grads)
            self._pass = number
        return where(self._second).pop(place)

    def _run(self, grads: Sequence[Any]) -> None:
        second = _Second(self)
        args, named = unflatten(self._tree, [x.again(grads) if isinstance(x, _Argument) else x for x in self._leaves])
        here, now = state.here, RandomPlace()
        outer, here.again = here.again, True
        self._random.back()
        try:
            with enable_grad(), as_at(self._casting), hooked(second.hooks()):
                self._function(*args, **named)
        except _Enough:
            pass
        finally:
            here.again = outer
            now.back()
        if len(second.values) != len(self._metas) or len(second.functions) != self._functions:
            raise CheckpointError(
                f"{self.name}: run again for backward it saved {len(second.values)} tensors where its first run saved "
                f"{len(self._metas)}; {_REMEDY}"
            )
        self._second = second

    def meta(self, place: int) -> tuple[Any, Any] | None:
        """Return shape and dtype of what was saved at a place, None for one too many."""
        return self._metas[place] if place < len(self._metas) else None

    def is_all(self, values: int, functions: int) -> bool:
        """Tell whether a second run has all that the first saved."""
        return values == len(self._metas) and functions == self._functions

    @property
    def name(self) -> str:
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
