"""The record of a call: outcome, observed signatures, emits, timing, small results, and the failure of a step.

The host builds it after a call, and the codec encodes it. Exported values travel beside it (`packed_values`)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from raygrad.autograd.devices.serving import device_of, is_device_array, to_host
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.program import (
    INLINE_RESULT_BYTES,
    NO_FINGERPRINTS,
    Call,
    CapturedWarning,
    Failure,
    FunctionObservation,
    Program,
    Record,
    Timing,
)

from ..code.shipping import message_of, pack_exception, traceback_of
from ..interpreter.compiler import node_name
from ..values.contexts import Context
from ..values.fingerprints import FingerprintList
from ..values.placeholders import Placeholder, SpilledValue
from .call_emits import CallEmits


class RecordBuilder:
    """The fields of a `Record` other than values, collected while a call runs."""

    def __init__(self) -> None:
        self.observations: list[FunctionObservation] = []
        self.undefined: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        self.hooks: list[int] = []
        self.emits: CallEmits | None = None
        """None before its steps run."""
        self.began = 0.0
        """See `Timing`."""
        self.inputs = 0.0
        self.steps = 0.0
        self.waited = 0.0
        self.peaks: tuple[tuple[str, int], ...] = ()
        self.nodes: list[tuple[int, float, float]] = []
        self.fingerprints = FingerprintList()


class RecordedValues(NamedTuple):
    """The fields of a `Record` that tell of values."""

    exports: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, Any], ...]
    sizes: tuple[tuple[int, int], ...]


NO_VALUES: Final = RecordedValues((), (), ())


def record_of(
    call: Call,
    worker: str,
    report: RecordBuilder,
    started: float,
    status: str,
    failure: Failure | None = None,
    warned: tuple[CapturedWarning, ...] = (),
    values: RecordedValues = NO_VALUES,
) -> Record:
    """Return the record of a call that started at `started`, by `time.perf_counter`."""
    return Record(  # by position: names take twice as long
        call.run,
        call.segment,
        call.attempt,
        worker,
        os.getpid(),
        time.perf_counter() - started,
        status,
        *values,
        tuple(report.observations),
        tuple(report.undefined),
        () if report.emits is None else report.emits.recorded(),
        tuple(report.hooks),
        failure,
        warned,
        Timing(report.began, report.inputs, report.steps, 0.0, tuple(report.nodes), report.waited),
        report.peaks,
        report.fingerprints.taken() if status == "done" else NO_FINGERPRINTS,
    )


def recorded_values(
    slots: Sequence[Any],
    results: Sequence[tuple[int, int]],
    exports: Sequence[Sequence[Any]],
    sizes: Sequence[tuple[int, int]],
) -> RecordedValues:
    """Return the bytes of exports, the results (slot, value id) that are inlined, and the sizes of other values."""
    return RecordedValues(
        tuple(
            [
                (sum(max(size_of(v), 0) for v in values), sum([v.nbytes for v in values if isinstance(v, Context)]))
                for values in exports
            ]
        ),
        tuple([(value, slots[slot]) for slot, value in results if _is_inlined(slots[slot])]),
        tuple(sizes),
    )


def failure_of(
    program: Program,
    position: int,
    slots: Sequence[Any],
    error: BaseException,
    code: str | None,
    *,
    shares_process: bool = False,
) -> Failure:
    """Return the failure for an error at the step `position`, or before all steps (-1); `code` is the name of the
    step's user code, if any. See `pack_exception` for `shares_process`."""
    index, name, shapes = -1, "segment", ()
    if 0 <= position < len(program.steps):
        step = program.steps[position]
        index, name = step.index, node_name(step.node, code or "")
        shapes = tuple([_shape(slots[slot]) for slot in step.node.inputs if slot >= 0])
    kind, message, trace = type(error).__name__, message_of(error), traceback_of(error)
    return Failure(index, name, shapes, trace, pack_exception(error, shares_process=shares_process), kind, message)


def packed_since(record: Record, started: float) -> Record:
    """Return the record with the time of packing outputs, which began at `started`, by `time.perf_counter`."""
    return record._replace(timing=record.timing._replace(outputs=time.perf_counter() - started))


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype}{list(array.shape)}"
    if is_device_array(value):
        return f"{value.dtype}{list(value.shape)} on {device_of(value)}"
    return "context" if isinstance(value, Context) else type(value).__name__


def detached(value: Any) -> Any:
    """Return an emitted value without autograd history, on the host."""
    if isinstance(value, Tensor):
        return Tensor.made(to_host(value.read()))
    if isinstance(value, tuple):
        return tuple(detached(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [detached(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {k: detached(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def size_of(value: Any) -> int:
    """Return the bytes of a value; -1 of an undefined one."""
    if value is None:
        return -1
    if isinstance(value, np.ndarray | Context | SpilledValue) or is_device_array(value):
        return value.nbytes
    return 0


def _is_inlined(value: Any) -> bool:
    """Tell whether a kept value is inlined in the record: small arrays, and objects that are no arrays. Arrays of a
    device and spilled values stay where they are until requested."""
    if isinstance(value, np.ndarray):
        return value.nbytes <= INLINE_RESULT_BYTES
    return not (isinstance(value, Context | Placeholder) or is_device_array(value))
