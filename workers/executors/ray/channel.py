"""What goes to one worker's actor, and in which messages.

Rules of this file: sending only; answers are taken in by the executor, which holds its lock around every call here.
Messages are numbered, and name those that must have ended before: the worker keeps that order (`turns`), so that a
message can be sent before anything is known of the one before it. Calls that read and return no objects and are known
to be short are held back while the worker has enough to do, and go together: a message costs both sides half a
millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from raygrad.proto.ir.program import Pinned, Program

from ...code.shipping import Shipment
from ...values.wire import Frame, Order, compact, encode_order, encode_program
from ..base import SegmentId, Work

AHEAD: Final = 2
"""Messages with calls that a worker has at once: one that it runs, one that it need not wait for."""

SHORT_SECONDS: Final = 0.01
"""A call is held back if calls of its program take no longer than this."""

TOGETHER_SECONDS: Final = 0.02
"""Calls that go together take no longer than this: they are answered together, too."""

TOGETHER_BYTES: Final = 1024 * 1024
"""And have no more bytes than this."""


class Loaded:
    """That programs be loaded: what a message asked for."""


LOADED: Final = Loaded()


@dataclass(slots=True)
class Sent:
    """A message, or one that will be sent."""

    number: int
    reference: Any = None
    """Of its answer, once it was sent."""


@dataclass(slots=True)
class Held:
    """Calls that wait to be sent together."""

    sent: Sent
    since: float
    after: set[int] = field(default_factory=set[int])
    works: list[Work] = field(default_factory=list[Work])
    frames: list[Frame | bytes] = field(default_factory=list["Frame | bytes"])
    seconds: float = 0.0
    size: int = 0


class Channel:
    """See the head of this file.

    Args:
        actor: the worker's actor.
        asked: is told of each message that will be answered: the reference of the answer, its number, and what was
            asked for (works, or that programs be loaded).
    """

    def __init__(self, actor: Any, asked: Callable[[Any, int, list[Work] | Loaded], None]) -> None:
        self.actor = actor
        self.held: Held | None = None
        self.programs: dict[bytes, int] = {}
        """By key of each program that was sent, the number of the message."""
        self.code: set[str] = set()
        """Fingerprints of user code that was sent."""
        self.under_way: dict[SegmentId, Sent] = {}
        """Segments that are not answered."""
        self._asked = asked
        self._numbers = 0
        self._unanswered: dict[int, bool] = {}
        """By number of a message that is not answered, whether it has calls."""
        self._calls = 0
        """How many of them have calls."""
        self._seconds: dict[bytes, float] = {}
        """By key of a program, what its last call took."""
        self._methods: dict[tuple[str, int], Any] = {}
        """By name and number of returned objects, the methods of the actor."""

    def run(self, work: Work, frame: Frame | bytes, references: Sequence[Any]) -> list[Any]:
        """Send a call that reads objects, or hold it back; return the references of the objects that it returns."""
        seconds = self._seconds.get(work.call.program, SHORT_SECONDS + 1.0)
        exports = len(work.program.exports)
        alone = bool(references or exports or seconds > SHORT_SECONDS or not isinstance(frame, bytes))
        held = self.held
        if held is not None and (
            alone or held.seconds + seconds > TOGETHER_SECONDS or held.size + len(frame) > TOGETHER_BYTES
        ):
            self.send_held()
            held = None
        if held is None:
            held = Held(Sent(self._number(calls=True)), time.monotonic())
        held.works.append(work)
        held.frames.append(frame)
        held.seconds += seconds
        held.size += len(frame)
        for segment in work.after:
            earlier = self.under_way.get(segment)
            if earlier is not None and earlier is not held.sent:
                held.after.add(earlier.number)
        load = self.programs.get(work.call.program)
        if load in self._unanswered:
            held.after.add(load)
        self.under_way[SegmentId(work.call.run, work.call.segment)] = held.sent
        if alone or self._calls <= AHEAD:
            return self._send(held, references, exports)
        self.held = held
        return []

    def send_held(self) -> None:
        """Send what is held back."""
        if self.held is not None:
            self._send(self.held, (), 0)

    def load(self, programs: Mapping[bytes, Program], code: Mapping[str, Shipment]) -> None:
        """Send those of these programs, and of their code, that were not sent before."""
        frames = {key: compact(encode_program(one)) for key, one in programs.items() if key not in self.programs}
        if not frames:
            return
        self.send_held()
        news = {name: shipment for name, shipment in code.items() if name not in self.code}
        number = self._number(calls=False)
        reference = self.actor.load.remote(number, frames, news)
        self.programs.update(dict.fromkeys(frames, number))
        self.code.update(news)
        self._asked(reference, number, LOADED)

    def fetch(self, run: int, value: int, after: SegmentId | None, asked: bool = False) -> tuple[Any, Any]:
        """Ask for a pinned value; return the references of what is told of it, and of the object."""
        self.send_held()
        earlier = None if after is None else self.under_way.get(after)
        # fetches are not counted, and so must not wait at the worker: its threads might be used up
        waits = () if earlier is None else (earlier.reference,)
        about, reference = self._method("fetch", 2).remote(run, value, asked, *waits)
        return about, reference

    def unpin(self, values: Sequence[Pinned]) -> None:
        """Have the worker forget pinned values."""
        self.send_held()
        self._method("unpin", 0).remote(tuple(values))

    def give_up(self, number: int, works: Sequence[Work]) -> None:
        """Tell the worker that a message never comes, and that what its calls were to pin is poison."""
        pins = [Pinned(work.call.run, value) for work in works for _, value in work.program.pins]
        self._method("give_up", 0).remote(number, pins)

    def answered(self, number: int, works: Sequence[Work] = ()) -> None:
        """A message has been answered."""
        self._calls -= self._unanswered.pop(number)
        for work in works:
            self.under_way.pop(SegmentId(work.call.run, work.call.segment), None)

    def took(self, work: Work, seconds: float) -> None:
        """A call took so long."""
        self._seconds[work.call.program] = seconds

    def close(self) -> None:
        """The worker is gone: nothing is under way, or will be."""
        self.held = None
        self.under_way.clear()

    @property
    def hungry(self) -> bool:
        """Whether the worker has too little to do for anything to be held back."""
        return self._calls - (self.held is not None) < AHEAD

    def _send(self, held: Held, references: Sequence[Any], exports: int) -> list[Any]:
        if held is self.held:
            self.held = None
        order = Order(held.sent.number, tuple(sorted(held.after)), exports, tuple(held.frames))
        answer: Any = self._method("run", 1 + exports).remote(*encode_order(order), *references)
        answers: list[Any] = answer if exports else [answer]
        held.sent.reference = answers[0]
        self._asked(answers[0], held.sent.number, held.works)
        return answers[1:]

    def _number(self, *, calls: bool) -> int:
        number, self._numbers = self._numbers, self._numbers + 1
        self._unanswered[number] = calls
        self._calls += calls
        return number

    def _method(self, name: str, returns: int) -> Any:
        known = self._methods.get((name, returns))
        if known is None:
            known = self._methods[name, returns] = getattr(self.actor, name).options(num_returns=returns)
        return known
