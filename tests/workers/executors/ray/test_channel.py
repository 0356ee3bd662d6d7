"""Without Ray: an actor that only notes what it is sent. That the real one keeps the order is in `test_ray`."""

from __future__ import annotations

from typing import Any

import pytest

from raygrad.proto.ir.program import Call, Pinned, Program
from raygrad.workers.executors.base import SegmentId, Work
from raygrad.workers.executors.ray.channel import (
    BATCH_BYTES,
    BATCH_SECONDS,
    MESSAGES_AHEAD,
    SHORT_SECONDS,
    Channel,
    Withdrawal,
)
from raygrad.workers.values.wire import JOINED_BYTES, decode_order

FRAME = b"call"


class Actor:
    """Answers with references that are numbers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.references = 0

    def __getattr__(self, name: str) -> Any:
        return Method(self, name)


class Method:
    def __init__(self, actor: Actor, name: str, returns: int = 1) -> None:
        self.actor, self.name, self.returns = actor, name, returns

    def options(self, num_returns: int) -> Method:
        return Method(self.actor, self.name, num_returns)

    def remote(self, *args: Any) -> Any:
        self.actor.sent.append((self.name, *args))
        made = [f"{self.name} {self.actor.references + i}" for i in range(self.returns)]
        self.actor.references += self.returns
        return made[0] if self.returns == 1 else made


class Sending:
    """A channel with what it asked for."""

    def __init__(self) -> None:
        self.actor = Actor()
        self.asked: dict[Any, tuple[int, Any]] = {}
        self.channel = Channel(
            self.actor, lambda reference, number, what: self.asked.update({reference: (number, what)})
        )

    def run(
        self,
        segment: int,
        after: tuple[int, ...] = (),
        exports: int = 0,
        references: tuple[Any, ...] = (),
        frame: Any = FRAME,
    ) -> Any:
        program = Program(1, (), (), (), (), (), ((0,),) * exports, ((0, segment),), ())
        call = Call(1, segment, 0, b"key", ())
        work = Work(worker=0, call=call, program=program, arguments=(), after=tuple(SegmentId(1, one) for one in after))
        return self.channel.run(work, frame, references)

    def known(self, seconds: float = SHORT_SECONDS / 2) -> Sending:
        """Make the program known to take so long."""
        self.run(100)
        self.answer()
        self.channel.record_duration(self.last[0], seconds)
        return self

    def answer(self) -> None:
        """Answer the earliest message."""
        reference = next(iter(self.asked))
        number, what = self.asked.pop(reference)
        self.last: Any = what
        self.channel.complete(number, what if isinstance(what, list) else ())

    @property
    def orders(self) -> list[tuple[int, tuple[int, ...], int]]:
        """Per message with calls: its number, those it comes after, how many calls it has."""
        orders = [decode_order(args)[0] for name, *args in self.actor.sent if name == "run"]
        return [(order.number, order.after, len(order.frames)) for order in orders]


@pytest.fixture
def sending() -> Sending:
    return Sending()


def test_a_call_names_the_messages_that_are_not_answered_and_that_it_comes_after(sending: Sending):
    sending.run(0)
    sending.run(1, after=(0,))
    sending.answer()
    sending.run(2, after=(0, 1))
    assert sending.orders == [(0, (), 1), (1, (0,), 1), (2, (1,), 1)]


def test_a_program_is_sent_once_and_its_first_calls_come_after_it(sending: Sending):
    program = Program(1, (), (), (), (), (), (), (), ())
    for _ in range(2):
        sending.channel.load({b"key": program}, {"@f": "code"})  # type: ignore[dict-item]
    sending.run(0)
    sending.answer()
    sending.run(1)
    assert [sent[0] for sent in sending.actor.sent] == ["load", "run", "run"]
    assert sending.orders == [(1, (0,), 1), (2, (), 1)]
    sending.channel.load({b"other": program}, {"@f": "code", "@g": "more"})  # type: ignore[dict-item]
    assert sending.actor.sent[-1][3] == {"@g": "more"}


def test_a_call_comes_after_the_message_with_code_that_an_earlier_program_brought(sending: Sending):
    """Messages may arrive in any order: the code of this program went with another one, which is not there yet."""
    program = Program(1, (), (), (), (), (), (), (), ())
    sending.channel.load({b"other": program}, {"@f": "code"})  # type: ignore[dict-item]
    sending.channel.load({b"key": program}, {"@f": "code"})  # type: ignore[dict-item]
    sending.channel.load({b"later": program}, {"@g": "code"})  # type: ignore[dict-item]
    assert [sent[3] for sent in sending.actor.sent] == [{"@f": "code"}, {}, {"@g": "code"}]
    sending.run(0)
    assert sending.orders == [(3, (0, 1), 1)]
    sending.answer()
    sending.run(1)
    assert sending.orders[1] == (4, (1,), 1)


def test_programs_that_come_together_are_one_message_which_the_calls_of_each_come_after(sending: Sending):
    program = Program(1, (), (), (), (), (), (), (), ())
    sending.channel.load({b"key": program, b"other": program}, {})
    sending.channel.load({b"other": program}, {})
    sending.run(0)
    assert [sent[0] for sent in sending.actor.sent] == ["load", "run"]
    assert list(sending.actor.sent[0][2]) == [b"key", b"other"]
    assert sending.orders == [(1, (0,), 1)]


def test_short_calls_are_held_back_while_the_worker_has_enough_to_do_and_go_together(sending: Sending):
    sending.known()
    for segment in range(MESSAGES_AHEAD + 3):
        sending.run(segment, after=(segment - 1,) if segment else ())
    assert sending.orders[1:] == [(1, (), 1), (2, (1,), 1)]
    assert not sending.channel.has_capacity
    sending.answer()
    assert sending.channel.has_capacity
    sending.channel.flush()
    assert sending.orders[3:] == [(3, (2,), 3)]
    assert not sending.channel.has_capacity
    assert [len(what) for _, what in sending.asked.values()] == [1, 3]


def test_a_call_of_which_nothing_is_known_and_one_that_takes_long_are_never_held_back(sending: Sending):
    for segment in range(5):
        sending.run(segment)
    sending.channel.record_duration(sending.asked["run 0"][1][0], SHORT_SECONDS * 2)
    for segment in range(5, 10):
        sending.run(segment)
    assert [calls for _, _, calls in sending.orders] == [1] * 10


def test_what_goes_together_is_over_soon(sending: Sending):
    sending.known(SHORT_SECONDS)
    for segment in range(MESSAGES_AHEAD + 10):
        sending.run(segment)
    assert {calls for _, _, calls in sending.orders[1 + MESSAGES_AHEAD :]} == {int(BATCH_SECONDS / SHORT_SECONDS)}


def test_calls_with_data_go_together_as_long_as_each_is_one_argument_and_all_are_no_more_than_one_message_bears(
    sending: Sending,
):
    sending.known(BATCH_SECONDS / 100)
    for segment in range(MESSAGES_AHEAD):
        sending.run(segment)
    batch, large = b"x" * JOINED_BYTES, [b"x" * JOINED_BYTES, b"y"]
    for segment in range(20, 20 + BATCH_BYTES // JOINED_BYTES + 1):
        sending.run(segment, frame=batch)
    sending.run(60, frame=large)
    sending.run(61)
    assert [calls for _, _, calls in sending.orders[1 + MESSAGES_AHEAD :]] == [BATCH_BYTES // JOINED_BYTES, 1, 1]
    _, *arguments = sending.actor.sent[1 + MESSAGES_AHEAD]
    assert [len(argument) for argument in arguments[1:]] == [JOINED_BYTES] * (BATCH_BYTES // JOINED_BYTES - 1)


@pytest.mark.parametrize("what", ["objects", "references", "load", "fetch", "unpin"])
def test_whatever_else_goes_to_the_worker_goes_after_what_was_held_back(sending: Sending, what: str):
    sending.known()
    for segment in range(MESSAGES_AHEAD + 1):
        sending.run(segment)
    sent = len(sending.actor.sent)
    if what == "objects":
        assert sending.run(7, after=(MESSAGES_AHEAD,), exports=2) == [
            f"run {MESSAGES_AHEAD + 3}",
            f"run {MESSAGES_AHEAD + 4}",
        ]
    elif what == "references":
        sending.run(7, after=(MESSAGES_AHEAD,), references=("reference",))
    elif what == "load":
        sending.channel.load({b"other": Program(1, (), (), (), (), (), (), (), ())}, {})
    elif what == "fetch":
        sending.channel.fetch(1, 5, SegmentId(1, MESSAGES_AHEAD))
        assert sending.actor.sent[-1] == ("fetch", 1, 5, False, f"run {MESSAGES_AHEAD + 1}"), (
            "it waits for the reference"
        )
    else:
        sending.channel.unpin([Pinned(1, 5)])
    assert sending.actor.sent[sent][0] == "run"
    assert len(sending.actor.sent) == sent + 2
    if what in ("objects", "references"):
        assert sending.orders[-1] == (MESSAGES_AHEAD + 2, (MESSAGES_AHEAD + 1,), 1)


def test_a_call_comes_after_what_was_unpinned_before_it(sending: Sending):
    sending.channel.unpin([Pinned(1, 5)])
    sending.channel.unpin([Pinned(1, 6)])
    sending.run(0)
    sending.run(1)
    assert sending.actor.sent[:2] == [("unpin", 0, (), (Pinned(1, 5),)), ("unpin", 1, (0,), (Pinned(1, 6),))]
    assert sending.orders == [(2, (1,), 1), (3, (1,), 1)]


def test_a_message_that_never_comes_is_given_up_with_what_it_was_to_pin(sending: Sending):
    sending.run(4)
    number, works = sending.asked["run 0"]
    sending.channel.complete(number, works)
    sending.channel.abandon_message(number, works)
    assert sending.actor.sent[-1] == ("abandon_message", 0, [Pinned(1, 4)])
    assert sending.channel.in_flight == {}


def test_a_closed_channel_sends_nothing_more(sending: Sending):
    sending.known()
    for segment in range(MESSAGES_AHEAD + 1):
        sending.run(segment)
    sent = len(sending.actor.sent)
    sending.channel.close()
    sending.channel.flush()
    assert len(sending.actor.sent) == sent


def test_of_a_message_that_is_not_answered_the_calls_that_were_withdrawn_are_known(sending: Sending):
    sending.known()
    for segment in range(MESSAGES_AHEAD + 3):
        sending.run(segment)
    batch = sending.channel.batch
    assert batch is not None
    assert len(batch.sent.works) > 1
    first, number = batch.sent.works[0], batch.sent.number
    _, part = sending.channel.withdraw([SegmentId(1, first.call.segment)], Withdrawal())
    assert sending.actor.sent[-1] == ("withdraw", [(number, (0,), False)])
    assert sending.channel.take_withdrawn(part, [number]) == [first]
    assert sending.channel.withdrawn == {number: [first]}
    while sending.asked:
        sending.answer()
    assert sending.channel.withdrawn == {}
    assert sending.channel.in_flight == {}


def test_programs_that_no_call_names_any_more_are_forgotten_at_the_worker_and_here(sending: Sending):
    program = Program(1, (), (), (), (), (), (), (), ())
    sending.channel.load({b"key": program}, {})
    sending.channel.forget_programs([b"key", b"other"])
    sending.channel.forget_programs([b"key"])
    assert sending.actor.sent[-1] == ("forget_programs", (b"key",))
    assert [sent[0] for sent in sending.actor.sent] == ["load", "forget_programs"]
    assert sending.channel.programs == {}
