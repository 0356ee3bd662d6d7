"""Faults are checked where they are made, and drawn alike from one seed."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from raygrad import chaos

any_chaos: Any = chaos  # what users pass, whatever its type


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: any_chaos.Point("nodes"), ValueError, "'call', 'node', 'stored', 'reply', not 'nodes'"),
        (lambda: chaos.Point("node", 0), ValueError, "Point.occurrence=.*at least 1"),
        (lambda: any_chaos.Kill(0, "node"), TypeError, "Kill.at=.*takes a Point, not 'node'"),
        (lambda: chaos.DropReply(0, chaos.Point("node")), ValueError, 'Point."stored", n.*not at a point .node'),
        (lambda: chaos.Raise(0, chaos.Point("reply")), ValueError, "after the reply nothing can fail"),
        (lambda: chaos.Delay(0, chaos.Point("node"), -1.0), ValueError, "Delay.seconds=.*more than 0"),
        (lambda: any_chaos.Stop(0, chaos.Point("node"), "long"), TypeError, "Stop.seconds="),
        (lambda: any_chaos.Stop(0, chaos.Point("node"), None), TypeError, "a number of seconds, not None"),
        (lambda: chaos.draw(1, workers=0), ValueError, "draw.workers=.*at least 1"),
        (lambda: chaos.draw(1, kinds=()), ValueError, "kinds.*at least one"),
    ],
)
def test_what_cannot_happen_is_refused_where_it_is_made(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_seed_gives_one_fault_and_seeds_give_all_kinds_at_all_points() -> None:
    drawn = [chaos.draw(seed, workers=3, kinds=(*chaos.RECOVERABLE, chaos.Raise)) for seed in range(500)]
    assert drawn == [chaos.draw(seed, workers=3, kinds=(*chaos.RECOVERABLE, chaos.Raise)) for seed in range(500)]
    assert {type(one) for one in drawn} == {*chaos.RECOVERABLE, chaos.Raise}
    assert {one.worker for one in drawn} == {0, 1, 2}
    assert {(type(one), one.at.name) for one in drawn} >= {
        (chaos.Kill, "call"), (chaos.Kill, "node"), (chaos.Kill, "stored"), (chaos.Kill, "reply"), (chaos.Raise, "node")
    }  # fmt: skip


def test_faults_are_values() -> None:
    fault = chaos.Stop(1, chaos.Point("reply", 3), 2.0)
    assert pickle.loads(pickle.dumps(fault)) == fault
    assert repr(fault) == "Stop(worker=1, at=Point(name='reply', occurrence=3), seconds=2.0)"


def test_a_worker_loads_nothing_of_the_client_for_its_faults() -> None:
    program = (
        "import sys, raygrad.workers.executors.ray.actor\n"
        "before = {*sys.modules}\n"
        "import raygrad.chaos.worker_faults\n"
        "print(sorted(one for one in {*sys.modules} - before if one.startswith('raygrad')))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    chaos_modules = [f"raygrad.chaos{name}" for name in ("", ".drawing", ".faults", ".worker_faults")]
    assert run.stdout.strip() == str([*chaos_modules, "raygrad.client", "raygrad.client.options"])
