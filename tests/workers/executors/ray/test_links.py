"""Without Ray: actors whose calls take a virtual time. That the real ones answer is in `test_ray`."""

import pytest

from raygrad.workers.executors.ray import links
from raygrad.workers.executors.ray.links import LARGE_BYTES, measure_links

SEND, ONE_WAY, HOP, RATE = 0.1, 1.0, 2.0, 1 << 22
STORE_RATE = 1 << 21


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


class Answer:
    def __init__(self, at, actor, size):
        self.at, self.actor, self.size = at, actor, size


class Actor:
    def __init__(self, clock):
        self.clock = clock
        self.pass_on = self
        self.compute = Compute(self)
        self.free = 0.0

    def remote(self, size, *waits):
        self.clock.now += SEND
        ready = [self.clock.now + ONE_WAY, self.free]
        for one in waits:
            ready.append(one.at + (HOP if one.actor is not self else HOP / 4) + one.size / RATE)
        self.free, self.size = max(ready), size
        return Answer(self.free, self, size)


class Compute:
    """Waits for what its actor has made before to be stored."""

    def __init__(self, actor):
        self.actor = actor

    def remote(self, seconds):
        actor = self.actor
        actor.clock.now += SEND
        actor.free = max(actor.clock.now + ONE_WAY, actor.free) + seconds + actor.size / STORE_RATE
        return Answer(actor.free, actor, 0)


class Timeout(Exception):
    pass


class Ray:
    exceptions = None

    def __init__(self, clock, dead=False):
        self.clock, self.dead, self.exceptions = clock, dead, self
        self.GetTimeoutError = self.RayActorError = Timeout

    def get(self, answers, timeout):
        if self.dead:
            raise Timeout
        answers = answers if isinstance(answers, list) else [answers]
        self.clock.now = max(self.clock.now, *(answer.at + ONE_WAY for answer in answers))

    def wait(self, answers, *, num_returns, timeout, fetch_local):
        assert num_returns == len(answers)
        assert not fetch_local
        assert timeout > 0.0


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(links, "time", made)
    return made


def test_calls_and_links_are_told_apart(clock):
    figures = measure_links(Ray(clock), [Actor(clock) for _ in range(4)], ["a", "a", "b", "b"])
    assert figures["submit_seconds"] == pytest.approx(SEND)
    assert figures["send_seconds"] == figures["return_seconds"] == pytest.approx(ONE_WAY)
    assert figures["follow_seconds"] == pytest.approx(SEND, rel=0.1), (
        "calls that a worker keeps in order come one by one"
    )
    assert figures["hop_seconds"] == pytest.approx(HOP, rel=0.1)
    assert set(figures["links"]) == {("a", "b"), ("b", "a"), ("a", "a"), ("b", "b")}
    assert figures["links"]["a", "b"].bandwidth == pytest.approx(RATE, rel=0.3)
    assert figures["store_bandwidth"] == pytest.approx(STORE_RATE)
    assert LARGE_BYTES > 1 << 20


def test_where_storing_delays_no_call_it_costs_nothing(clock, monkeypatch):
    monkeypatch.setattr(Compute, "remote", lambda self, seconds: Answer(clock.now, self.actor, 0))
    assert "store_bandwidth" not in measure_links(Ray(clock), [Actor(clock)], ["a"])


def test_one_worker_has_no_links(clock):
    figures = measure_links(Ray(clock), [Actor(clock)], ["a"])
    assert "links" not in figures
    assert "hop_seconds" not in figures
    assert figures["call_seconds"] > 0


def test_workers_that_do_not_answer_leave_the_prior_as_it_is(clock):
    assert measure_links(Ray(clock, dead=True), [Actor(clock)], ["a"]) == {}
