"""Nothing is let go too early and nothing is left: real plans, on workers that answer in any order and may die."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.machine.commands import (
    Command,
    CopyValues,
    DropCopy,
    DropExport,
    DropValue,
    ExportValue,
    FailRun,
    FinishRun,
    LoseValue,
    PlanRest,
    ReplaceWorker,
    ReviewPlan,
    RunSegment,
    StopSegments,
    Unpin,
    WithdrawSegments,
)
from raygrad.scheduler.machine.events import (
    Event,
    RunAbandoned,
    SegmentFinished,
    ValueCopied,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied,
    run_submitted,
)
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, InStore, Plan
from raygrad.scheduler.planning.planner import make_plan

from .invariants import check_invariants

WORKERS = 3
OPENED = 1000
"""An id far above those of any graph, for what an open-ended node makes."""


class Copy(NamedTuple):
    """A value that a worker is to copy."""

    worker: int
    run: int
    value: int


class World:
    """Workers, store and client as the machine's commands find them. Answers come when the test says so."""

    def __init__(self, window: int, recovery_time: float) -> None:
        self.machine = Machine(window=window, recovery_time=recovery_time)
        self.plans: dict[int, Plan] = {}
        self.sources: dict[int, list[tuple[int, int] | None]] = {}
        self.held: set[tuple[int, int]] = set()  # what the client holds
        self.open: list[RunSegment | ExportValue | Copy] = []  # commanded, not answered
        self.pins: set[tuple[int, int, int]] = set()  # (worker, run, value)
        self.poisoned: set[tuple[int, int]] = set()  # segments that did not make what they should
        self.ended: set[tuple[int, int]] = set()
        self.store: set[tuple[int, ...]] = set()  # (run, segment, export), or (run, value) of an exported value
        self.promised: set[tuple[int, int]] = set()  # (run, value) whose export was commanded and not dropped
        self.copies: set[tuple[int, int]] = set()  # (run, value) whose copy was commanded and not dropped
        self.lost: set[int] = set()
        self.over: dict[int, Command] = {}

    def tell(self, event: Event) -> None:
        commands = self.machine.handle(event)
        check_invariants(self.machine)
        for command in commands:
            self.obey(command)

    def obey(self, command: Command) -> None:
        match command:
            case RunSegment():
                assert command.worker not in self.lost
                segment = self.plans[command.run].segments[command.segment]
                for number, export in enumerate(segment.exports):
                    assert export.values
                    self.store.add((command.run, command.segment, number))
                for source, export in segment.imports:
                    assert (command.run, source, export) in self.store
                self.open.append(command)
            case ExportValue():
                assert command.worker not in self.lost
                assert (command.run, command.value) not in self.promised
                self.promised.add((command.run, command.value))
                self.open.append(command)
            case CopyValues(worker=worker):
                assert worker not in self.lost
                assert command.values
                assert self.copies.isdisjoint(command.values)
                self.copies.update(command.values)
                self.open += [Copy(worker, *one) for one in command.values]
            case DropCopy():
                self.copies.remove((command.run, command.value))
            case DropExport():
                self.store.remove((command.run, command.segment, command.export))
            case DropValue():
                self.promised.remove((command.run, command.value))
            case Unpin():
                assert command.worker not in self.lost
                assert command.values
                for run, value in command.values:
                    self.pins.discard((command.worker, run, value))
            case FinishRun() | FailRun():
                assert command.run not in self.over
                self.over[command.run] = command
            case LoseValue():
                assert command.worker in self.lost
                assert (command.run, command.value) in self.held
            case ReviewPlan():
                pass  # not answered here: the run goes on as it was planned
            case WithdrawSegments() | PlanRest() | StopSegments() | ReplaceWorker():
                raise AssertionError(f"nobody has answered a review, and there is {command}")
            case _:
                raise AssertionError(f"nobody expected {command}")

    def needs(self, command: RunSegment | ExportValue | Copy) -> set[tuple[int, int]]:
        """The segments that have to end before the work of a command can start."""
        if isinstance(command, Copy):
            return set()
        if isinstance(command, ExportValue):
            return {(command.run, self.maker(command.run, command.value))}
        segment = self.plans[command.run].segments[command.segment]
        needs = {(command.run, source) for source in (*segment.after, *(source for source, _ in segment.imports))}
        for external in segment.externals:
            source = self.sources[command.run][external]
            if source is not None:
                needs.add((source[0], self.maker(*source)))
        return needs

    def maker(self, run: int, value: int) -> int:
        place = self.plans[run].kept.get(value)
        return len(self.plans[run].segments) - 1 if place is None else place.segment

    def ready(self) -> list[RunSegment | ExportValue | Copy]:
        return [command for command in self.open if self.needs(command) <= self.ended]

    def answer(self, command: RunSegment | ExportValue | Copy, status: str) -> None:
        """Do the work of a command and tell the machine. All that it reads has to be there, or to be poisoned."""
        self.open.remove(command)
        poisoned = bool(self.needs(command) & self.poisoned)
        if isinstance(command, Copy):
            ok = (command.worker, command.run, command.value) in self.pins and status == "done"
            self.tell(ValueCopied(at=0.0, run=command.run, value=command.value, ok=ok, size=3))
            return
        if isinstance(command, ExportValue):
            if not poisoned:
                assert (command.worker, command.run, command.value) in self.pins
            ok = not poisoned and status == "done"
            if not ok:
                self.promised.remove((command.run, command.value))
            self.tell(ValueExported(at=0.0, run=command.run, value=command.value, ok=ok, size=3))
            return
        plan = self.plans[command.run]
        segment = plan.segments[command.segment]
        status = "skipped" if poisoned or self.lacks(command, poisoned) else status
        opened: tuple[int, ...] = ()
        if status == "done":
            self.pins |= {(command.worker, command.run, value) for value in segment.pins}
            for value, last in segment.unpins:
                assert (command.worker, command.run, value) in self.pins
                if last:
                    self.pins.discard((command.worker, command.run, value))
            if plan.open_ended and command.segment == len(plan.segments) - 1:
                opened = (OPENED,)
                self.held.add((command.run, OPENED))
                self.pins.add((command.worker, command.run, OPENED))
        else:
            self.poisoned.add((command.run, command.segment))
        self.ended.add((command.run, command.segment))
        sizes = tuple(8 for _ in segment.exports) if status == "done" else ()
        self.tell(
            SegmentFinished(
                at=0.0,
                run=command.run,
                segment=command.segment,
                attempt=command.attempt,
                status=status,  # pyright: ignore[reportArgumentType]
                export_bytes=sizes,
                opened=opened,
                seconds=1.0,
            )
        )

    def lacks(self, command: RunSegment, poisoned: bool) -> bool:
        """Tell whether an object that the segment reads could not be made; what could be has to be there."""
        segment = self.plans[command.run].segments[command.segment]
        for source, export in segment.imports:
            assert poisoned or (command.run, source, export) in self.store
        for external in segment.externals:
            source = self.sources[command.run][external]
            if source is None or poisoned:
                continue
            run, value = source
            place = self.plans[run].kept.get(value)
            if isinstance(place, InStore):
                assert (run, place.segment, place.export) in self.store
            elif (command.worker, run, value) not in self.pins and (run, value) not in self.promised:
                assert self.lost or run in self.refused
                return True
        return False

    refused: frozenset[int] = frozenset()
    """Runs of which a value could not be made an object."""

    def lose(self, worker: int) -> None:
        """A worker dies: what it was to do is not answered, or too late."""
        self.lost.add(worker)
        self.pins = {pin for pin in self.pins if pin[0] != worker}
        for command in [command for command in self.open if command.worker == worker]:
            self.open.remove(command)
            if isinstance(command, RunSegment):
                self.ended.add((command.run, command.segment))
                self.poisoned.add((command.run, command.segment))
            elif isinstance(command, Copy):
                self.copies.remove((command.run, command.value))
            else:
                self.promised.remove((command.run, command.value))
        self.tell(WorkerDied(at=0.0, worker=worker))


def submit(world: World, data: Any, graphs: Any, run: int) -> None:
    """Submit a random graph that reads what the client holds."""
    graph: Graph = data.draw(graphs(pins=data.draw(st.integers(1, WORKERS)), least=data.draw(st.integers(1, 8))))
    held = sorted(world.held)
    sources = [data.draw(st.sampled_from([None, *held])) for _ in graph.externals]
    residency: list[int] = []
    for source in sources:
        place = None if source is None else world.plans[source[0]].kept.get(source[1])
        if source is not None and place is None:
            residency.append(world.plans[source[0]].segments[-1].worker)
        else:
            residency.append(-1 if place is None or isinstance(place, InStore) else place.worker)
    costs = data.draw(st.sampled_from([Costs(), *[Costs(hop_seconds=1e-9, call_seconds=0.0)] * 3]))  # mostly many cuts
    plan = make_plan(graph, tuple(residency), costs, Cluster.of(WORKERS), 0, b"").plan
    world.plans[run], world.sources[run] = plan, sources
    world.held |= {(run, value) for value in plan.kept}
    world.tell(run_submitted(plan, at=0.0, run=run, sources=sources))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_nothing_is_let_go_too_early_and_nothing_is_left_whatever_the_order_of_deliveries(graphs, data):
    world = World(data.draw(st.sampled_from([1, 2, 16])), data.draw(st.sampled_from([math.inf, 0.0, 2.0])))
    trouble = data.draw(st.sampled_from(["none", "none", "failures", "losses"]))
    runs = 0
    for _ in range(data.draw(st.integers(1, 25))):
        choices = ["submit", "answer", "answer", "drop", "request"]
        if trouble == "failures":
            choices += ["fail", "abandon"]
        if trouble == "losses" and len(world.lost) < WORKERS - 1:
            choices += ["lose"]
        act = data.draw(st.sampled_from(choices))
        if act == "submit" and runs < 5:
            submit(world, data, graphs, runs)
            runs += 1
        elif act in ("answer", "fail") and world.ready():
            command = data.draw(st.sampled_from(world.ready()))
            if act == "fail" and isinstance(command, ExportValue):
                world.refused |= {command.run}
            world.answer(command, "done" if act == "answer" else "failed")
        elif act == "drop" and world.held:
            run, value = data.draw(st.sampled_from(sorted(world.held)))
            world.held.discard((run, value))
            world.tell(ValueDropped(at=0.0, run=run, value=value))
        elif act == "request" and world.held:
            run, value = data.draw(st.sampled_from(sorted(world.held)))
            world.tell(ValueRequested(at=0.0, run=run, value=value))
        elif act == "abandon" and runs:
            run = data.draw(st.integers(0, runs - 1))
            world.held = {one for one in world.held if one[0] != run}
            world.tell(RunAbandoned(at=0.0, run=run))
            world.held = {one for one in world.held if one[0] != run}
        elif act == "lose":
            world.lose(data.draw(st.sampled_from(sorted(set(range(WORKERS)) - world.lost))))
    while ready := world.ready():
        world.answer(data.draw(st.sampled_from(ready)), "done")
    assert not world.open
    assert sorted(world.over) == list(range(runs))  # every run has finished or failed, once
    if trouble == "none":
        assert all(isinstance(command, FinishRun) for command in world.over.values())
    for run, value in sorted(world.held):
        world.tell(ValueDropped(at=0.0, run=run, value=value))
    state = world.machine.state
    assert state.runs == {}
    assert (state.saved_bytes, state.exported_bytes) == (0, 0)
    assert (world.store, world.promised, world.pins, world.copies) == (set(), set(), set(), set())


def test_pinned_values_are_forgotten_by_one_command_per_worker(builder):
    build = builder()
    a, b = build.op("sin", 0, pin=0), build.op("cos", 0, pin=1)
    c = build.op("add", a, b, pin=0)
    build.keep_on_worker(a, b, c)
    plan = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"").plan
    machine = Machine()
    machine.handle(run_submitted(plan, at=0.0, run=0, sources=[None]))
    for number, segment in enumerate(plan.segments):
        sizes = tuple(8 for _ in segment.exports)
        machine.handle(SegmentFinished(at=0.0, run=0, segment=number, attempt=0, status="done", export_bytes=sizes))
    commands = machine.handle(*(ValueDropped(at=0.0, run=0, value=value) for value in (a, b, c)))
    assert commands == [
        Unpin(worker=0, values=(Pinned(0, a), Pinned(0, c))),
        Unpin(worker=1, values=(Pinned(0, b),)),
    ]
