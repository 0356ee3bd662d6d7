from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from raygrad.workers.process.call_sequencer import FIRST_RANK, LAST_RANK, CallSequencer


class Calls:
    """Calls on threads of their own, and the order in which they had their turns."""

    def __init__(self) -> None:
        self.turns = CallSequencer()
        self.had: list[int] = []
        self.refused: list[int] = []
        self.parts: dict[int, frozenset[int]] = {}
        self.threads: list[threading.Thread] = []

    def start(self, number: int, after: tuple[int, ...] = (), rank: tuple[int, float] = FIRST_RANK) -> None:
        """Start a call; return when it has had its turn or waits for it."""
        done = threading.Event()

        def call() -> None:
            if self.turns.acquire(number, after, rank):
                self.had.append(number)
                self.parts[number] = self.turns.withdrawn_parts(number)
                self.turns.release(number)
            else:
                self.refused.append(number)
            done.set()

        thread = threading.Thread(target=call)
        before = len(self.turns._waiting)
        self.threads.append(thread)
        thread.start()
        while not done.is_set() and len(self.turns._waiting) == before:
            done.wait(0.001)


@pytest.fixture
def calls() -> Generator[Calls]:
    made = Calls()
    yield made
    for thread in made.threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in made.threads)
    assert not made.turns._waiting


def test_a_call_waits_for_those_that_it_names_and_for_no_other(calls: Calls):
    calls.start(2, (0, 1))
    calls.start(3)
    calls.start(1)
    assert calls.had == [3, 1]
    calls.start(0)
    calls.threads[0].join(10)
    assert calls.had == [3, 1, 0, 2]


def test_of_calls_that_can_start_the_one_that_was_sent_first_has_the_turn(calls: Calls):
    calls.turns.acquire(0)
    for number in (3, 1, 2):
        calls.start(number)
    assert calls.had == []
    calls.turns.release(0)
    for thread in calls.threads:
        thread.join(10)
    assert calls.had == [1, 2, 3]


def test_of_calls_that_can_start_the_highest_priority_of_the_earliest_run_has_the_turn(calls: Calls):
    calls.turns.acquire(0)
    for number, rank in ((1, (5, -9.0)), (2, (4, -1.0)), (3, (4, -2.0)), (4, (4, -2.0)), (5, FIRST_RANK)):
        calls.start(number, rank=rank)
    calls.start(6, (2,), (4, -7.0))
    calls.turns.release(0)
    for thread in calls.threads:
        thread.join(10)
    assert calls.had == [5, 3, 4, 2, 6, 1]


def test_what_comes_last_runs_when_no_other_call_can_start(calls: Calls):
    calls.turns.acquire(0)
    calls.start(-1, rank=LAST_RANK)
    for number, after in ((3, (2,)), (2, ()), (5, (4,))):
        calls.start(number, after)
    calls.turns.release(0)
    for thread in calls.threads[:3]:
        thread.join(10)
    assert calls.had == [2, 3, -1], "it does not wait for what waits itself"
    calls.turns.end(4)


def test_one_call_has_the_turn_at_a_time(calls: Calls):
    inside: list[int] = []
    most: list[int] = []

    def call(number: int) -> None:
        calls.turns.acquire(number, (number - 1,) if number % 7 else ())
        inside.append(number)
        most.append(len(inside))
        inside.remove(number)
        calls.turns.release(number)

    calls.threads = [threading.Thread(target=call, args=(number,)) for number in reversed(range(40))]
    for thread in calls.threads:
        thread.start()
    for thread in calls.threads:
        thread.join(10)
    assert max(most) == 1
    assert len(most) == 40


def test_a_call_that_never_comes_can_be_ended_by_another(calls: Calls):
    calls.start(1, (0,))
    assert calls.had == []
    calls.turns.end(0)
    calls.threads[0].join(10)
    assert calls.had == [1]


def test_numbers_that_have_ended_are_not_remembered_one_by_one(calls: Calls):
    for number in (2, 0, 3, 1, 1, 5):
        calls.turns.end(number)
    assert (calls.turns._below, calls.turns._ended) == (4, {5})


@pytest.mark.parametrize("end", ["release", "end"])
def test_who_waits_aside_is_served_before_numbered_calls(calls: Calls, end: str):
    calls.turns.acquire(0)
    calls.start(1, (0,))
    calls.start(-1)
    finish: Callable[..., Any] = getattr(calls.turns, end)
    finish(0)
    if end == "end":
        calls.turns.release()
    for thread in calls.threads:
        thread.join(10)
    assert calls.had == [-1, 1]


def test_a_call_that_waits_or_has_not_arrived_can_be_withdrawn_and_those_behind_it_go_on(calls: Calls):
    turns = calls.turns
    turns.acquire(0)
    calls.start(1, (0,))
    assert turns.withdraw([(1, (0,), True)]) == [1]
    calls.threads[0].join(10)
    assert turns.withdraw([(2, (0,), True)]) == [2]
    calls.start(3, (1, 2))
    calls.start(2)
    assert calls.refused == [1, 2]
    turns.release(0)
    for thread in calls.threads:
        thread.join(10)
    assert calls.had == [3]
    assert not turns._withdrawn


def test_a_call_that_has_begun_or_ended_is_not_withdrawn(calls: Calls):
    calls.turns.acquire(0)
    assert calls.turns.withdraw([(0, (0,), True)]) == []
    calls.turns.release(0)
    assert calls.turns.withdraw([(0, (0,), True)]) == []


def test_a_part_of_a_call_is_withdrawn_and_the_rest_runs(calls: Calls):
    calls.turns.acquire(0)
    calls.start(1)
    assert calls.turns.withdraw([(1, (2,), False)]) == [1]
    assert calls.turns.withdraw([(1, (0,), False)]) == [1]
    calls.turns.release(0)
    calls.threads[0].join(10)
    assert calls.parts[1] == {0, 2}


def test_of_admission_and_withdrawal_there_is_one(calls: Calls):
    turns, withdrawn = calls.turns, []

    def withdraw() -> None:
        for number in range(200):
            withdrawn.extend(turns.withdraw([(number, (0,), True)]))

    threads = [threading.Thread(target=withdraw)]
    for number in range(200):
        if number == 100:
            threads[0].start()
        calls.start(number, (number - 1,) if number % 3 else ())
    threads[0].join(10)
    for thread in calls.threads:
        thread.join(10)
    assert sorted(calls.had + calls.refused) == list(range(200))
    assert calls.refused == sorted(withdrawn)
    assert not turns._withdrawn


def test_a_call_is_not_admitted_because_one_before_it_was_withdrawn_in_the_same_request(calls: Calls):
    calls.start(1, (0,))
    calls.start(2, (1,))
    assert calls.turns.withdraw([(0, (0,), True), (1, (0,), True), (2, (0,), True)]) == [0, 1, 2]
    for thread in calls.threads:
        thread.join(10)
    assert (calls.had, sorted(calls.refused)) == ([], [1, 2])


def test_what_comes_after_a_call_that_reads_what_was_withdrawn_waits_for_its_own_withdrawal(calls: Calls):
    calls.turns.skip(0)
    calls.start(1, (0,))
    assert calls.had == []
    assert calls.turns.withdraw([(0, (0,), True), (1, (0,), True)]) == [0, 1]
    calls.threads[0].join(10)
    assert calls.refused == [1]
    assert calls.turns.withdraw([(2, (0,), True)]) == [2]
    calls.turns.skip(2)
    assert not calls.turns._withdrawn
    assert not calls.turns._skipped


def test_what_has_waited_long_enough_goes_before_all_runs(calls: Calls):
    calls.turns.acquire(0)
    calls.start(-1, rank=LAST_RANK)
    calls.start(1, rank=(1, 0.0))
    calls.turns.hurry()
    calls.turns.release(0)
    for thread in calls.threads:
        thread.join(10)
    assert calls.had == [-1, 1]
