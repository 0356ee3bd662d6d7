"""Unconfirmed signatures: what recorded calls are taken to return until their own runs have shown it (H3).

`presumed_signature` and `deferred_signature` differ in what is known before, and so in what may turn out wrong.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from raygrad.autograd.tensor.tensor import Tensor

from .observed_signature import PendingObservation

if TYPE_CHECKING:
    from raygrad.errors import GraphError

    from ..recording.records import NodeRecord
    from .functions import FunctionCallInProgress
    from .observations import Observations
    from .observed_signature import FunctionSignature
    from .recorded_function_node import RecordedFunction


class UnconfirmedSignature(PendingObservation, ABC):
    """The signature that one call is taken to have, and what it takes to replace it by that of the call's own run."""

    __slots__ = ("_applied", "_call", "_node", "_observed", "_results", "relied_on", "wrong")

    tensor_class: ClassVar[type[Tensor]]
    """The class of its outputs until then."""

    def __init__(self, call: FunctionCallInProgress) -> None:
        super().__init__(call.where)
        self.presumes = True
        self.relied_on = False
        """Somebody saw what it was taken to return, or recorded something by it."""
        self.wrong: GraphError | None = None
        """The error for a call that showed something else, where its outputs could not take that on."""
        self._observed: Observations = call.recorder.observed
        self._applied = call.written
        self._call: FunctionCallInProgress | None = call
        self._results: Sequence[weakref.ref[Tensor]] = ()
        self._node: weakref.ref[RecordedFunction] | None = None

    def returned(self, result: Any, node: RecordedFunction | None) -> None:
        """Take note of what the call returned, and of its node."""
        if self.relied_on:
            self.rely()
            return
        outputs: Sequence[Any] = cast("Sequence[Any]", result) if isinstance(result, tuple) else (result,)
        for output in outputs:
            output.__class__ = self.tensor_class
        self._results = [weakref.ref(output) for output in outputs]
        self._node = None if node is None else weakref.ref(node)

    @abstractmethod
    def rely(self) -> None:
        """Take note that something is built on what the call is taken to return."""

    @abstractmethod
    def prepare(self, record: NodeRecord, read: bool) -> None:
        """Decide how the run of a record is checked that is about to be submitted; `read`: other records read it."""

    @abstractmethod
    def confirm(self, record: NodeRecord, found: FunctionSignature, *, failed: bool) -> bool:
        """Take in what the call's own run showed, and let its outputs take that on.

        Args:
            record: the record of the call.
            found: the signature that the run showed.
            failed: whether the run has failed by it.

        Returns:
            Whether all is well; else `wrong` is the error.
        """

    def explained(self, error: BaseException) -> BaseException:
        """Return the error of a call that failed, as its user is to see it."""
        return error if self.wrong is None else self.wrong

    def _take_on(self, call: FunctionCallInProgress, record: NodeRecord, found: FunctionSignature) -> bool:
        """Let the outputs of the call take on what its run showed; tells whether they can."""
        if not call.replace_signature(record, found, [result() for result in self._results], self._node):
            return False
        self.presumes = False
        return True


def difference(earlier: FunctionSignature, found: FunctionSignature) -> str:
    """Return in words what differs between the signatures that two runs have shown."""
    assert earlier.expected is not None
    assert found.expected is not None
    return earlier.expected.diff(found.expected)
