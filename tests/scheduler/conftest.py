"""What the tests of the scheduler share: a builder of graphs, a strategy for random ones, and a Playbook."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from raygrad.proto.ir.graph import KEEP_FOR_RUNS, KEEP_IN_STORE, KEEP_ON_WORKER, Graph
from raygrad.proto.ir.nodes import GradSum, Node
from raygrad.proto.ir.specs import ArraySpec, ContextSpec, Spec
from raygrad.scheduler.machine.commands import Command
from raygrad.scheduler.machine.events import Event
from raygrad.scheduler.machine.machine import Machine

from ..graph_nodes import function_node, function_vjp_node, hook_node, op_node, op_vjp_node, plain_node
from .machine.invariants import check_invariants

CONTEXT, SMALL = 0, 1


class Builder:
    """Builds a graph node by node; each method returns the value ids that the node makes."""

    def __init__(self, externals: int = 1, size: int = 4) -> None:
        self.specs: list[Spec] = [ContextSpec(), ArraySpec((size,), "float64")]
        self.externals = [SMALL] * externals
        self.nodes: list[Node] = []
        self.keep: list[tuple[int, int]] = []
        self.values = externals

    def spec(self, spec: Spec) -> int:
        self.specs.append(spec)
        return len(self.specs) - 1

    def add(self, node: Node) -> tuple[int, ...]:
        self.nodes.append(node)
        self.values += len(node.outputs)
        return tuple(range(self.values - len(node.outputs), self.values))

    def op(self, fn: str, *inputs: int, pin: int = -1, near: int = -1, spec: int = SMALL) -> int:
        return self.add(op_node(fn, inputs, (spec,), pin=pin, near=near))[0]

    def op_vjp(self, fn: str, residuals: Iterable[int], cotangent: int, pin: int = -1) -> int:
        return self.add(op_vjp_node(fn, (*residuals, cotangent), (SMALL,), (1,), (SMALL,), (SMALL,), pin=pin))[0]

    def function(self, fn: str, *inputs: int, pin: int = -1, outputs: int = 1, impure: bool = False) -> tuple[int, ...]:
        return self.add(function_node("@" + fn, inputs, (CONTEXT, *[SMALL] * outputs), pin=pin, impure=impure))

    def function_vjp(self, fn: str, context: int, cotangent: int, argument: int, output: int = -1) -> int:
        inputs = (context, cotangent, argument, output)
        return self.add(function_vjp_node("@" + fn, inputs, (SMALL,), items=3, near=context))[0]

    def hook(self, fn: str, value: int) -> int:
        return self.add(hook_node("@" + fn, (value,), (SMALL,)))[0]

    def sum(self, a: int, b: int) -> int:
        return self.add(plain_node(GradSum, (a, b), (SMALL,)))[0]

    def keep_on_worker(self, *values: int) -> None:
        self.keep += [(value, KEEP_ON_WORKER) for value in values]

    def keep_for_runs(self, *values: int) -> None:
        self.keep += [(value, KEEP_FOR_RUNS) for value in values]

    def keep_in_store(self, *values: int) -> None:
        self.keep += [(value, KEEP_IN_STORE) for value in values]

    def graph(self, *, open_ended: bool = False) -> Graph:
        specs, externals, nodes = tuple(self.specs), tuple(self.externals), tuple(self.nodes)
        return Graph(specs, externals, nodes, tuple(self.keep), open_ended)


@st.composite
def random_graphs(draw: Any, *, pins: int = 0, least: int = 0, externals: int | None = None) -> Graph:
    """Any graph of the IR: all roles, undefined inputs, anything kept; pinned at random to `pins` workers."""
    build = Builder(draw(st.integers(0, 3)) if externals is None else externals)
    arrays = list(range(build.values))
    contexts: list[int] = []
    for _ in range(draw(st.integers(least, 14))):
        pin = draw(st.integers(-1, pins - 1)) if pins else -1
        some = st.sampled_from(arrays[-3:] or [-1]) | st.sampled_from([-1, *arrays])  # mostly what was just made
        kind = draw(st.sampled_from(["op", "function", "sum", "hook", "op_vjp", "function_vjp"]))
        if kind == "function":
            context, *outputs = build.function(
                "f", *draw(st.lists(some, max_size=3)), pin=pin, outputs=draw(st.integers(0, 2))
            )
            contexts.append(context)
            arrays += outputs
        elif kind == "function_vjp" and contexts:
            arrays.append(build.function_vjp("f", draw(st.sampled_from(contexts)), draw(some), draw(some), draw(some)))
        elif kind == "sum":
            arrays.append(build.sum(draw(some), draw(some)))
        elif kind == "hook":
            arrays.append(build.hook("h", draw(some)))
        elif kind == "op_vjp":
            arrays.append(build.op_vjp("g", draw(st.lists(some, max_size=2)), draw(some), pin=pin))
        else:
            arrays.append(build.op("o", *draw(st.lists(some, max_size=3)), pin=pin))
    for value in range(build.values):
        for keep in draw(st.sampled_from([(), (), (), (KEEP_ON_WORKER,), (KEEP_IN_STORE,), (KEEP_FOR_RUNS,), (0, 1)])):
            build.keep.append((value, keep))
    open_ended = draw(st.booleans())
    if open_ended:
        build.function("new", *draw(st.lists(st.sampled_from([-1, *arrays]), max_size=2)), outputs=0)
    return build.graph(open_ended=open_ended)


class Playbook:
    """A conversation with a machine: `assert Playbook(machine) >> event << command << command >> event`.

    Every command has to be named, in order; the invariants are checked after every event. End with `.end()`. The
    `assert` is there for the reader: what does not fit raises.
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = Machine() if machine is None else machine
        self.told: list[Event] = []
        self.unexpected: list[Command] = []

    def __rshift__(self, event: Event) -> Playbook:
        self.end()
        event = replace(event, at=float(len(self.told)))
        self.told.append(event)
        self.unexpected = self.machine.handle(event)
        check_invariants(self.machine)
        return self

    def __lshift__(self, command: Command) -> Playbook:
        assert self.unexpected, f"after {self.told[-1]} there is no command, but expected is\n  {command}"
        assert self.unexpected.pop(0) == command
        return self

    def end(self) -> Playbook:
        assert not self.unexpected, f"after {self.told[-1]} nobody expected\n  " + "\n  ".join(
            map(str, self.unexpected)
        )
        return self


@pytest.fixture(scope="session")
def builder() -> type[Builder]:
    return Builder


@pytest.fixture(scope="session")
def graphs() -> Any:
    return random_graphs


@pytest.fixture
def playbook() -> Playbook:
    return Playbook()


@pytest.fixture(scope="session")
def playbooks() -> type[Playbook]:
    return Playbook
