"""The seam between autograd and a session: values that do not exist yet, and what records them.

Rules of this file: `Pending` and the abstract `Recorder`; the only implementation lives in the client. Autograd
never asks what a recorder does with what it is told.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

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
    """Marks an output of forward that is no tensor and is equal for equal specs of the arguments: a session learns it
    from the first run, and does not fetch it again (H3). It has to pickle to equal bytes."""

    __slots__ = ()


class ResidentMemory:
    """Marks an attribute of a context that holds memory of its own, other than arrays and tensors.

    Attributes: nbytes: how much.
    """

    __slots__ = ()
    nbytes: int


class AbstractNodeRecord:
    """What a recorder knows of the node that makes some pending values; subclassed by the client."""

    __slots__ = ("recorder",)

    recorder: Recorder

    def released(self, index: int) -> None:
        """Told when the last holder of output `index` let go of it."""

    def claimed(self, index: int) -> None:
        """Told that a backward node keeps output `index` as a residual."""


class RecordTemplate:
    """What a recorder keeps of an op over certain specs, so that recording it again costs a lookup; its records have it
    as `template`."""

    __slots__ = ("node",)

    node: Any
    """What autograd keeps there: what the backward nodes share; None before."""


class Pending:
    """A value that a session has recorded but perhaps not yet made.

    Holders are counted by Python itself: while somebody holds the object the value is needed, when it dies the
    record is told. `defined` is False for a gradient known to be undefined, None where only running will tell (H5).
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
        """Not known to be defined, but it was in every earlier run: good enough for an optimiser, which checks it."""

    def __del__(self) -> None:
        self.record.released(self.index)

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

    @abstractmethod
    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
        """Record a built-in op and return its outputs.

        Raises:
            ShapeError: the operands do not fit, said on the user's own line.
        """

    def again(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Pending | None:
        """Record a built-in op of one output that was recorded before over equal specs, and return its output: what
        `op` does, in a fraction of the time. `operands` are `Pending` and Python numbers, and the record of what is
        returned has a `RecordTemplate`. None, and nothing was recorded, if this is no such case."""
        return None

    def vjp_again(
        self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]
    ) -> Sequence[Pending | None] | None:
        """Record the derivative of an op that was recorded before over equal specs, all of its gradients defined: what
        `op_vjp` does, in a fraction of the time. None, and nothing was recorded, if this is no such case. Anomaly
        detection is off."""
        return None

    @abstractmethod
    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Pending | None]:
        """Record the derivative of a built-in op: one gradient per operand, None where none is wanted."""

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
        beside: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        """Record a call of a user's hook, which may replace `values` (whose shapes and dtypes are `metas`); `beside`
        is shown to it only."""

    @abstractmethod
    def check_hook(self, kind: str, hook: Any) -> Any:
        """Return a hook as it is to be kept, checked that it can travel.

        Raises:
            NotShippable: it captures something that cannot.
        """

    def after(self, value: Pending, awaited: Sequence[Data]) -> Pending:
        """Return a value as one that is not there before all that is `awaited`: what is made of it runs later. What
        does at once what it is told has nothing to order."""
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

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it records no more; its pending values are then at the client, or gone."""

    @abstractmethod
    def add(self, left: Data, right: Data) -> Pending:
        """Record a sum of two gradients, either of which may prove undefined (H5, H19)."""

    @abstractmethod
    def strides(self, value: Pending) -> tuple[int, ...] | None:
        """Return the strides of a value in bytes, None if only its kernel knows them."""

    @abstractmethod
    def read(self, value: Pending) -> np.ndarray[Any, Any] | None:
        """Wait for a value; None when it proves undefined. A sync point."""

    def may_wait(self) -> bool:
        """Tell whether a value may be waited for here."""
        return True

    def is_defined(self, value: Pending) -> bool:
        """Tell whether a gradient of which only running tells is defined (H5). A sync point."""
        return self.read(value) is not None

    def drawn(self, made: Tensor | None, again: Callable[[], Any]) -> None:
        """Told that `made` holds random numbers, or with None that their generator was seeded: `again` does that once
        more."""
        return

    @abstractmethod
    def require(self, value: Pending) -> Pending:
        """Record the check that a gradient assumed to be defined is so."""

    @abstractmethod
    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        """Record the check that there is no NaN in a value; `message` is the error's, `story` tells of the node."""

    @abstractmethod
    def called_here(self, name: str) -> None:
        """Take note that a hook of this name is called in the program's own process (DR-06)."""

    @abstractmethod
    def emit(self, name: str, value: Any) -> None:
        """Record that `value`, any object with tensors in it, is sent to the session's handlers of `name` (H20)."""

    @abstractmethod
    def write(self, cell: Any, attribute: str, value: Any) -> None:
        """Give a cell (`.grad`, a parameter's data) its next version (H8)."""

    @abstractmethod
    def during_pass(self, retain: bool) -> AbstractContextManager[None]:
        """Return what to hold while a backward pass records into it, one that keeps what was saved or not."""

    def until_submitted(self) -> AbstractContextManager[None]:
        """Return what to hold while a pass records and is submitted."""
        return nullcontext()

    @abstractmethod
    def submit(self) -> None:
        """A submission point: send off what is recorded and needed. Does not block."""


def resolve_gradient(value: Data) -> Data:
    """Return a gradient, None if it proves undefined; waits where only running tells (H5)."""
    if type(value) is Pending and value.defined is None and not value.record.recorder.is_defined(value):
        return None
    return value
