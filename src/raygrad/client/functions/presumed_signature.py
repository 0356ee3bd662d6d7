"""Presumed signatures: calls recorded by what runs with other numbers showed, until their own run confirms it (H3).

The Function recorder makes one for each such call. The submission decides how the run is checked, and the run listener
reports what it showed: where nothing was built on a wrong presumption, the call's outputs take on what it did show.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.tensor.presumed_tensor import PresumedTensor
from raygrad.errors import GraphError
from raygrad.proto.ir.signatures import DIRTY
from raygrad.proto.ir.specs import STAYS
from raygrad.tracebacks import add_note
from raygrad.workers.code.shipping import message_of
from raygrad.workers.interpreter.functions import UNSAID

from .call_signature import context_of
from .numeric_arguments import NumericRun, argument_texts, differing_numbers
from .unconfirmed_signature import UnconfirmedSignature, difference

if TYPE_CHECKING:
    from ..recording.records import NodeRecord
    from .call_signature import CallSignature
    from .functions import FunctionCallInProgress
    from .observed_signature import FunctionSignature


class PresumedSignature(UnconfirmedSignature):
    """The signature presumed for one call; `relied_on` tells whether it was seen, or something recorded by it."""

    __slots__ = ("_call_signature", "_places", "_record", "_run", "_table", "_values")

    tensor_class = PresumedTensor

    def __init__(
        self, call: FunctionCallInProgress, run: NumericRun, record: NodeRecord, call_signature: CallSignature
    ) -> None:
        super().__init__(call)
        self._table = self._observed.numbers[call.general]
        self._values, self._places = tuple(call.numbers), call.places
        self._run, self._call_signature = run, call_signature
        self._record = weakref.ref(record)
        self.relied_on = not (call.is_plain() and call_signature.plain) or call_signature.placed

    def rely(self) -> None:
        """Let the call be run, and fail if the presumption is wrong."""
        self.relied_on = True
        self._call = None
        record = self._record()
        if record is not None and record.run < 0:
            record.effects = True

    def prepare(self, record: NodeRecord, read: bool) -> None:
        """What other records read has to be as presumed, or the run fails; otherwise the run shows what it is."""
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
            return True
        self.wrong = GraphError(self._message(found))
        return False

    def explained(self, error: BaseException) -> BaseException:
        if self.wrong is None and UNSAID in message_of(error):
            self._table.distrust(self._run, self._values)
            add_note(
                error,
                f"raygrad: {self._applied.__name__} was expected to change what it changes with "
                f"{self._texts(self._run.values)}; it is run first with {self._texts(self._values)} from now on",
            )
        return super().explained(error)

    def _take_on(self, call: FunctionCallInProgress, record: NodeRecord, found: FunctionSignature) -> bool:
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
        return super()._take_on(call, record, found)

    def _message(self, found: FunctionSignature) -> str:
        name = self._applied.__name__
        return (
            f"{name} behaved differently with {self._texts(self._values)} than with {self._texts(self._run.values)}: "
            f"{difference(self._run.signature, found)}. Numbers given to apply are taken to be data, on which the "
            "kinds, shapes and dtypes of outputs do not depend, and more was recorded by that. Give "
            f"{name} an infer, which says what it returns for each number, or read an output (.numpy(), .tolist()) "
            "before anything else is done with it. With these numbers it is known from now on"
        )

    def _texts(self, values: Sequence[Any]) -> str:
        """Return those numbers of a call in which it differs from what was presumed, in words."""
        differing = differing_numbers(self._run.values, self._values)
        texts = argument_texts(self._applied, self._places, values)
        return ", ".join([text for i, text in enumerate(texts) if i in differing])
