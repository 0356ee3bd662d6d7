"""Function recorder: records calls of user Functions; the first of a kind runs before the next line (H3).

The implementation of `apply` in a session. No user's forward runs at the client: its outputs are learned from records
of runs. What a call is given is in `call_arguments`, its node in `call_nodes`, its derivatives in `vjps`.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import Path, path_of_application
from raygrad.autograd.dispatch.device_dispatch import check_kinds
from raygrad.autograd.functions.function import Function
from raygrad.autograd.functions.function_traits import may_mark
from raygrad.autograd.tensor.presumed_tensor import hidden_data
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.nodes import UNPLACED, FunctionCall
from raygrad.proto.ir.specs import STAYS, UnknownSpec

from ..recording.record_inputs import InputRecorder
from ..recording.records import CONTEXT, NodeRecord
from ..recording.source_locations import user_site
from .aliased_arguments import check_aliased, may_change
from .call_arguments import CallArguments
from .call_costs import CallCost, declares_cost, hinted_seconds
from .call_nodes import complete_node, node_of
from .call_signature import CallSignature, any_on_device, context_of, with_flags
from .deferred_signature import DeferredSignature, deferred_like, outputs_of_backward, structure_key
from .observations import Observations, RecentTable
from .observed_signature import FunctionSignature, PendingObservation, declared_signature, signature_of_run
from .outputs import fresh_outputs, wrap_outputs
from .presumed_signature import PresumedSignature
from .recorded_function_node import RecordedFunction
from .saved_policy import RECOMPUTE, CallRematerialisation, RegionRematerialisation, is_pure
from .user_code import UserCode

if TYPE_CHECKING:
    from ..session.execution import SessionExecution


class FunctionRecorder:
    """Records calls of user Functions, for one session."""

    def __init__(
        self, code: UserCode, inputs: InputRecorder, observed: Observations, execution: SessionExecution
    ) -> None:
        self.log = inputs.log
        self.inputs = inputs
        self.code = code
        self.observed = observed
        self.execution = execution
        self.call_signatures: dict[Any, CallSignature] = RecentTable()
        """By key, what calls of a user Function share."""

    def apply(self, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Record `cls.apply(*args, **named)`; the first time for a key, run up to here and learn from it."""
        path = path_of_application(state.here)
        with self.log.lock:
            one = FunctionCallInProgress(self, cls, args, named)
            one.path = path
            call_signature = one.known_call_signature()
            if call_signature is None and (structure := one.known_structure()) is not None:
                call_signature, record, values = one.deferred(structure)
            elif call_signature is None:
                call_signature, record, values = one.run_first()
            else:
                if one.numbered:
                    call_signature = with_flags(call_signature, one.flags, self.log.kinds)
                signature = call_signature.signature
                call = call_signature.call._replace(silent=True) if state.here.replaying else call_signature.call
                record = NodeRecord(self.log, call, one.sources, call_signature.outputs, user_site())
                record.pinned = call_signature.pinned
                record.effects = call_signature.effects
                record.kind = call_signature.kind if call is call_signature.call else 0
                if one.presumed is not None:
                    record.learn = PresumedSignature(one, one.presumed, record, call_signature)
                elif signature.expected is None:
                    record.learn = PendingObservation(one.where, signature)
                    record.learn.general, record.learn.numbers = one.general, one.numbers
                record.call_cost = one.call_cost
                record.paths = (path,)
                self.log.add(record)
                values = [record.output(i) for i in range(1, len(call_signature.outputs))]
            result = one.returned(record, call_signature, values)
            if one.changing:
                self.code.will_call(one.changing)
            if self.code.will_run(one.shipped, forward=True) or one.changing:
                record.effects = True
                self.code.settle()
            elif self.execution.sync:
                self.execution.wait_for_everything()
            return result


class FunctionCallInProgress(CallArguments):
    """One call under way: how it is recorded, and what its outputs become."""

    __slots__ = ("path",)

    path: Path
    """The path of the application."""

    def known_call_signature(self) -> CallSignature | None:
        """Return what calls like this one have in common, and find what is known of its time; None if neither runs nor
        its class tell what it returns."""
        recorder = self.recorder
        signature = recorder.observed.signatures.get(self.where)
        if signature is None and self.numbers:
            signature = self.presumed_signature()
        if self.related > 1 and self.shared is None and may_change(self.written, signature) and self.reads_aliased():
            return self.known_call_signature()
        run = self.presumed
        call_signature = recorder.call_signatures.get(self.where if run is None else run.where)
        if call_signature is None or not call_signature.serves(self.cls, signature):
            self._find_hint()
            return self._predicted(signature)
        if call_signature.hinted:
            self._find_hint()
        elif self.others:
            self.call_cost = _call_cost(CallCost, (0.0, self.others))
        return call_signature

    def _find_hint(self) -> None:
        """Find what its class says of its time; what it says wrongly is an error before anything runs."""
        hinted = declares_cost(self.written)
        if hinted:
            self.recorder.code.call_costs.hinted = True
        if hinted or self.others:
            seconds = hinted_seconds(self.written, self.args, self.named) if hinted else 0.0
            self.call_cost = CallCost(seconds, self.others)

    def _predicted(self, signature: FunctionSignature | None) -> CallSignature | None:
        """Return what is known of such applications from now on, None if it has to run first."""
        recorder, written = self.recorder, self.written
        if any_on_device(self.inputs):
            check_kinds(written, [value.device for value in self.inputs if value is not None])
        if signature is None and self.declares:
            signature = declared_signature(recorder.log.specs, self.cls, self.args)
        if signature is None:
            return None
        run = self.presumed
        if run is None and self.numbers and (others := recorder.observed.numbers.get(self.general)) is not None:
            run = others.run_with(self.numbers)
        where = self.where if run is None else run.where
        call_signature = recorder.call_signatures.get(where)
        if call_signature is None or not call_signature.serves(self.cls, signature):
            call_signature = self._call_signature(signature)
        if recorder.observed.signatures.get(where) is signature:
            recorder.call_signatures[where] = call_signature
            if self.presumed is None:
                recorder.call_signatures[self.where] = call_signature
        return call_signature

    def _call_signature(self, signature: FunctionSignature) -> CallSignature:
        kinds, call = self.recorder.log.kinds, self._call()
        if self.numbered:
            call = call._replace(requires_grad=tuple([min(flag, 1) for flag in self.flags]))
        return CallSignature(self.cls, signature, call, self.where, self.policy(), self.inputs, kinds)

    def is_plain(self) -> bool:
        """Tell whether its outputs can take on another signature afterwards: not where more than they goes by it."""
        here = state.here
        special = here.inference or here.forward or here.replaying or self.recorder.log.trace is not None
        if special or self.shared is not None or self.region is not None or self.cls is not self.written:
            return False
        return not any(isinstance(arg, Tensor) and arg.is_inference() for arg in self.args)

    def _call(self) -> FunctionCall:
        """Return forward as a node runs it, of which nothing is known yet."""
        return FunctionCall(
            *UNPLACED,
            fn=self.fn,
            requires_grad=tuple(self.flags),
            recorded=self.recording,
            pure=bool(self.cls is self.written and is_pure(self.cls)),
            impure=is_pure(self.written) is False,
            silent=False,
            expected=None,
            keywords=tuple(self.named),
            shared=() if self.shared is None else self.shared.where,
            leaves=None if self.reachable is None else self.reachable.in_node,
            settings=self.settings,
        )

    def known_structure(self) -> FunctionSignature | None:
        """Return a signature of the Function that tells how many tensors a call with other specs or options returns;
        None where that is not known, or where more than its outputs goes by the signature at once."""
        recorder = self.recorder
        structure = recorder.observed.structures.get(self.structure)
        execution = recorder.execution
        if structure is None or execution.sync or execution.limited or self.declares or not self.is_plain():
            return None
        here = state.here
        if here.anomaly is not None or here.transforms or self.reachable is not None or any_on_device(self.inputs):
            return None
        if may_mark(self.written) or (self.recording and self.policy() == RECOMPUTE):
            return None
        certain = outputs_of_backward(self.written)
        return structure if certain == len(structure.outputs) or (certain is None and not structure.as_tuple) else None

    @property
    def structure(self) -> Any:
        """The key of what the number of its outputs depends on."""
        return structure_key(self.written, self.general, self.numbers)

    def deferred(self, structure: FunctionSignature) -> tuple[CallSignature, NodeRecord, list[Any]]:
        """Record the call without knowing what it returns, but for the number of tensors."""
        log = self.recorder.log
        signature = deferred_like(structure, log.specs.entry(UnknownSpec()))
        call_signature = self._call_signature(signature)
        if self.numbered:
            call_signature = with_flags(call_signature, self.flags, log.kinds)
        record = NodeRecord(log, call_signature.unchecked, self.sources, call_signature.outputs, user_site())
        record.effects = record.pinned = True
        record.call_cost, record.paths = self.call_cost, (self.path,)
        record.learn = DeferredSignature(self, structure, self.structure)
        log.add(record)
        log.calls.add(record)
        return call_signature, record, [record.output(i) for i in range(1, len(call_signature.outputs))]

    def run_first(self) -> tuple[CallSignature, NodeRecord, list[Any]]:
        """Run up to and including the Function, wait, and return what its run showed with its outputs."""
        recorder, cls = self.recorder, self.cls
        call = self._call()._replace(silent=state.here.replaying)
        record = NodeRecord(recorder.log, call, self.sources, (CONTEXT,), user_site())
        record.call_cost, record.paths = self.call_cost, (self.path,)
        recorder.log.add(record)
        record.effects = True
        record.pinned = True  # whether its context can leave its worker is not known yet (H10)
        learning = record.learn = PendingObservation(self.where)
        context = record.output(0) if self.recording else None
        record.saved |= 1
        started = time.monotonic()
        try:
            recorder.execution.submit(open_ended=True)
        except BaseException:
            if record in recorder.log.records:  # not sent: an error of earlier work came first
                recorder.log.records.remove(record)
            raise
        recorder.execution.wait_for(record, lambda: learning.learned is not None)
        recorder.observed.waited(cls.__name__, time.monotonic() - started)
        signature = signature_of_run(recorder.log.specs, learning.learned)
        if signature.is_lasting():
            recorder.observed.enter(self.where, signature, self.general, self.numbers, self.structure)
        record.outputs = (CONTEXT, *signature.outputs)
        values = [record.output(i + 1) for i in range(len(signature.outputs))]
        recorder.execution.hold(record)
        if context is not None:
            record.live |= 1
            values.append(context)
        call_signature = self._call_signature(signature)
        call_signature.pinned = True
        record.outputs = (context_of(signature, call_signature.bound or STAYS), *signature.outputs)
        if self.shared is not None and not may_change(self.written, signature):
            recorder.observed.signatures[self.where[:-1]] = signature  # the key without what is said of shared memory
        elif self.shared is None and self.related > 1 and may_change(self.written, signature):
            check_aliased(self.written, self.args)
        return call_signature, record, values

    def replace_signature(
        self,
        record: NodeRecord,
        signature: FunctionSignature,
        results: Sequence[Tensor | None],
        holder: weakref.ref[RecordedFunction] | None,
    ) -> bool:
        """Let the outputs of a recorded call take on the signature that its run showed, which is another than was
        presumed; tells whether they can.

        Args:
            record: the record of the call.
            signature: what its run showed.
            results: the tensors that it returned, None for those that are gone.
            holder: refers to its node, if it has one.
        """
        recorder = self.recorder
        call_signature = self._call_signature(signature)
        node = None if holder is None else holder()
        flows = self.recording and True in signature.differentiable and (holder is None or node is not None)
        values: list[Any] = [None if result is None else hidden_data(result) for result in results]
        context = None if node is None or node._repetition is not None else node._context
        if flows and (context is None or any(values[j] is None for j in signature.saved_outputs or ())):
            return False
        later = {origin[1] for origin in signature.origins if origin}
        if flows and node is not None:
            later |= {i for i in call_signature.saved if i not in node._saved_inputs}
        if any(i >= 0 and recorder.inputs.leaf(self.args[i]) is not self.inputs[i] for i in later):
            return False  # changed since: it is not what forward read
        call_signature.pinned = record.pinned
        record.outputs = (context_of(signature, call_signature.bound or STAYS), *signature.outputs)
        for value in (context, *values):
            if value is not None:
                entry: Any = record.outputs[value.index]
                value.shape, value.dtype, value.spec = entry.shape, entry.dtype, entry
        if flows and node is not None:
            complete_node(self, node, record, call_signature, values)
        wrap_outputs(
            recorder, self.written, record, signature, self.args, self.inputs, values, node if flows else None, results
        )
        return True

    def returned(self, record: NodeRecord, call_signature: CallSignature, values: list[Any]) -> Any:
        """Return what apply returns, as pending tensors with a node that records their vjp."""
        signature, recorder, region = call_signature.signature, self.recorder, self.region
        context = repetition = None
        if self.recording:
            context = values.pop() if len(values) > len(signature.outputs) else record.output(0)
            record.saved |= 1
        node = None
        if context is not None and True in signature.differentiable:
            if call_signature.repeats and region is None:
                repetition = CallRematerialisation.of(
                    recorder, call_signature, record, self.read, self.sources, self.captured, values
                )
                context = None
            node = node_of(self, record, call_signature, context, values)
            node.__dict__["_repetition"] = repetition
        if call_signature.plain and not state.here.inference:
            result = fresh_outputs(signature, values, node)
        else:
            result = wrap_outputs(recorder, self.written, record, signature, self.args, self.inputs, values, node)
        if self.presumed is not None or signature.expected is None:
            learning: Any = record.learn
            learning.returned(result, node)
        if node is not None and self.shared is not None and may_change(self.written, signature):
            self.shared.save(recorder.inputs, node, self.args)
        if node is not None and region is not None:
            node.__dict__["_others"] = self.others
            if (again := region.applied(node)) is not None:
                node.discard_saved(RegionRematerialisation(again))
        return result


_call_cost: Any = cast("Any", tuple).__new__
"""Makes a `CallCost` in a quarter of the time."""
