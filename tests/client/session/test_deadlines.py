"""Limits of nodes, segments and runs in sessions: what takes longer is stopped and named, the rest goes on."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.client.cancelling import SECONDS, Spins, SpinsBack, check_idle

import raygrad as rg
from raygrad.errors import DeadlineExceeded, DroppedError

pytestmark = pytest.mark.timeout(60)

HERE = r"\(.*test_deadlines\.py:\d+ in \w+\)"


@pytest.fixture(params=[1, 2])
def workers(request: pytest.FixtureRequest) -> int:
    return request.param


def test_a_node_that_takes_too_long_is_stopped_and_named(workers: int) -> None:
    with rg.Session(workers=workers, node_timeout=0.3) as session:
        Spins.apply(rg.ones(3), 0.0).tolist()
        y = Spins.apply(rg.ones(3), SECONDS)
        apart = rg.ones(3) * 4.0
        with pytest.raises(DeadlineExceeded, match=rf"^'Spins' {HERE} was running for .* node_timeout=0\.3") as caught:
            y.tolist()
        error = caught.value
        assert (error.scope, error.limit, error.worker) == ("node", 0.3, "worker 0")
        assert error.seconds > 0.3
        assert isinstance(error, TimeoutError)
        with pytest.raises(DroppedError, match="DeadlineExceeded"):
            y.tolist()
        assert Spins.apply(rg.ones(3), 0.0).tolist() == [2.0] * 3
        del apart
        check_idle(session)


def test_a_backward_is_named_as_such_and_leaves_gradients_as_before() -> None:
    with rg.Session(node_timeout=0.3):
        w: Any = rg.ones(3, requires_grad=True)
        SpinsBack.apply(w, 0.0).sum().backward()
        SpinsBack.apply(w, SECONDS).sum().backward()
        with pytest.raises(DeadlineExceeded, match=rf"^the backward of 'SpinsBack' {HERE}"):
            w.grad.tolist()
        assert w.grad.tolist() == [2.0] * 3


def test_a_segment_of_many_nodes_has_a_limit_of_its_own() -> None:
    with rg.Session(workers=1, segment_timeout=0.5, node_timeout=10.0):
        y: Any = rg.ones(3)
        Spins.apply(y, 0.0).tolist()
        for _ in range(100):
            y = Spins.apply(y, 0.1)
        with pytest.raises(DeadlineExceeded, match=r"^the segment of run \d+ with 'Spins' .* segment_timeout=0\.5"):
            y.tolist()


def test_a_run_has_a_limit_from_its_submission() -> None:
    with rg.Session(workers=1, run_timeout=0.5) as session:
        Spins.apply(rg.ones(3), 0.0).tolist()
        y: Any = rg.ones(3)
        for _ in range(100):
            y = Spins.apply(y, 0.1)
        run = session.run(y)
        with pytest.raises(DeadlineExceeded, match=rf"^run {run.number} with .* since it was submitted, .*run_timeout"):
            run.wait()
        assert session.run(rg.ones(3) * 2.0).wait().finished


@pytest.mark.parametrize("name", ["node_timeout", "segment_timeout", "run_timeout"])
def test_what_is_no_limit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Session\({name}=\.\.\.\) takes a number of seconds"):
        cast(Any, rg.Session)(**{name: 0})


@pytest.mark.ray
@pytest.mark.timeout(120)
def test_nodes_on_ray_are_stopped_and_workers_that_sleep_replaced(ray_started: Any) -> None:
    from tests.client.cancelling import Sleeps

    with rg.Session("ray", workers=2, node_timeout=1.0) as session:
        Spins.apply(rg.ones(3), 0.0).tolist()
        Sleeps.apply(rg.ones(3), 0.0).tolist()
        for function in (Spins, Sleeps):
            y = function.apply(rg.ones(3), SECONDS)
            with pytest.raises(DeadlineExceeded, match=rf"^'{function.__name__}' {HERE} was running for"):
                y.tolist()
            assert function.apply(rg.ones(3), 0.0).tolist() == [2.0] * 3
        check_idle(session)
