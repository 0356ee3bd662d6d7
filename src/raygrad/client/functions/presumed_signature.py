"""Presumed signatures: calls recorded by what runs with other numbers showed, until their own run confirms it (H3).

The Function recorder makes one for each such call. The submission decides how the run is checked, and the run listener
reports what it showed: where nothing was built on a wrong presumption, the call's outputs take on what it did show.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from raygrad.autograd.tensor.presumed_tensor import PresumedTensor
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import GraphError
from raygrad.proto.ir.signatures import DIRTY
from raygrad.proto.ir.specs import STAYS
from raygrad.workers.interpreter.functions import UNSAID

from .call_signature import context_of
from .numeric_arguments import NumericRun, argument_texts, differing_numbers
from .observed_signature import PendingObservation

if TYPE_CHECKING:
    from ..recording.records import NodeRecord
    from .call_signature import CallSignature
    from .functions import FunctionCallInProgress
    from .observations import Observations
    from .observed_signature import FunctionSignature
    from .recorded_function_node import RecordedFunction


class PresumedSignature(PendingObservation):
    """The signature presumed for one call, and what it takes to replace it by that of the call's own run."""

    __slots__ = (
        "_applied",
        "_call",
        "_call_signature",
        "_node",
        "_observed",
        "_places",
        "_record",
        "_results",
        "_run",
        "_table",
        "_values",
        "relied_on",
        "wrong",
    )

    def __init__(
        self, call: FunctionCallInProgress, run: NumericRun, record: NodeRecord, call_signature: CallSignature
    ) -> None:
        super().__init__(call.where)
        self.presumes = True
        self.wrong: GraphError | None = None
        """The error for a presumption that was wrong, where something had been built on it."""
        self._observed: Observations = call.recorder.observed
        self._table = self._observed.numbers[call.general]
        self._applied, self._values, self._places = call.written, tuple(call.numbers), call.places
        self._run, self._call_signature = run, call_signature
        self._record = weakref.ref(record)
        self.relied_on = not (call.is_plain() and call_signature.plain) or call_signature.placed
        """Somebody saw a presumed fact, or recorded something by it."""
        self._call: FunctionCallInProgress | None = call
        self._results: Sequence[weakref.ref[Tensor]] = ()
        self._node: weakref.ref[RecordedFunction] | None = None

    def returned(self, result: Any, node: RecordedFunction | None) -> None:
        """Take note of what the call returned, and of its node."""
        outputs: Sequence[Any] = cast("Sequence[Any]", result) if isinstance(result, tuple) else (result,)
        if self.relied_on:
            self.rely()
            return
        for output in outputs:
            output.__class__ = PresumedTensor
        self._results = [weakref.ref(output) for output in outputs]
        self._node = None if node is None else weakref.ref(node)

    def rely(self) -> None:
        """Take note that something is built on the presumption: the call is run, and fails if that is wrong."""
        self.relied_on = True
        self._call = None
        record = self._record()
        if record is not None and record.run < 0:
            record.effects = True

    def prepare(self, record: NodeRecord, read: bool) -> None:
        """Decide how the run of a record is checked that is about to be submitted: what other records read has to be as
        presumed, or the run fails; otherwise the run shows what it is."""
        shared = self._call_signature
        stays = shared.bound
        if read or self.relied_on:
            self.relied_on = True
            self._call = None  # before the arguments are submitted, which nobody else may want
            if record.work is not shared.unchecked:
                return
            record.work, record.kind, record.pinned = shared.call, shared.kind, shared.pinned
        else:
            record.work, record.kind, record.pinned = shared.unchecked, shared.unchecked_kind, True
            stays = stays or STAYS
        record.outputs = (context_of(shared.signature, stays), *shared.outputs[1:])

    def confirm(self, record: NodeRecord, found: FunctionSignature, *, failed: bool) -> bool:
        """Take in what the call's own run showed, and let its outputs take that on.

        Args:
            record: the record of the call.
            found: the signature that the run showed.
            failed: whether the run has failed by it.

        Returns:
            Whether all is well; else `wrong` is the error.
        """
        signature, call = self._run.signature, self._call
        self._call = None
        if found.expected == signature.expected:
            self.presumes = False
            return True
        run = self._table.observe(NumericRun(self._values, found, self.key))
        if found.is_lasting():
            self._observed.signatures[self.key] = run.signature
        self._observed.generation += 1  # compiled functions went by it, too
        if not failed and call is not None and self._take_on(call, record, found):
            self.presumes = False
            return True
        assert signature.expected is not None
        assert found.expected is not None
        self.wrong = GraphError(self._message(signature.expected.diff(found.expected)))
        return False

    def explained(self, error: BaseException) -> BaseException:
        """Return the error of a call that failed, as its user is to see it."""
        if self.wrong is not None:
            return self.wrong
        if UNSAID in str(error):
            self._table.distrust(self._run, self._values)
            error.add_note(
                f"raygrad: {self._applied.__name__} was expected to change what it changes with "
                f"{self._texts(self._run.values)}; it is run first with {self._texts(self._values)} from now on"
            )
        return error

    def _take_on(self, call: FunctionCallInProgress, record: NodeRecord, found: FunctionSignature) -> bool:
        """Let the outputs of the call take on what its run showed; tells whether they can."""
        signature = self._run.signature
        if (
            len(found.outputs) != len(signature.outputs)
            or found.as_tuple != signature.as_tuple
            or any(origin[:1] == (DIRTY,) for origin in found.origins)
            or max(found.twins, default=-1) >= 0
            or any(entry.dtype is None for entry in found.outputs)
            or call.recorder.log.reads(record)
        ):
            return False
        return call.replace_signature(record, found, [result() for result in self._results], self._node)

    def _message(self, difference: str) -> str:
        name = self._applied.__name__
        return (
            f"{name} behaved differently with {self._texts(self._values)} than with {self._texts(self._run.values)}: "
            f"{difference}. Numbers given to apply are taken to be data, on which the kinds, shapes and dtypes of "
            f"outputs do not depend, and more was recorded by that. Give {name} an infer, which says what it returns "
            "for each number, or read an output (.numpy(), .tolist()) before anything else is done with it. With these "
            "numbers it is known from now on"
        )

    def _texts(self, values: Sequence[Any]) -> str:
        """Return those numbers of a call in which it differs from what was presumed, in words."""
        differing = differing_numbers(self._run.values, self._values)
        texts = argument_texts(self._applied, self._places, values)
        return ", ".join([text for i, text in enumerate(texts) if i in differing])
