"""Interface between autograd and a session: pending values, and the abstract recorder of graph nodes.

Dispatch and the engine record through it instead of computing. The client's `SessionRecorder` implements it; autograd
does not depend on what becomes of recorded nodes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from ..devices import Device
    from ..functions.function import Function
    from ..nodes.node import Node
    from ..nodes.op_node import OpNode
    from ..registry.registry import Op
    from ..registry.vjp_rules import Meta
    from ..tensor.tensor import Tensor

Data = Any
"""What a tensor wraps: an array, or a `Pending`."""


class FixedOutput:
    """Base class of non-tensor outputs of forward that are equal for equal specs of the arguments (H3).

    A session takes such an output from the observed signature and does not fetch it again. It must pickle to equal
    bytes.
    """

    __slots__ = ()


class ResidentMemory:
    """Base class of context attributes that hold memory other than arrays and tensors.

    Attributes:
        nbytes: the number of bytes.
    """

    __slots__ = ()
    nbytes: int


FEW_OUTPUTS: Final = 62
"""Outputs of a record that have a bit of their own in `AbstractNodeRecord.live`. Changing a bit of an int takes time in
proportion to its size, so that with a bit for every output, that of a record would be quadratic in its outputs."""


class AbstractNodeRecord:
    """The recorded node that makes some pending values, and who holds these; the client subclasses it.

    Attributes:
        recorder: who recorded it.
        live: a bit for each of the first `FEW_OUTPUTS` outputs that somebody holds, and one more if any other is held.
        live_others: the others that are held.
        saved: the same of outputs that a backward node holds as residuals.
        saved_others: the others of these.
        run: the run it was submitted in, -1 before.
        base: the value id of its first output in that run.
    """

    __slots__ = ("base", "live", "live_others", "recorder", "run", "saved", "saved_others")

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.live = self.saved = 0
        self.live_others: set[int] | None = None
        self.saved_others: set[int] | None = None
        self.run = self.base = -1

    def release(self, index: int) -> None:
        """Note that nobody holds output `index` any more."""
        if index < FEW_OUTPUTS:
            self.live &= ~(1 << index)
        elif self.live_others is not None:
            self.live_others.discard(index)
            if not self.live_others:
                self.live &= ~(1 << FEW_OUTPUTS)

    def retained(self, index: int) -> None:
        """Note that a backward node retains output `index` as a residual."""
        if not self.recorder.residual_bit:
            return
        if index < FEW_OUTPUTS:
            self.saved |= 1 << index
            return
        self.saved |= 1 << FEW_OUTPUTS
        if self.saved_others is None:
            self.saved_others = set()
        self.saved_others.add(index)

    def is_retained(self, index: int) -> bool:
        """Tell whether a backward node retains output `index` as a residual."""
        if index < FEW_OUTPUTS:
            return bool(self.saved >> index & 1)
        return self.saved_others is not None and index in self.saved_others

    def rely(self) -> None:
        """Take note that something goes by what is presumed of its values' shapes and dtypes."""

    def await_facts(self, *, reading: bool = True) -> None:
        """Wait for these, where they are presumed or not known yet; `reading`: a value of it is about to be read."""


class RecordTemplate:
    """What a recorder keeps of an op over certain specs, so that recording it again costs a lookup.

    Records of the op have it as `template`.
    """

    __slots__ = ("node",)

    node: Any
    """The `SharedNodeFields` of the op's backward nodes; None before the first."""


class Pending:
    """A value that a session has recorded and may not have computed yet.

    Python's reference count decides whether the value is needed: when the object dies, its record notes it.
    `defined` is False for a gradient known to be undefined, and None if only a run can tell (H5).
    """

    __slots__ = ("__weakref__", "assumed", "defined", "dtype", "index", "record", "shape", "spec")

    def __init__(
        self,
        record: AbstractNodeRecord,
        index: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        spec: Any,
        defined: bool | None = True,
    ) -> None:
        self.record = record
        self.index = index
        self.shape = shape
        self.dtype = dtype
        self.spec = spec
        self.defined = defined
        self.assumed = False
        """Defined in every earlier run, though not known to be in this one: an optimiser relies on it and checks it."""

    def __del__(self) -> None:
        record, index = self.record, self.index
        if index < FEW_OUTPUTS:  # as `release` does, without a call for each value
            record.live &= ~(1 << index)
        else:
            record.release(index)
        if record.run >= 0:
            record.recorder.dropped.append((record.run, record.base + self.index))

    @property
    def device(self) -> Device:
        """The device that will hold it."""
        return self.spec.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"Pending(shape={self.shape}, dtype={self.dtype})"


class Recorder(ABC):
    """Records nodes instead of running them. Values come in as `Data` and go out as `Pending`."""

    dropped: deque[tuple[int, int]]
    """Submitted values (run, value id) that lost their last holder."""
    residual_bit = 0
    """1 if residuals of backward nodes go to the object store, 0 if they stay on their worker."""
    retaining = False
    """Whether the pass that records retains its graph; set by the engine."""
    closed = False
    """Whether recording has ended; pending values are then at the client, or gone."""

    @abstractmethod
    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
        """Record a built-in op and return its outputs.

        Raises:
            ShapeError: the operands do not fit, said on the user's own line.
        """

    def repeat_op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Pending | None:
        """Record a built-in op of one output by its template: `op`'s fast path, for specs that were recorded before.

        Args:
            operands: `Pending` values and Python numbers.

        Returns:
            The output, whose record has a `RecordTemplate`; None, with nothing recorded, off the fast path.
        """
        return None

    def repeat_op_vjp(
        self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]
    ) -> Sequence[Pending | None] | None:
        """Record the derivative of an op by its template: `op_vjp`'s fast path, for specs that were recorded before.

        It is called while anomaly detection is off. None, with nothing recorded, off the fast path, as if a gradient
        may be undefined.
        """
        return None

    def defer(self, name: str, operands: Sequence[Any]) -> Tensor | None:
        """Return the result of a method of a tensor as one that is recorded later, since the shape of an operand is not
        known yet; None where that is not to be."""
        return None

    @abstractmethod
    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Pending | None]:
        """Record the derivative of a built-in op and return one gradient per operand, None where none is wanted."""

    @abstractmethod
    def function(self, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Record `cls.apply(*args, **named)` and return what apply returns; `named` are keyword-only."""

    @abstractmethod
    def function_vjp(self, node: Node, grads: Sequence[Data | None]) -> list[Data | None]:
        """Record the backward of a Function that ran here, before or outside the session."""

    @abstractmethod
    def hook(
        self,
        kind: str,
        hook: Any,
        owner: Node,
        values: Sequence[Data | None],
        metas: Sequence[Meta | None],
        extra_inputs: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        """Record a call of a user's hook, which may replace `values`, and return the values afterwards.

        Args:
            metas: shape and dtype of each value.
            extra_inputs: further arguments of the hook, which it cannot replace.
        """

    @abstractmethod
    def check_hook(self, kind: str, hook: Any) -> Any:
        """Check that a hook can be shipped, and return it as it is to be kept.

        Raises:
            NotShippable: it captures something that cannot.
        """

    def with_dependencies(self, value: Pending, awaited: Sequence[Data]) -> Pending:
        """Return the value with a control dependency on `awaited`; the value itself if nothing is deferred."""
        return value

    @abstractmethod
    def place(self, device: Device) -> Device:
        """Return a device of the session's workers, with its number; "cuda" is the current one, or else the first.

        Raises:
            DeviceError: no worker serves it.
        """

    @abstractmethod
    def leaf(self, tensor: Tensor) -> Pending:
        """Return the pending value that stands for a tensor's array as it is now."""

    @abstractmethod
    def add(self, left: Data, right: Data) -> Pending:
        """Record the sum of two gradients, either of which may turn out undefined (H5, H19)."""

    @abstractmethod
    def strides(self, value: Pending) -> tuple[int, ...] | None:
        """Return the strides of a value in bytes, None if only its kernel knows them."""

    @abstractmethod
    def read(self, value: Pending) -> np.ndarray[Any, Any] | None:
        """Wait for a value and return it, None if it is undefined. A sync point."""

    def peek(self, value: Pending) -> np.ndarray[Any, Any] | None:
        """Return a value that is here already, without waiting; None if it is not, or is undefined."""
        return None

    def may_wait(self) -> bool:
        """Tell whether a value may be waited for here."""
        return True

    def is_defined(self, value: Pending) -> bool:
        """Wait until it is known whether a gradient is defined, and tell (H5). A sync point."""
        return self.read(value) is not None

    def drawn(self, made: Tensor | None, again: Callable[[], Any] | None) -> None:
        """Note that random numbers were drawn into `made`, or, with None, that the generator was seeded.

        `again` repeats the draw or the seeding; None if that cannot be repeated.
        """
        return

    @abstractmethod
    def require(self, value: Pending) -> Pending:
        """Record the check that a gradient assumed to be defined is so."""

    @abstractmethod
    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        """Record a check that a value has no NaN; `message` is the error's, `story` describes the node's origin."""

    @abstractmethod
    def called_here(self, name: str) -> None:
        """Take note that a hook of this name is called in the program's own process (DR-06)."""

    @abstractmethod
    def emit(self, name: str, value: Any) -> None:
        """Record that `value`, any object with tensors in it, is sent to the session's handlers of `name` (H20)."""

    @abstractmethod
    def write(self, variable: Any, attribute: str, value: Any) -> None:
        """Give a variable (`.grad`, a parameter's data) its next version (H8)."""

    def note_change(self, tensor: Any) -> None:
        """Note that a tensor is changed in place next, by `write`, whose memory the program shares."""
        return

    def note_view(self, value: Pending, op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> None:
        """Note that a recorded value is a view of memory that the program shares, by this op of these tensors."""
        return

    def begin_pass(self, *, alone: bool) -> None:
        """Take note that a pass begins: what was saved of memory that the program shares is read as it is now. `alone`:
        no user code runs on this thread before it ends, or `called_here` tells of it."""
        return

    def end_pass(self) -> None:
        """Take note that a pass has ended."""
        return

    @abstractmethod
    def submit(self) -> None:
        """Submit what is recorded and needed. Does not block. Call it with the collector paused (`collector_pause`)."""


def resolve_gradient(value: Data) -> Data:
    """Return a gradient, or None if it is undefined; wait for the run where only that tells (H5)."""
    if type(value) is Pending and value.defined is None and not value.record.recorder.is_defined(value):
        return None
    return value
