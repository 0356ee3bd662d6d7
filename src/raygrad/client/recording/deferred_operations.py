"""Deferred operations: sums and multiples of outputs whose shapes no run has shown yet, recorded when one has (H3).

An ensemble adds up a loss while its members run. What is deferred saves no operand for backward: sums, differences,
products with numbers, and the reductions `sum()` and `mean()`. All else waits for the facts that it needs.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from raygrad.autograd.core.dtypes import get_default_dtype
from raygrad.autograd.core.modes import Modes, state
from raygrad.autograd.core.recorder import Pending, Recorder
from raygrad.autograd.core.session_threads import SEGMENTS
from raygrad.autograd.nodes.node import Node, next_sequence
from raygrad.autograd.tensor.presumed_tensor import DeferredTensor, complete, hidden_data
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DroppedError, RaygradError

from .record_log import RecordLog
from .source_locations import Site, user_site

SCALING: Final = frozenset(("__mul__", "__rmul__", "__truediv__"))
"""The methods that would save a tensor that they multiply by, and are deferred for numbers alone."""

_python: Any = operator


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(tensor: Any, other: Any) -> Any:
        return function(other, tensor)

    return method


_METHODS: Final[dict[str, Callable[..., Any]]] = {
    **{f"__{name}__": getattr(_python, name) for name in ("add", "sub", "mul", "truediv", "neg")},
    **{f"__r{name}__": _reflected(getattr(_python, name)) for name in ("add", "sub", "mul")},
    "sum": Tensor.sum,
    "mean": Tensor.mean,
}
"""By name of the method, what is done once the operands are known. Operators of Python say which they refuse."""

_RESERVED: Final = 8
"""Places among the nodes of a pass that an operation keeps for its own."""


class DeferredOperation:
    """One method of a tensor with its operands, the place of its node and the state of its thread, as they were when
    the user called it. It stands in for the data of its result."""

    __slots__ = (
        "__weakref__",
        "_default_dtype",
        "_grad",
        "_log",
        "_method",
        "_operands",
        "_pin",
        "_result",
        "_site",
        "error",
        "sequence",
    )

    def __init__(
        self, log: RecordLog, method: Callable[..., Any], operands: Sequence[Any], result: Tensor, site: Site
    ) -> None:
        self._log = log
        self._method = method
        self._operands = operands
        self._grad, self._default_dtype = state.here.grad, get_default_dtype()
        self._pin = log.pin
        self._site = site
        self.error: Exception | None = None
        """Why its operands do not allow it: known once they are."""
        self.sequence = next_sequence()
        """Where its node stands among those of a pass."""
        for _ in range(_RESERVED):
            next_sequence()
        object.__setattr__(result, "_data", self)
        self._result = weakref.ref(result)
        log.operations.add(self)

    @property
    def record(self) -> DeferredOperation:
        """What waits for the facts of the result: itself."""
        return self

    @property
    def recorder(self) -> Recorder:
        """Who records it."""
        return self._log.recorder

    def await_facts(self, *, reading: bool = True) -> None:
        """Record the operation, and those that it reads first, once the runs that they wait for have shown what they
        read."""
        waiting: list[DeferredOperation] = [self]
        while waiting:
            last = waiting[-1]
            before = [one for operand in last._operands if (one := _operation_of(operand)) is not None]
            if before:
                waiting.extend(before)
            else:
                last._record(reading=reading)
                waiting.pop()

    def _record(self, *, reading: bool) -> None:
        if not self._is_outstanding():
            return
        for operand in self._operands:
            if type(operand) is DeferredTensor:
                hidden_data(operand).record.await_facts(reading=reading)
        log = self._log
        with log.lock:
            result = self._result()
            if result is None or not self._is_outstanding():  # another thread recorded it
                return
            if self.error is not None:
                raise self.error
            modes, pin, count = state.here, log.pin, len(log.records)
            mark = next_sequence()
            state.here = Modes()
            state.here.grad, state.here.recorder = self._grad, log.recorder
            state.here.default_dtype = self._default_dtype
            state.changed()
            log.pin = self._pin
            SEGMENTS.append(None)
            try:
                made = self._method(*self._operands)
            except (RaygradError, TypeError) as error:
                self.error = error
                error.add_note(f"raygrad: raised for an operation at {self._site}")
                raise
            finally:
                SEGMENTS.pop()
                state.here, log.pin = modes, pin
            for record in log.records[count:]:
                record.site = self._site
            _renumber(made._grad_fn, mark, self.sequence)
            complete(result, made)
            self._operands = ()

    def _is_outstanding(self) -> bool:
        """Tell whether somebody holds the result, and it has not been recorded: it may be an operand of two others."""
        return type(self._result()) is DeferredTensor


def defer(log: RecordLog, name: str, operands: Sequence[Any]) -> Tensor | None:
    """Return the result of a method of a tensor, of whose operands one is deferred at least; None where more than the
    operands and the gradient mode decides what it does."""
    here = state.here
    if here.only_recorder is not log.recorder or log.trace is not None or log.closed:
        return None
    if (
        here.casting is not None
        or here.device is not None
        or here.transforms
        or here.replaying
        or here.task is not None
    ):
        return None
    given: list[Any] = []
    for operand in operands:
        if type(operand) is float or type(operand) is int or type(operand) is DeferredTensor:
            given.append(operand)
        elif name in SCALING or (plain := _as_it_is(log, operand)) is None:
            return None
        else:
            given.append(plain)
    if name in SCALING and len([one for one in given if type(one) is DeferredTensor]) > 1:
        return None
    result: Tensor = object.__new__(DeferredTensor)
    DeferredOperation(log, _METHODS[name], given, result, user_site(3))
    return result


def record_deferred(log: RecordLog) -> None:
    """Record what is deferred and somebody holds: a session ends. Waits for the runs that show how. What reads from a
    run that failed is left as it is: whoever reads it is told. So is what operands do not allow, if somebody was told.
    """
    operations = sorted(log.operations, key=lambda one: one.sequence)
    told = [one.error for one in operations]
    for operation in operations:
        try:
            operation.await_facts()
        except DroppedError:
            pass
        except (RaygradError, TypeError) as error:
            if error not in told:
                raise


def _as_it_is(log: RecordLog, operand: Any) -> Tensor | None:
    """Return a tensor for what an operand is now, whatever becomes of it; None for one that cannot be told apart from
    what it will be."""
    if not isinstance(operand, Tensor) or type(operand._data) is not Pending:
        return None
    if operand._data.record.recorder is not log.recorder or operand._view is not None or operand._tangents:
        return None
    if operand.is_inference() or (operand._requires_grad and operand._grad_fn is None):
        return None
    return Tensor.made(operand._data, operand._grad_fn, operand.output_nr)


def _operation_of(operand: Any) -> DeferredOperation | None:
    """Return the operation that is to make an operand, if it has not been recorded."""
    if type(operand) is not DeferredTensor:
        return None
    data: Any = hidden_data(operand)
    return data if isinstance(data, DeferredOperation) else None


def _renumber(node: Node | None, mark: int, sequence: int) -> None:
    """Give nodes that were made after `mark` their places from `sequence` on."""
    found = [node]
    while found:
        one = found.pop()
        if one is not None and one._sequence > mark:
            one._sequence += sequence - mark
            found.extend([edge[0] for edge in one._edges if edge is not None])
