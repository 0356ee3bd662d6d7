"""Saved policies: where a session or Function keeps what forward saves for backward, and rematerialisation of what was
not kept.

A forward that runs a second time must return the same bits (H2): unless the Function is declared pure, a digest of its
outputs is taken at the first run and compared at the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from raygrad.autograd.core.recorder import Data, Pending
from raygrad.proto.ir.nodes import UNPLACED, CheckDigest, Digest
from raygrad.proto.ir.specs import ObjectSpec

from ..recording.records import NodeRecord
from .observed_signature import PendingObservation

if TYPE_CHECKING:
    from .call_costs import CallCost
    from .call_signature import CallSignature
    from .functions import FunctionRecorder
    from .recorded_function_node import RecordedFunction

STORE: Final = "store"
WORKER: Final = "worker"
RECOMPUTE: Final = "recompute"
POLICIES: Final = (STORE, WORKER, RECOMPUTE)


def checked_policy(policy: Any, whose: str) -> str:
    """Return a policy that a user has set.

    Raises:
        ValueError: there is none of that name.
    """
    if policy not in POLICIES:
        raise ValueError(f"{whose} must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}")
    return policy


def is_pure(cls: type[Any]) -> bool | None:
    """Return whether a Function says of itself that nothing but what it returns shows that it ran; None if it does not
    say.

    Raises:
        TypeError: it says something else.
    """
    pure = getattr(cls, "pure", None)
    if pure is not None and type(pure) is not bool:
        raise TypeError(f"{cls.__name__}.pure must be True, False or None (not said), not {pure!r}")
    return pure


def is_pinned(cls: type[Any]) -> bool:
    """Return whether a Function says that its contexts stay on their worker.

    Raises:
        TypeError: it says something else.
    """
    pinned = getattr(cls, "pinned", False)
    if type(pinned) is not bool:
        raise TypeError(f"{cls.__name__}.pinned must be True or False, not {pinned!r}")
    return pinned


def policy_of(cls: type[Any], session_policy: str) -> str:
    """Return the policy that holds for a Function: its own `saved_policy`, or that of the session.

    Raises:
        ValueError: it names none, or it asks for recomputation and says that it is not pure.
        TypeError: see `is_pure`.
    """
    own, pure = getattr(cls, "saved_policy", None), is_pure(cls)
    if own is None:
        return STORE if session_policy == RECOMPUTE and pure is False else session_policy
    policy = checked_policy(own, f"{cls.__name__}.saved_policy")
    if policy == RECOMPUTE and pure is False:
        raise ValueError(
            f"{cls.__name__} has saved_policy = 'recompute' and pure = False, which says that its forward must not run "
            "twice: remove one of them"
        )
    return policy


class Rematerialised(NamedTuple):
    """What an application keeps for its backward, rematerialised."""

    context: Pending
    outputs: dict[int, Pending]
    """Those that were saved."""
    inputs: dict[int, Pending] | None = None
    """Those that were saved; None where they were kept."""
    application: RecordedFunction | None = None
    """The application in a second run of a region that this is of."""


class RegionRematerialisation(NamedTuple):
    """An application inside a checkpointed region: all that it kept is rematerialised with the region."""

    again: Callable[[Sequence[Data | None]], RecordedFunction]
    """Return the same application in a second run of the region, once some gradients are there."""

    def run(self, recorder: FunctionRecorder, grads: Sequence[Data | None]) -> Rematerialised:
        """Have the region run again, unless it did for this pass."""
        other = self.again(grads)
        assert other._context is not None
        return Rematerialised(other._context, other._saved_outputs, other._saved_inputs, other)


class CallRematerialisation(NamedTuple):
    """What it takes to run the forward of one application again."""

    call_signature: CallSignature
    site: Any
    inputs: Sequence[Pending | None]
    """Per argument, the tensor that it is."""
    sources: Sequence[Any]
    """What the application read; where there are `inputs`, these are read instead."""
    captured: Sequence[Pending | None]
    """What it captured, and the gradients of leaves that it met."""
    fingerprint: Pending | None
    """Of what the first run returned; None for a pure Function."""
    call_cost: CallCost | None
    """What is known of its time."""
    paths: tuple[Any, ...]
    """As `NodeRecord.paths`."""

    @staticmethod
    def of(
        recorder: FunctionRecorder,
        call_signature: CallSignature,
        record: NodeRecord,
        inputs: Sequence[Pending | None],
        sources: Sequence[Any],
        captured: Sequence[Pending | None],
        values: Sequence[Pending],
    ) -> CallRematerialisation:
        """Return what it takes for an application that was recorded as `record` and returns `values`."""
        for pending in inputs:
            if pending is not None:
                pending.record.retained(pending.index)
        fingerprint = None
        if not call_signature.pure:
            pairs = zip(values, call_signature.signature.outputs, strict=True)
            arrays = [recorder.inputs.source(value) for value, entry in pairs if entry.dtype is not None]
            entry = recorder.log.specs.entry(ObjectSpec())
            made = NodeRecord(recorder.log, Digest(*UNPLACED), arrays, (entry,), record.site)
            recorder.log.add(made)
            fingerprint = made.output(0)
        return CallRematerialisation(
            call_signature, record.site, inputs, sources, captured, fingerprint, record.call_cost, record.paths
        )

    def run(self, recorder: FunctionRecorder, grads: Sequence[Data | None]) -> Rematerialised:
        """Record the forward again, once `grads` are there."""
        call_signature, signature = self.call_signature, self.call_signature.signature
        sources = list(self.sources)
        for position, pending in enumerate(self.inputs):
            if pending is not None:
                sources[position] = recorder.inputs.source(pending)
        if self.captured:
            sources[-len(self.captured) :] = recorder.inputs.sources(self.captured)
        self._wait(recorder, sources, grads)
        call = call_signature.call._replace(silent=True)  # what it emits was sent the first time
        again = NodeRecord(recorder.log, call, sources, call_signature.outputs, self.site)
        again.pinned = call_signature.pinned
        again.call_cost, again.paths = self.call_cost, self.paths
        if signature.expected is None:
            again.learn = PendingObservation(call_signature.key, signature)
        recorder.log.add(again)
        context = again.output(0)
        places = range(len(signature.outputs)) if signature.saved_outputs is None else signature.saved_outputs
        arrays = {j: again.output(j + 1) for j, entry in enumerate(signature.outputs) if entry.dtype is not None}
        if self.fingerprint is not None:
            parts = [recorder.inputs.source(value) for value in (context, self.fingerprint, *arrays.values())]
            agree = CheckDigest(*UNPLACED, function=call_signature.name)
            check = NodeRecord(recorder.log, agree, parts, call_signature.outputs[:1], self.site)
            check.near = recorder.inputs.source(context)
            check.pinned = call_signature.pinned
            recorder.log.add(check)
            context = check.output(0)
        return Rematerialised(context, {j: arrays[j] for j in places if j in arrays})

    def _wait(self, recorder: FunctionRecorder, sources: list[Any], grads: Sequence[Data | None]) -> None:
        """Have the smallest argument come after the gradients: else forward would run as soon as it can, which is at
        once, and what it saves would wait for backward all the same."""
        awaited = [grad for grad in grads if grad is not None]
        tensors = [(pending.spec.bytes, i) for i, pending in enumerate(self.inputs) if pending is not None]
        if not awaited or not tensors:
            return
        first = self.inputs[min(tensors)[1]]
        assert first is not None
        late = recorder.inputs.source(recorder.log.recorder.with_dependencies(first, awaited))
        for position, pending in enumerate(self.inputs):
            if pending is not None and pending.record is first.record and pending.index == first.index:
                sources[position] = late  # given twice, it stays one value
