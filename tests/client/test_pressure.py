"""Pressure: much that is emitted, slow handlers, handlers that wait, many submissions, and disks that are full."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.submission import backpressure
from raygrad.client.submission.backpressure import RUNS_AHEAD
from raygrad.errors import DiskFull

MEBI = 1024 * 1024


class Floods(rg.autograd.Function):
    """Emits `count` arrays of a mebibyte each, numbered in their first element."""

    effects = True

    @staticmethod
    def infer(x: Any, count: int) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any, count: int) -> Any:
        for number in range(count):
            value = np.zeros(MEBI // 8)
            value[0] = number
            rg.emit("flood", value)
        rg.emit("flood", np.array([float(count)]))
        return x + 1.0


@pytest.fixture(
    params=[
        ("local", {"workers": 1}),
        ("local", {"workers": 2}),
        ("local", {"workers": 1, "strict": True}),
        pytest.param(("ray", {"workers": 1}), marks=pytest.mark.ray),
    ],
    ids=["one", "two", "strict", "ray"],
)
def session(request: pytest.FixtureRequest) -> Any:
    address, options = request.param
    session = rg.Session(address, **options)
    yield session
    session.close(discard=True)


COUNT = 100
"""Mebibytes: three times of what may wait in one place."""


def test_what_is_emitted_in_a_flood_is_handled_once_and_in_order(session: Any) -> None:
    seen: list[int] = []
    with session:
        session.on("flood", lambda value: seen.append(int(value[0])))
        assert Floods.apply(rg.ones(1), COUNT).tolist() == [2.0]
        assert session.last_run is not None
        session.last_run.wait()
    assert seen == [*range(COUNT + 1)]


def test_a_handler_that_reads_a_value_of_the_run_ends(session: Any) -> None:
    seen: list[int] = []
    read: list[Any] = []
    with session:
        y = Floods.apply(rg.ones(1), COUNT) * 2.0

        def handler(value: Any) -> None:
            if not seen:
                read.append(y.tolist())
            seen.append(int(value[0]))

        session.on("flood", handler)
        session.run(y).wait()
        assert read == [[4.0]]
        assert seen == [*range(COUNT + 1)]


def test_a_handler_that_raises_loses_nothing_that_follows(session: Any) -> None:
    seen: list[int] = []

    def handler(value: Any) -> None:
        seen.append(int(value[0]))
        if value[0] == 40:
            raise KeyError(40)

    with session:
        session.on("flood", handler)
        y = Floods.apply(rg.ones(1), COUNT)
        with pytest.raises(KeyError):
            y.tolist()
        assert y.tolist() == [2.0]
        session.last_run.wait()
        assert seen == [*range(COUNT + 1)]


def test_a_session_closes_while_what_emits_waits(session: Any) -> None:
    with session:
        session.run(Floods.apply(rg.ones(1), COUNT))
        session.close(discard=True)
    assert not [one for one in threading.enumerate() if one.name.startswith("raygrad worker") and one.is_alive()]


def test_what_no_handler_takes_is_kept_beyond_the_memory_for_it(session: Any) -> None:
    with session:
        Floods.apply(rg.ones(1), COUNT).tolist()
        run = session.last_run.wait()
        assert [int(value[0]) for _, value in run.emits] == [*range(COUNT + 1)]


class Tells(rg.autograd.Function):
    """Emits arrays of a mebibyte with the time of each."""

    effects = True

    @staticmethod
    def infer(x: Any, count: int) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any, count: int) -> Any:
        for _ in range(count):
            rg.emit("time", np.full(MEBI // 8, time.monotonic()))
        return x + 1.0


@pytest.mark.parametrize("address", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_what_emits_waits_for_a_slow_handler_and_the_report_says_so(address: str) -> None:
    emitted: list[float] = []
    handled: list[float] = []

    def handler(value: Any) -> None:
        emitted.append(float(value[0]))
        time.sleep(0.003)
        handled.append(time.monotonic())

    with rg.Session(address, workers=2) as session:
        session.on("time", handler)
        Tells.apply(rg.ones(1), COUNT + 50).tolist()
        run = session.last_run
        assert run is not None
        assert len(handled) == COUNT + 50
        ahead = 64  # what may wait at the worker, on its way, and at the client
        assert all(begun >= done for begun, done in zip(emitted[ahead:], handled, strict=False))
        assert run.emit_seconds > 0
        assert "for the handlers of what they emit" in str(run.report())


def test_runs_that_nobody_looks_at_are_submitted_no_further_ahead_than_the_limit(session: Any) -> None:
    most = 0
    with session:
        x: Any = rg.zeros(4)
        for _ in range(3 * RUNS_AHEAD):
            x = x + 1.0
            session.run(x)
            most = max(most, len(session._runs.history))
        assert most <= RUNS_AHEAD + 1
        assert x.tolist() == [3.0 * RUNS_AHEAD] * 4


def test_runs_are_submitted_no_further_ahead_than_the_bytes_that_they_are_given(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backpressure, "BYTES_AHEAD", 8 * MEBI)
    monkeypatch.setattr(backpressure, "CHECKED_BYTES", MEBI)
    most = 0
    with session:
        weights = rg.tensor(np.ones(MEBI))  # given to each run, and there once
        total: Any = rg.zeros(1)
        for number in range(64):
            batch = rg.tensor(np.full(MEBI // 8, float(number)))
            total = total + (batch[:1] * weights[:1])
            session.run(total)
            most = max(most, sum(one.nbytes for one in session._runs.history if not one.finished))
        assert total.tolist() == [sum(range(64)) * 1.0]
    assert most <= 20 * MEBI, "the limit, what was given since the last look, and the weights"


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 16 MiB for temporary files."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs privileges")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    gc.collect()
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_is_an_error_of_its_own_and_loses_nothing(small_disk: Path) -> None:
    with rg.Session(workers=1, memory="2MB") as session:
        start: Any = rg.tensor(np.arange(50_000.0))
        kept = [start * float(number) for number in range(10)]  # twice the memory: most of it is spilled
        session.run(*kept).wait()
        filler = small_disk / "filler"
        filler.write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
        with pytest.raises(DiskFull, match="which is full") as error:
            session.run(*[start * float(number) for number in range(10, 30)]).wait()
        assert error.value.errno == errno.ENOSPC
        assert error.value.folder == str(small_disk)
        filler.unlink()
        assert [float(one[1].item()) for one in kept] == [*map(float, range(10))]
        assert (start + 1.0)[:2].tolist() == [1.0, 2.0]


def test_emits_that_find_no_room_on_disk_fail_their_node_alone(small_disk: Path) -> None:
    seen: list[int] = []
    with rg.Session(workers=1) as session:
        session.on("flood", lambda value: seen.append(int(value[0])))
        before = rg.ones(2) * 3.0
        session.run(before).wait()
        with pytest.raises(DiskFull):
            Floods.apply(rg.ones(1), COUNT).tolist()
        assert seen == [*range(len(seen))], "what was emitted before is handled, in order"
        assert before.tolist() == [3.0, 3.0]
        seen.clear()
        assert Floods.apply(rg.ones(1), 20).tolist() == [2.0]
        assert seen == [*range(21)]


@pytest.mark.ray
def test_values_larger_than_the_object_store_in_total_and_alone_are_there() -> None:
    size = 20 * MEBI // 4
    with rg.Session("ray", workers=2, object_store_memory=80 * MEBI) as session:
        kept: list[Any] = []
        for number in range(8):
            with rg.place(worker=number % 2):
                kept.append(rg.full((size,), float(number)) * 2.0)
        with rg.place(worker=0):
            crossed = [one + 1.0 for one in kept]  # each second one by the store
        session.run(*kept, *crossed).wait()
        assert [one.numpy()[-1] for one in kept] == [2.0 * number for number in range(8)]
        assert [one.numpy()[-1] for one in crossed] == [2.0 * number + 1.0 for number in range(8)]
        assert (rg.ones(5 * size) * 2.0).numpy()[-1] == 2.0
