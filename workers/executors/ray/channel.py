"""The message channel to one worker's actor: numbering, program loading, and batching of short calls.

The Ray executor sends through it under its lock, and takes in the answers itself. Messages are numbered and name those
that must end before them. The worker keeps that order (`call_sequencer`), so a message is sent before the one before it
is answered. Calls are batched while the worker has enough to do, if they are known to be short and neither read nor
return objects: a message costs both sides half a millisecond."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from raygrad.proto.ir.program import Pinned, Program

from ...code.shipping import Shipment
from ...process.fault_points import FaultHook
from ...values.wire import Frame, Order, compact, encode_order, encode_program
from ..base import SegmentId, Work
from .actor import CONTROL_GROUP

MESSAGES_AHEAD: Final = 2
"""Messages with calls that are in flight to a worker: one that runs, one that is there when it ends."""

SHORT_SECONDS: Final = 0.01
"""A call is batched if the last call of its program took no longer than this."""

BATCH_SECONDS: Final = 0.02
"""The most seconds of calls in a batch: they are answered together, too."""

BATCH_BYTES: Final = 1024 * 1024
"""The most bytes of calls in a batch."""


class Withdrawal:
    """A request to withdraw works of several workers, and what has been answered."""

    def __init__(self) -> None:
        self.unanswered = 0
        """The number of workers that have not answered."""
        self.works: list[Work] = []
        """What was withdrawn."""


class WithdrawalPart(NamedTuple):
    """The part of a withdrawal that one worker answers."""

    withdrawal: Withdrawal
    works: dict[int, list[Work]]
    """By number of a message, works of it that are to be withdrawn."""


class LoadRequest:
    """The request of a message that loads programs."""


LOAD_REQUEST: Final = LoadRequest()


@dataclass(slots=True)
class SentMessage:
    """A numbered message, sent or to be sent."""

    number: int
    reference: Any = None
    """The reference of its answer, once it is sent."""
    works: list[Work] = field(default_factory=list[Work])
    """Its calls."""
    withdrawn: int = 0
    """The number of its calls that are to be withdrawn."""


@dataclass(slots=True)
class CallBatch:
    """Calls that are sent in one message."""

    sent: SentMessage
    since: float
    after: set[int] = field(default_factory=set[int])
    frames: list[Frame | bytes] = field(default_factory=list["Frame | bytes"])
    seconds: float = 0.0
    size: int = 0


class Channel:
    """The sending side of one worker's actor; see the head of this file.

    Args:
        actor: the worker's actor.
        on_sent: called for each message that will be answered, with the reference of the answer, its number, and its
            request (works, or a `LoadRequest`).
    """

    def __init__(self, actor: Any, on_sent: Callable[[Any, int, list[Work] | LoadRequest], None]) -> None:
        self.actor = actor
        self.batch: CallBatch | None = None
        self.programs: dict[bytes, int] = {}
        """By key of each program that was sent, the number of the message."""
        self.code: set[str] = set()
        """Fingerprints of user code that was sent."""
        self.in_flight: dict[SegmentId, SentMessage] = {}
        """Segments that are sent or batched, and not answered or withdrawn."""
        self.withdrawn: dict[int, list[Work]] = {}
        """By number of a message that is not answered, the calls of it that were withdrawn."""
        self._on_sent = on_sent
        self._numbers = 0
        self._unanswered: dict[int, bool] = {}
        """By number of a message that is not answered, whether it has calls."""
        self._loads: set[int] = set()
        """The numbers of unanswered messages that load programs."""
        self._unpin = -1
        """The number of the last message that unpins values, which comes after those before it; -1 for none."""
        self._calls = 0
        """The number of unanswered messages with calls."""
        self._seconds: dict[bytes, float] = {}
        """By key of a program, the seconds of its last call."""
        self._methods: dict[tuple[str, int], Any] = {}
        """By name and number of returned objects, the methods of the actor."""

    def run(self, work: Work, frame: Frame | bytes, references: Sequence[Any]) -> list[Any]:
        """Send a call, or add it to the batch; return the references of the objects that it returns."""
        seconds = self._seconds.get(work.call.program, SHORT_SECONDS + 1.0)
        exports = len(work.program.exports)
        alone = bool(references or exports or seconds > SHORT_SECONDS or not isinstance(frame, bytes))
        batch = self.batch
        if batch is not None and (
            alone or batch.seconds + seconds > BATCH_SECONDS or batch.size + len(frame) > BATCH_BYTES
        ):
            self.flush()
            batch = None
        if batch is None:
            batch = CallBatch(SentMessage(self._number(calls=True)), time.monotonic())
        batch.sent.works.append(work)
        batch.frames.append(frame)
        batch.seconds += seconds
        batch.size += len(frame)
        for segment in work.after:
            earlier = self.in_flight.get(segment)
            if earlier is not None and earlier is not batch.sent:
                batch.after.add(earlier.number)
        load = self.programs.get(work.call.program, -1)
        for number in self._loads:  # of earlier ones, too: code that two programs name goes with the first of them
            if number <= load:
                batch.after.add(number)
        if self._unpin >= 0:
            batch.after.add(self._unpin)
        self.in_flight[SegmentId(work.call.run, work.call.segment)] = batch.sent
        if alone or self._calls <= MESSAGES_AHEAD:
            return self._send(batch, references, exports)
        self.batch = batch
        return []

    def flush(self) -> None:
        """Send the batch."""
        if self.batch is not None:
            self._send(self.batch, (), 0)

    def load(self, programs: Mapping[bytes, Program], code: Mapping[str, Shipment]) -> None:
        """Send those programs, and their code, that were not sent before."""
        frames = {key: compact(encode_program(one)) for key, one in programs.items() if key not in self.programs}
        if not frames:
            return
        self.flush()
        news = {name: shipment for name, shipment in code.items() if name not in self.code}
        number = self._number(calls=False)
        reference = self.actor.load.remote(number, frames, news)
        self.programs.update(dict.fromkeys(frames, number))
        self.code.update(news)
        self._on_sent(reference, number, LOAD_REQUEST)

    def forget_programs(self, keys: Sequence[bytes]) -> None:
        """Have the worker forget those programs that were sent."""
        sent = tuple([key for key in keys if self.programs.pop(key, None) is not None])
        for key in sent:
            self._seconds.pop(key, None)
        if sent:
            self._method("forget_programs", 0).remote(sent)

    def fetch(self, run: int, value: int, after: SegmentId | None, requested: bool = False) -> tuple[Any, Any]:
        """Request a pinned value; return the references of the `FetchReply` and of the object."""
        self.flush()
        earlier = None if after is None else self.in_flight.get(after)
        # fetches are not counted, and so must not wait at the worker: its threads might be used up
        waits = () if earlier is None else (earlier.reference,)
        about, reference = self._method("fetch", 2).remote(run, value, requested, *waits)
        return about, reference

    def take_emits(self) -> Any:
        """Ask for emits that calls send ahead of their records; return the reference of the answer, which comes when
        there are any."""
        return self.actor.take_emits.remote()

    def copy(self, values: Sequence[tuple[int, int]]) -> tuple[Any, list[Any]]:
        """Request copies of pinned values, each (run, value); return the references of their `FetchReply`s, in one, and
        of the objects."""
        about, *references = self._method("copy", 1 + len(values)).remote(tuple(values))
        return about, references

    def unpin(self, values: Sequence[Pinned]) -> None:
        """Have the worker release pinned values, before it begins a call that is sent later."""
        self.flush()
        before = () if self._unpin < 0 else (self._unpin,)
        self._unpin, self._numbers = self._numbers, self._numbers + 1
        self._method("unpin", 0).remote(self._unpin, before, tuple(values))

    def abandon_message(self, number: int, works: Sequence[Work]) -> None:
        """Cancel a message at the worker: the values that its calls would have pinned are poison."""
        pins = [Pinned(work.call.run, value) for work in works for _, value in work.program.pins]
        self._method("abandon_message", 0).remote(number, pins)

    def stop(self, runs: Sequence[int]) -> Any:
        """Have the worker skip the calls of runs and interrupt the one that it runs; return the reference of its
        answer."""
        self.flush()  # what is batched is skipped there, and answered
        return self.actor.stop.options(concurrency_group=CONTROL_GROUP).remote(tuple(runs))

    def progress(self) -> Any:
        """Ask the worker how far it is; return the reference of its answer."""
        return self.actor.progress.options(concurrency_group=CONTROL_GROUP).remote()

    def set_fault_hook(self, hook: FaultHook | None) -> Any:
        """Have the worker call a hook at its points; return the reference of its answer."""
        return self.actor.set_fault_hook.options(concurrency_group=CONTROL_GROUP).remote(hook)

    def complete(self, number: int, works: Sequence[Work] = ()) -> None:
        """Note that a message was answered."""
        self._calls -= self._unanswered.pop(number)
        self._loads.discard(number)
        self.withdrawn.pop(number, None)
        for work in works:
            self._forget(number, work)

    def _forget(self, number: int, work: Work) -> None:
        """Forget that a work of message `number` is in flight; it may have been sent again since."""
        name = SegmentId(work.call.run, work.call.segment)
        sent = self.in_flight.get(name)
        if sent is not None and sent.number == number:
            del self.in_flight[name]

    def withdraw(self, names: Iterable[SegmentId], withdrawal: Withdrawal) -> tuple[Any, WithdrawalPart]:
        """Have the worker withdraw works that it has not begun; return the reference of its answer."""
        self.flush()
        part = WithdrawalPart(withdrawal, {})
        messages: dict[int, SentMessage] = {}
        for name in names:
            sent = self.in_flight.get(name)
            if sent is not None:
                messages[sent.number] = sent
                some = part.works.setdefault(sent.number, [])
                some.extend([one for one in sent.works if (one.call.run, one.call.segment) == name])
        asked: list[tuple[int, tuple[int, ...], bool]] = []
        for number, works in part.works.items():
            sent = messages[number]
            sent.withdrawn += len(works)
            positions = tuple([place for place, work in enumerate(sent.works) if work in works])
            asked.append((number, positions, sent.withdrawn == len(sent.works)))
        return self._method("withdraw", 1).remote(asked), part

    def take_withdrawn(self, part: WithdrawalPart, numbers: Iterable[int]) -> list[Work]:
        """Note which messages had not begun; return the works that were withdrawn."""
        found: list[Work] = []
        for number in numbers:
            for work in part.works[number]:
                self._forget(number, work)
                found.append(work)
            if number in self._unanswered:
                self.withdrawn.setdefault(number, []).extend(part.works[number])
        return found

    def record_duration(self, work: Work, seconds: float) -> None:
        """Note the duration of a call of this program."""
        self._seconds[work.call.program] = seconds

    def close(self) -> None:
        """Forget what is in flight: the worker died or was stopped."""
        self.batch = None
        self.in_flight.clear()

    @property
    def has_capacity(self) -> bool:
        """Whether the worker has so little to do that the batch should be sent."""
        return self._calls - (self.batch is not None) < MESSAGES_AHEAD

    def _send(self, batch: CallBatch, references: Sequence[Any], exports: int) -> list[Any]:
        if batch is self.batch:
            self.batch = None
        works = batch.sent.works
        run = min([work.call.run for work in works])
        priority = max([work.priority for work in works if work.call.run == run])
        order = Order(batch.sent.number, tuple(sorted(batch.after)), exports, tuple(batch.frames), run, priority)
        answer: Any = self._method("run", 1 + exports).remote(*encode_order(order), *references)
        answers: list[Any] = answer if exports else [answer]
        batch.sent.reference = answers[0]
        self._on_sent(answers[0], batch.sent.number, works)
        return answers[1:]

    def _number(self, *, calls: bool) -> int:
        number, self._numbers = self._numbers, self._numbers + 1
        self._unanswered[number] = calls
        self._calls += calls
        if not calls:
            self._loads.add(number)
        return number

    def _method(self, name: str, returns: int) -> Any:
        known = self._methods.get((name, returns))
        if known is None:
            known = self._methods[name, returns] = getattr(self.actor, name).options(num_returns=returns)
        return known
