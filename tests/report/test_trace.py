"""Traces: valid by the Trace Event Format's rules, everything on one clock, arrows from makers to readers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from raygrad.report.trace import CLIENT, RUNS, WAITS


@pytest.fixture(scope="module")
def events(told_long: Any, tmp_path_factory: Any) -> list[dict[str, Any]]:
    path: Path = told_long.run.trace(tmp_path_factory.mktemp("trace") / "run.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["displayTimeUnit"] == "ms"
    return data["traceEvents"]


def test_every_event_has_what_its_phase_needs(events: list[dict[str, Any]]):
    for event in events:
        assert event["ph"] in {"X", "M", "s", "f"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] in "sf":
            assert isinstance(event["id"], int)
            assert event["cat"] == "transfer"


def test_processes_are_the_client_and_the_workers(events: list[dict[str, Any]]):
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {CLIENT: "client", 1: "worker 0", 2: "worker 1"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert threads == {(CLIENT, RUNS), (1, RUNS), (1, WAITS), (2, RUNS), (2, WAITS)}
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"} <= threads


def test_every_segment_is_there_with_prediction_and_actual(events: list[dict[str, Any]], told_long: Any):
    segments = [event for event in events if event.get("cat") == "segment"]
    assert len(segments) == len(told_long.run.plan.segments)
    for event in segments:
        assert {"predicted_ms", "actual_ms", "status", "nodes"} <= event["args"].keys()


def test_events_of_a_thread_lie_in_each_other_or_apart(events: list[dict[str, Any]]):
    by_thread: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in by_thread.values():
        open_until: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start + 0.002:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 0.002
            open_until.append(end)


def test_arrows_begin_in_the_maker_and_end_in_the_reader(events: list[dict[str, Any]], told_long: Any):
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    segments = [event for event in events if event.get("cat") == "segment"]
    assert starts.keys() == ends.keys()
    assert len(starts) == len(told_long.run.report().run.moved) > 0
    for identity, start in starts.items():
        end = ends[identity]
        assert start["pid"] != end["pid"]
        assert start["ts"] <= end["ts"]
        assert end["bp"] == "e"
        for event in (start, end):
            assert any(
                one["pid"] == event["pid"] and one["ts"] - 0.002 <= event["ts"] <= one["ts"] + one["dur"] + 0.002
                for one in segments
            )


def test_all_times_are_within_the_run(events: list[dict[str, Any]]):
    (run,) = [event for event in events if event.get("cat") == "run"]
    assert max(event["ts"] + event.get("dur", 0.0) for event in events) <= run["dur"] + 0.002
