"""Pins: a node runs where its user asked."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.errors import PlanError, SessionError


def test_pinned_nodes_run_on_the_worker_asked_for() -> None:
    with rg.Session(workers=2) as session:
        x = rg.tensor([1.0, 2.0])
        with rg.place(worker=1):
            y = x * 2.0
        with rg.place(worker=0):
            z = y + 1.0
        assert z.numpy().tolist() == [3.0, 5.0]
        assert session.last_run is not None
        assert [segment.worker for segment in session.last_run.plan.segments] == [1, 0]


def test_a_worker_that_does_not_exist_is_refused_when_submitted() -> None:
    with rg.Session(workers=1):
        with rg.place(worker=5):
            y = rg.tensor([1.0]) * 2.0
        with pytest.raises(PlanError, match="5"):
            y.numpy()
        assert (rg.tensor([1.0]) * 2.0).numpy().tolist() == [2.0]


def test_a_pin_needs_a_session() -> None:
    with pytest.raises(SessionError, match="needs a session"), rg.place(worker=0):
        pass
