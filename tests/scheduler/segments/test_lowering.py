import pytest
from hypothesis import given, strategies as st

from raygrad.proto.codec.messages import encode_message
from raygrad.proto.ir.graph import KEEP_ON_WORKER
from raygrad.proto.ir.nodes import placed
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, InStore, OnWorker, Plan
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.segments.lowering import LazyPrograms, lower
from raygrad.scheduler.segments.segmenter import Block, segment_graph
from raygrad.scheduler.segments.transfers import plan_transfers

UNSET = object()


def planned(graph, node_worker, blocks=None, costs=None):
    priced = PricedGraph(graph, costs or Costs())
    residency = [-1] * len(graph.externals)
    if blocks is None:
        blocks = segment_graph(priced, node_edges(priced), node_worker, residency, costs or Costs()).blocks
    crossing = plan_transfers(priced, blocks, residency)
    plan = Plan(
        hash=b"",
        workers=(),
        segments=crossing.segments,
        node_worker=tuple(node_worker),
        kept=crossing.kept,
        open_ended=graph.open_ended,
        crossing_bytes=crossing.crossing_bytes,
        predicted_seconds=0.0,
    )
    return plan, lower(graph, plan)


class Symbols:
    """Values as numbers: equal numbers were computed in the same way."""

    def __init__(self):
        self.known = {}

    def of(self, *how):
        return self.known.setdefault(how, len(self.known))

    def outputs(self, node, inputs):
        name = (type(node), placed(node, tuple(inputs), node.outputs))
        return [self.of(name, position) for position in range(len(node.outputs))]


def evaluate(graph, symbols):
    """The value of everything, straight from the graph."""
    values = [symbols.of("external", index) for index in range(len(graph.externals))]
    for node in graph.nodes:
        values += symbols.outputs(node, [values[value] if value >= 0 else None for value in node.inputs])
    return values


class Execution:
    """Runs programs as workers do, with nothing but what a program says."""

    def __init__(self, graph, symbols):
        self.graph, self.symbols = graph, symbols
        self.store, self.pins, self.results = {}, {}, {}

    def run(self, number, segment, program):
        slots = [UNSET] * program.slots
        assert [external for external, _ in program.externals] == list(segment.externals)
        for external, slot in program.externals:
            slots[slot] = self.symbols.of("external", external)
        for key, targets in zip(segment.imports, program.imports, strict=True):
            for slot, value in zip(targets, self.store[key], strict=True):
                slots[slot] = value
        for value, slot, last in program.unpins:
            slots[slot] = self.pins.pop((segment.worker, value)) if last else self.pins[segment.worker, value]
        for step, index in zip(program.steps, segment.nodes, strict=True):
            assert step.index == index
            assert step.node.pin == step.node.near == -1
            inputs = [slots[slot] if slot >= 0 else None for slot in step.node.inputs]
            assert UNSET not in inputs
            for slot, value in zip(step.outputs, self.symbols.outputs(step.node, inputs), strict=True):
                if slot >= 0:
                    assert slots[slot] is UNSET
                    slots[slot] = value
            for slot in step.frees:
                assert slots[slot] is not UNSET
                slots[slot] = UNSET
        for export, group in enumerate(program.exports):
            self.store[number, export] = [slots[slot] for slot in group]
            assert UNSET not in self.store[number, export]
        for slot, value in program.pins:
            self.pins[segment.worker, value] = slots[slot]
        for slot, value in program.results:
            self.results[value] = slots[slot]
        needed = {slot for group in program.exports for slot in group}
        needed |= {slot for slot, _ in (*program.pins, *program.results)}
        assert {slot for slot, value in enumerate(slots) if value is not UNSET} == needed


@pytest.mark.slow
@given(data=st.data())
def test_programs_run_in_any_order_that_respects_imports_and_after_compute_the_graph(graphs, data):
    graph = data.draw(graphs())
    node_worker = data.draw(st.lists(st.integers(0, 2), min_size=len(graph.nodes), max_size=len(graph.nodes)))
    costs = data.draw(st.sampled_from([Costs(), Costs(call_seconds=0.0)]))
    plan, programs = planned(graph, node_worker, costs=costs)
    symbols = Symbols()
    values = evaluate(graph, symbols)
    execution = Execution(graph, symbols)
    left = set(range(len(programs)))
    while left:  # any order that the dependencies allow: actors run out of order (H13)
        ready = [
            number
            for number in sorted(left)
            if not left & ({source for source, _ in plan.segments[number].imports} | {*plan.segments[number].after})
        ]
        number = data.draw(st.sampled_from(ready))
        left.discard(number)
        execution.run(number, plan.segments[number], programs[number])
    made = {value for value, _ in graph.keep if value >= len(graph.externals)}
    assert plan.kept.keys() == made
    for value, place in plan.kept.items():
        if isinstance(place, InStore):
            assert execution.store[place.segment, place.export][place.position] == values[value]
            assert plan.segments[place.segment].exports[place.export].kept
        else:
            assert execution.pins[place.worker, value] == values[value]
    pinned = {(place.worker, value) for value, place in plan.kept.items() if isinstance(place, OnWorker)}
    assert execution.pins.keys() == pinned  # what segments left for each other is gone
    on_worker = {value for value, where in graph.keep if where == KEEP_ON_WORKER} & made
    assert execution.results == {value: values[value] for value in on_worker}


@pytest.mark.slow
@given(data=st.data())
def test_h14_equal_graphs_have_equal_programs_that_msgpack_takes(graphs, data):
    graph = data.draw(graphs())
    node_worker = data.draw(st.lists(st.integers(0, 2), min_size=len(graph.nodes), max_size=len(graph.nodes)))
    first, second = planned(graph, node_worker)[1], planned(graph, node_worker)[1]
    assert [*map(encode_message, first)] == [*map(encode_message, second)]


def test_equal_work_has_equal_programs_on_any_worker(builder):
    def program(pin):
        build = builder()
        build.op("sin", build.op("sin", 0, pin=pin), pin=pin)
        return planned(build.graph(), [pin, pin])[1]

    assert program(0) == program(1)


def test_a_slot_is_freed_by_its_last_reader_and_a_dead_output_has_none(builder):
    build = builder()
    context, y = build.function("f", 0)
    z = build.op("sin", y)
    build.op("add", y, z)
    build.keep_on_worker(z)
    (program,) = planned(build.graph(), [0, 0, 0])[1]
    f, sin, add = program.steps
    assert f.outputs[0] == -1  # nobody reads the context
    assert f.frees == (program.externals[0][1],)
    assert sin.frees == ()
    assert add.frees == (f.outputs[1],)
    assert add.outputs == (-1,)
    assert program.pins == program.results == ((sin.outputs[0], z),)
    assert context >= 0


def test_what_is_kept_for_later_runs_is_pinned_and_is_no_result(builder):
    build = builder()
    read, kept = build.op("sin", 0), build.op("cos", 0)
    build.keep_on_worker(read)
    build.keep_for_runs(kept)
    (program,) = planned(build.graph(), [0, 0])[1]
    sin, cos = program.steps
    assert program.pins == ((sin.outputs[0], read), (cos.outputs[0], kept))
    assert program.results == ((sin.outputs[0], read),)


def test_an_undefined_input_stays_undefined(builder):
    build = builder()
    build.sum(-1, 0)
    (program,) = planned(build.graph(), [0])[1]
    assert program.steps[0].node.inputs[0] == -1


def test_h3_an_open_ended_program_knows_the_ids_of_what_it_will_make(builder):
    build = builder()
    build.op("sin", 0)
    (context,) = build.function("new", 0, outputs=0)
    graph = build.graph(open_ended=True)
    programs = planned(graph, [0, 1])[1]
    assert [program.open_base for program in programs] == [-1, context + 1]
    assert planned(graph, [0, 0], blocks=[Block(0, [0, 1])])[1][0].open_base == context + 1


def test_programs_are_made_when_asked_for_in_any_order(builder):
    build = builder()
    value = 0
    for pin in (0, 1, 0, 1):
        value = build.op("sin", value, pin=pin)
    build.keep_on_worker(value)
    graph = build.graph()
    plan = make_plan(graph, (-1,), Costs(), Cluster.of(2), 0, b"").plan
    programs = LazyPrograms(graph, plan)
    assert len(programs) == 4
    assert programs[-1] is programs[3]
    assert programs[1:] == lower(graph, plan)[1:]
    assert tuple(programs) == lower(graph, plan)
    with pytest.raises(IndexError):
        programs[4]
