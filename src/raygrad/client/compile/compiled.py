"""Compiled functions: `session.compile(fn)` records a call once, and replays it with other arguments (H9).

It decides whether a recording may be replayed or a call has to be recorded. `tracing` observes the call that is
recorded, `replay` binds a recording to new arguments, `closure_guard` guards what the function captures.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from raygrad.autograd.core.collector_pause import collector_paused
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.pytree import flatten
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices.serving import is_device_array
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.tracebacks import attribute_of, public
from raygrad.workers.code.code_cache_key import CodeCacheKey
from raygrad.workers.code.importable import imports_alike

from .closure_guard import ClosureState, closure_guard, global_generator_states, user_attributes
from .replay import Replay, without_history
from .tracing import Trace

if TYPE_CHECKING:
    from raygrad.workers.code.shipping import Shipped

    from ..session.execution import SessionExecution
    from ..session.recorder import SessionRecorder

P = ParamSpec("P")
R = TypeVar("R")

MAX_RECORDINGS_PER_KIND: Final = 4
"""Recordings that are kept for arguments of equal specs: they differ in what the function reaches."""

MAX_KINDS: Final = 32
"""Kinds of arguments for which recordings are kept; then the one that was used longest ago is forgotten."""

WARN_AFTER: Final = 16
"""Consecutive calls that were recorded, after which the user is warned that compiling does not help."""


class _Recording(NamedTuple):
    """A call that can be replayed, and what has to hold for that."""

    replay: Replay
    captured: ClosureState
    code: Sequence[Shipped]
    generation: int


class CompiledFunction(Generic[P, R]):
    """A function that a session records once and then replays.

    The first call with arguments of some shapes, dtypes and layouts, in some structure, runs `fn` and records all that
    it does as one submission: forward, `backward()`, steps of optimisers. Later calls send the same graph with other
    leaves: the arguments, parameters and state as they then are, new random numbers. Whatever else `fn` reads (options,
    variables, attributes, its code and that of Functions and hooks) has to be what it was; else the call records anew.

    Python code in `fn` runs while it records and at no other time. What it returns are tensors, None, and lists, tuples
    and dicts of them, without a history: gradients are taken inside.

    Attributes:
        recorded: how many calls were recorded.
        replayed: how many were replayed.
        reason: why the last call that was recorded was.

    Raises (when it is called):
        SessionError: `fn` reads a value, or what it does cannot be replayed; names the line and the remedy.
        TypeError: an argument that cannot be told from others of its type, or a result that is no tensor.
    """

    def __init__(self, recorder: SessionRecorder, execution: SessionExecution, fn: Callable[P, R]) -> None:
        if not callable(fn):
            raise TypeError(f"compile takes a function, got {type(fn).__name__}")
        self.recorded = 0
        self.replayed = 0
        self.reason = ""
        self._recorder = recorder
        self._inputs = recorder.inputs
        self._log = recorder.inputs.log
        self._observed = recorder.observed
        self._settings = recorder.code.settings
        self._execution = execution
        self._fn = fn
        self._kinds: dict[Any, list[_Recording]] = {}
        self._in_a_row = 0
        functools.update_wrapper(self, fn)

    @public
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        log = self._log
        if log.trace is not None and state.recorder is self._recorder:
            return self._fn(*args, **kwargs)  # a part of what is being recorded
        if log.closed:
            raise log.closed_error("the session of this compiled function is closed; compile it in an open one")
        here = state.here
        if here.batches or here.forward or here.transforms or here.task is not None:
            raise SessionError(
                "a compiled function is called inside a transform, forward mode or a backward pass: transform the "
                "function, and compile the result"
            )
        if log.deferred:
            return self._recorded_only(args, kwargs)
        with log.lock:
            if log.records and (self._execution.sync or not log.can_wait()):
                self._execution.submit()
            leaves, structure = flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            known = {id(tensor): self._inputs.leaf(tensor) for tensor in tensors}
            modes = (here.grad, here.saving, self._settings.now(here))
            key = (structure, log.pin, modes, tuple(_identities(leaves, known)))
            found = self._kinds.pop(key, None)
            if found is None:
                found = []
                if len(self._kinds) >= MAX_KINDS:
                    del self._kinds[next(iter(self._kinds))]
                self.reason = "no call with arguments of this kind was recorded before"
            self._kinds[key] = found
            for number, recording in enumerate(found):
                bound = self._fits(recording, tensors, known)
                if bound is not None:
                    if number:
                        found.insert(0, found.pop(number))
                    return self._replay(recording.replay, tensors, bound)
            if log.records:
                self._execution.submit()
            return self._record(found, leaves, tensors, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an object, where a class has a compiled function among its attributes."""
        return self if instance is None else MethodType(self, instance)

    def _fits(self, recording: _Recording, tensors: Sequence[Tensor], known: dict[int, Pending]) -> Any:
        """Return the leaves of a replay in this call, or None if it must not be replayed; notes why."""
        if recording.generation != self._observed.generation:
            self.reason = "something was learned of the backward of a Function"
            return None
        if not recording.captured.holds():
            self.reason = "something that the function reaches has changed: an option, a variable, an attribute"
            return None
        for shipped in recording.code:
            if not shipped.guard.holds():
                self.reason = f"what '{shipped.shipment.name}' is or reads has changed"
                return None
        bound = recording.replay.leaves(tensors, known)
        if bound is None:
            self.reason = (
                "a tensor that the function reads has another shape, dtype or layout, got or lost its .grad, or is now "
                "another argument, or none"
            )
        return bound

    def _replay(self, replay: Replay, tensors: Sequence[Tensor], bound: Any) -> Any:
        execution = self._execution
        if self._log.records and replay.reads_recorded(bound):
            execution.submit()
        number = execution.next_run()
        submission, draws = replay.submission(number, bound)
        makers, result = replay.bind(number, bound, tensors, draws)
        for made in makers:
            execution.hold(made)
        execution.send(submission, replay.sites, replay.learns, replay.stories, replay.called)
        self.replayed += 1
        self._in_a_row = 0
        if execution.sync:
            execution.wait_for_everything()
        return result

    def _recorded_only(self, args: Any, kwargs: Any) -> R:
        """Call the function where nothing is submitted by itself: what it does is recorded with what else is, so that
        it can be explained."""
        fn: Callable[..., Any] = self._fn
        leaves, _ = flatten((args, kwargs))
        captured = closure_guard([fn, *leaves]).tensors
        roots = {id(tensor) for one in captured for tensor in (one, one._grad)}
        before, state.recorder = state.recorder, self._recorder
        try:
            result = without_history(roots, fn(*args, **kwargs))
        finally:
            state.recorder = before
        self.recorded += 1
        self.reason = "it was called inside session.deferred()"
        return result

    # ---- recording --------------------------------------------------------------------------------------------------

    def _record(self, found: list[_Recording], leaves: list[Any], tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        log, inputs, execution = self._log, self._inputs, self._execution
        fn: Callable[..., Any] = self._fn
        execution.next_run()
        captured = closure_guard(_code_in(self._fn, leaves))
        for tensor in captured.tensors:
            if is_device_array(tensor._data):
                inputs.leaf(tensor)
        if log.records:  # what moves them to the workers is no part of the function
            execution.submit()
        generation = self._observed.generation
        earlier = log.variables.pending()
        trace = log.trace = Trace(inputs, tensors, captured.tensors)
        if captured.outside:
            trace.interrupt(
                f"it reads {captured.outside}, which cannot be compared from one call to the next: read it outside, "
                "and pass what it gives as an argument"
            )
        drawn = global_generator_states()
        before, state.recorder = state.recorder, self._recorder
        replay = None
        try:
            with collector_paused():
                result = fn(*args, **kwargs)
                log.trace = None
                if global_generator_states() != drawn:
                    trace.interrupt(
                        "it draws from Python's or NumPy's own generator, and a replay would have the same numbers "
                        "again: draw with raygrad (rg.rand), or pass what is drawn as a tensor"
                    )
                plain = without_history(trace.roots, result)
                if not trace.interrupted:
                    known = set(map(id, earlier))
                    writes = [write for write in log.variables.pending() if id(write) not in known]
                    replay = Replay(inputs, trace, result, writes, self._recorder.code)
        finally:
            state.recorder = before
            log.trace = None
            trace.restore()
        self.recorded += 1
        self._in_a_row += 1
        if replay is None or trace.interrupted:
            self.reason = trace.interrupted
            trace.forget()
        else:
            found.insert(0, _Recording(replay, captured, list(trace.code.values()), generation))
            del found[MAX_RECORDINGS_PER_KIND:]
            replay.forget()
        del result, replay
        with collector_paused():
            execution.submit()
        if self._in_a_row == WARN_AFTER:
            warnings.warn(
                f"the last {WARN_AFTER} calls of the compiled function '{attribute_of(self._fn, '__name__', 'fn')}' "
                f"were all recorded anew; the last because {self.reason}",
                UserWarning,
                stacklevel=4,
            )
        return plain


def _code_in(fn: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return what may hold code that a call runs: the function, the arguments, and what those that are tensors have."""
    found = [fn]
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            found += [hook for one in (leaf._hooks, leaf._after_accumulation) if one for hook in one.values()]
            found += [value for _, _, _, value in user_attributes(leaf)]
        else:
            found.append(leaf)
    return found


def _identities(leaves: Sequence[Any], known: dict[int, Pending]) -> list[Any]:
    """Return what tells arguments from others for which something else would be recorded.

    Raises:
        TypeError: an argument cannot be told from others of its type.
    """
    first: dict[int, int] = {}
    found: list[Any] = []
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            several = [one for one in (leaf._hooks, leaf._after_accumulation) if one is not None]
            hooks = tuple([hook for one in several for hook in one.values()])
            alias = first.setdefault(id(leaf), position)
            given = tuple([(name, _StructuralKey(value)) for _, name, _, value in user_attributes(leaf)])
            found.append((known[id(leaf)].spec, leaf._requires_grad, leaf._grad is None, alias, hooks, given))
            continue
        kind = cast("type[Any]", type(leaf))
        try:
            hash(leaf)
        except TypeError as error:
            raise TypeError(
                f"argument {position} of a compiled function is of type {kind.__name__}, which cannot be told from "
                "others of its type: pass data as tensors (rg.from_numpy), options as numbers and strings"
            ) from error
        found.append((kind, _token(leaf, kind)))
    return found


def _token(leaf: Any, kind: type[Any]) -> Any:
    """Return what stands for an argument that is no tensor in the key of a recording."""
    if isinstance(leaf, float | complex | np.inexact):
        return repr(cast(object, leaf))  # -0.0, NaN
    if kind.__eq__ is object.__eq__ or (imports_alike(kind.__module__) and kind is not frozenset):
        return leaf
    return _StructuralKey(leaf)


class _StructuralKey:
    """An argument whose class says itself which objects are equal, as a key: another one is the same if it is made of
    the same, whatever its class says."""

    __slots__ = ("_held", "_key")

    def __init__(self, leaf: Any) -> None:
        found = CodeCacheKey(leaf)
        self._held = (leaf, found.held, found.captured)  # so that ids in the key stay theirs
        self._key = (found.key, *map(id, found.captured)) if found.sure else (id(leaf),)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StructuralKey) and self._key == other._key
