import pytest
from hypothesis import given, strategies as st

from raygrad.proto.ir.graph import first_outputs
from raygrad.proto.ir.nodes import Spill
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.memory.memory_ledger import (
    AdmissionLedger,
    AdmissionLedgers,
    MemoryUse,
    first_contexts,
    left_on_disk,
)
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.memory_spaces import MemorySpace
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.model.unseen_function_bytes import estimated_bytes

from ...graph_nodes import function_node, function_vjp_node, plain_node

COSTS = Costs()


def recounted(graph, node_worker, residency, worker, order):
    """The same as `MemoryUse.peak`, from the definition: what is alive at each node."""
    priced = PricedGraph(graph, COSTS)
    first = first_outputs(graph)
    touched = {
        index: {*graph.nodes[index].inputs, *range(first[index], first[index] + len(graph.nodes[index].outputs))} - {-1}
        for index in order
    }
    base = sum(priced.size[value] for value, home in enumerate(residency) if home == worker)
    kept = {value for value, _ in graph.keep}
    peak = 0
    for place in range(len(order)):
        alive = 0
        for value in set().union(*touched.values()):
            if value < len(residency) and residency[value] == worker:
                continue
            places = [one for one, index in enumerate(order) if value in touched[index]]
            maker = priced.maker[value]
            stays = value in kept and maker >= 0 and node_worker[maker] == worker
            if places[0] <= place and (stays or place <= places[-1]):
                alive += priced.size[value]
        peak = max(peak, alive)
    return base + peak


@st.composite
def placed(draw, graphs):
    """A graph on two workers, with a random topological order of its nodes."""
    graph = draw(graphs(least=2))
    node_worker = draw(st.lists(st.integers(0, 1), min_size=len(graph.nodes), max_size=len(graph.nodes)))
    residency = draw(st.lists(st.integers(-1, 1), min_size=len(graph.externals), max_size=len(graph.externals)))
    return graph, node_worker, residency


def shuffled(draw, links):
    missing = [len(one) for one in links.before]
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = ready.pop(draw(st.integers(0, len(ready) - 1)))
        order.append(index)
        for reader in links.after[index]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return order


@pytest.mark.slow
@given(data=st.data())
def test_what_an_order_needs_is_what_is_alive_at_its_nodes(graphs, data):
    graph, node_worker, residency = data.draw(placed(graphs))
    priced = PricedGraph(graph, COSTS)
    order = shuffled(data.draw, node_edges(priced))
    use = MemoryUse(priced, node_worker, residency, 2)
    for worker in (0, 1):
        mine = [index for index in order if node_worker[index] == worker]
        assert use.peak(worker, mine) == recounted(graph, node_worker, residency, worker, mine)


@pytest.mark.slow
@given(data=st.data())
def test_whatever_a_ledger_admits_all_can_be_ended_within_the_limit(graphs, data):
    """Nodes are offered in any order that their edges allow; what is refused is offered again later."""
    graph, _, _ = data.draw(placed(graphs))
    priced = PricedGraph(graph, COSTS)
    links = node_edges(priced)
    use = MemoryUse(priced, [0] * len(graph.nodes), [-1] * len(graph.externals), 1)
    base = shuffled(data.draw, links)
    limit = use.peak(0, base) + data.draw(st.sampled_from([0, 32, 5000]))
    ledger = AdmissionLedger(use, 0, base, limit)
    missing = [len(one) for one in links.before]
    ready = {index for index, count in enumerate(missing) if not count}
    ran = []
    while ready:
        offers = [*data.draw(st.permutations(sorted(ready)))]
        if data.draw(st.booleans()):
            offers = [ledger.front]
        for index in offers:
            if ledger.admit(index):
                ready.discard(index)
                ran.append(index)
                for reader in links.after[index]:
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready.add(reader)
                break
        else:
            raise AssertionError("nothing is admitted, not even the front")
        rest = [one for one in base if one not in ran]
        assert use.peak(0, ran + rest) <= limit
    assert ledger.front == -1


def test_pieces_are_cut_where_they_would_hold_too_much(builder):
    build = builder()
    contexts = [build.function("f", 0)[0] for _ in range(4)]
    for context in contexts:
        build.function_vjp("f", context, 0, 0)
    graph = build.graph()
    use = MemoryUse(PricedGraph(graph, COSTS), [0] * 8, [-1], 1)
    order = [0, 1, 4, 2, 5, 3, 6, 7]
    peak = use.peak(0, order)
    assert use.split(order, [order], 10**9) == ([order], peak)
    assert use.split(order, [order], peak) == ([order], peak)  # what is made and read within one piece is freed in it
    some = [[0, 1], [4, 2], [5, 3], [6, 7]]
    assert use.split(order, some, peak) == (some, peak)  # and so is what an earlier one left on the worker
    pieces = use.split(order, some, peak, pinned=False)  # but not what its call brings
    assert pieces == ([[0, 1], [4], [2], [5], [3], [6, 7]], peak)


def test_what_a_call_brings_is_there_from_its_start(builder):
    build = builder(externals=3, size=1000)
    made = [build.op("sin", one) for one in range(3)]
    graph = build.graph()
    use = MemoryUse(PricedGraph(graph, COSTS), [0] * 3, [-1] * 3, 1)
    assert use.peak(0, made := [0, 1, 2]) == 16000
    assert use.split(made, [made], 10**9) == ([made], 32000)
    assert use.split(made, [made], 32000) == ([made], 32000)
    assert use.split(made, [made], 31999) == ([[0, 1], [2]], 24000)
    assert use.split(made, [made], 16000) == ([[0], [1], [2]], 16000)


def test_a_call_leaves_room_for_what_a_function_saves_that_never_ran(builder):
    build = builder(externals=3, size=1000)
    new = build.spec(ContextSpec(-1, 0))
    build.op("sin", 0)
    build.add(function_node("@f", (1,), (new, 1), (1,)))
    build.op("sin", 2)
    use = MemoryUse(PricedGraph(build.graph(), COSTS), [0] * 3, [-1] * 3, 1)
    order = [0, 1, 2]
    most = 3 * 8000 + 4096 + 8000
    assert use.split(order, [order], most + estimated_bytes(8000)) == ([order], most)
    tight = use.split(order, [order], most)
    assert tight == ([[0], [1], [2]], 2 * 8000 + 4096), "what is estimated is not predicted"


def test_a_call_leaves_room_for_what_a_vjp_finds_saved_that_nobody_knows(builder):
    build = builder(externals=4, size=1000)
    new = build.spec(ContextSpec(-1, 0))
    context, _ = build.add(function_node("@f", (1,), (new, 1), (1,)))
    build.op("sin", 0)
    build.add(function_vjp_node("@f", (context, 1, 2), (new, 1)))
    build.op("sin", 3)
    use = MemoryUse(PricedGraph(build.graph(), COSTS), [0] * 4, [-1] * 4, 1)
    assert use.split([1, 2, 3], [[1, 2, 3]], 10**9).pieces == [[1, 2, 3]]
    assert use.split([1, 2, 3], [[1, 2, 3]], 16 * 8000).pieces == [[1], [2], [3]]


def test_what_goes_to_others_is_there_to_the_end_of_the_call_that_makes_it(builder):
    build = builder(size=1000)
    first = build.op("sin", 0)
    second = build.op("cos", first)
    third = build.op("exp", second)
    build.op("add", third, first)
    use = MemoryUse(PricedGraph(build.graph(), COSTS), [0, 0, 0, 1], [0], 2)
    assert use.resident == [8000, 0]
    order = [0, 1, 2]
    assert use.split(order, [order], 10**9) == ([order], 24000)  # first stays beside second and third
    assert use.split(order, [[0], [1, 2]], 10**9) == ([[0], [1, 2]], 24000)  # it is brought again
    assert use.split(order, [[0], [1], [2]], 10**9) == ([[0], [1], [2]], 16000)


def test_what_stays_and_goes_to_others_too_is_let_go_of_where_it_was_last_read(builder):
    build = builder(size=1000)
    first = build.op("sin", 0)
    second = build.op("cos", first)
    build.op("exp", second)
    build.op("add", first)
    handle = build.spec(ArraySpec((0,), "uint8"))
    build.add(plain_node(Spill, (first,), (handle,)))
    build.keep_on_worker(first)
    use = MemoryUse(PricedGraph(build.graph(), COSTS), [0, 0, 0, 1, 0], [0], 2)
    order = [0, 1, 4, 2]
    assert use.split(order, [[0, 1, 4, 2]], 10**9).peak == 24000
    assert use.split(order, [[0], [1, 4, 2]], 10**9).peak == 16000


def test_a_context_that_a_pass_keeps_holds_the_same_memory_before_and_after(builder):
    build = builder(size=1000)
    whole = build.spec(ContextSpec(50000, 0))
    (context,) = build.add(function_node("@f", (0,), (whole,), (1,)))
    left, _ = build.add(function_vjp_node("@f", (context, 0, 0, -1), (whole, 1), near=context))
    build.add(function_vjp_node("@f", (left, 0, 0, -1), (1,), near=left))
    priced = PricedGraph(build.graph(), COSTS)
    assert first_contexts(priced, ()) == {left: context}
    assert first_contexts(priced, {context}) == {}, "on disk it is another"
    assert MemoryUse(priced, [0] * 3, [0], 1).peak(0, [0, 1, 2]) == 8000 + 54096 + 8000


def test_a_node_is_admitted_where_it_fits_in_each_memory(builder):
    build = builder(size=10)
    first = build.op("o", 0)
    second = build.op("o", 0)
    build.op("p", first, second)
    graph = build.graph()
    priced = PricedGraph(graph, Costs())
    base = list(range(len(graph.nodes)))
    use = MemoryUse(priced, [0] * 3, [-1] * len(graph.externals), 1)
    most = use.peak(0, base)
    one = AdmissionLedger(use, 0, base, most)
    assert one.fits(1)
    assert one.fits(1), "asking changes nothing"
    tight = AdmissionLedger(use, 0, base, most)
    both = AdmissionLedgers([one, tight])
    assert both.front == 0
    assert both.admit(1)
    assert both.admit(0)
    assert both.front == 2
    refusing = AdmissionLedger(use, 0, base, most)
    refusing._limit = 0
    accounts = AdmissionLedgers([AdmissionLedger(use, 0, base, most), refusing])
    assert not accounts.admit(1)
    assert accounts._ledgers[0].fits(1)


def test_what_a_run_leaves_on_disk_takes_no_room_from_then_on(builder):
    build = builder(externals=2, size=1000)
    made = build.op("sin", 1)
    handle = build.spec(ArraySpec((0,), "uint8"))
    for value in (0, made):
        build.add(plain_node(Spill, (value,), (handle,)))
    build.op("cos", 1)
    build.keep_on_worker(made)
    priced = PricedGraph(build.graph(), COSTS)
    use = MemoryUse(priced, [0] * 4, [0, 0], 1)
    assert left_on_disk(priced, [0] * 4, [0, 0]) == {0, made}
    assert use.resident == [8000]
    assert use.live_bytes([1, 0, 2, 3]) == [0, 8000, 8000, 8000]
    assert left_on_disk(priced, [0, 1, 0, 0], [0, 0]) == {made}, "elsewhere it stays where it is"


def test_a_ledger_counts_what_is_on_its_worker_from_the_start(builder):
    """Out of order, three arrays are there at once beside what was: with less use than that, a node has to wait."""
    build = builder(externals=3, size=10)
    first = build.op("o", 0)
    build.op("p", first)
    build.op("o", 1)
    priced = PricedGraph(build.graph(), Costs())
    array = priced.size[0]
    base = [0, 1, 2]
    for home, before, worker in ((-1, 0, 0), (0, array, 0), (0, 0, 1), (1, array, 1)):
        use = MemoryUse(priced, [worker] * 3, [-1, -1, home], 2)
        assert use.resident[worker] == before
        most = use.peak(worker, base)
        assert most == before + 2 * array
        for limit, admitted in ((most, False), (most + array, True)):
            ledger = AdmissionLedger(use, worker, base, limit)
            assert ledger.admit(0)
            assert ledger.fits(2) == ledger.admit(2) == admitted
            assert ledger.admit(1)


def test_what_is_there_from_the_start_counts_on_its_own_worker_and_in_its_own_memory(builder):
    build = builder(externals=0, size=10)
    on_host = build.spec(ArraySpec((10,), "float64"))
    on_device = build.spec(ArraySpec((100,), "float64", "cuda:0"))
    build.externals += [on_host, on_device, on_device, on_host]
    build.values = 4
    build.op("o", 0)
    graph = build.graph()
    priced = PricedGraph(graph, Costs())
    residency = [1, 1, 0, -1]
    for device, before in (("cpu", [0, 80]), ("cuda:0", [800, 800])):
        use = MemoryUse(MemorySpace(device, [None, None]).within(priced), [0], residency, 2)
        assert use.resident == before
        assert [use.peak(worker, []) for worker in (0, 1)] == before
    host = MemoryUse(MemorySpace("cpu", [None, None]).within(priced), [0], residency, 2)
    assert host.peak(0, [0]) == 160, "what is read from the other worker, and what is made"
    assert MemoryUse(MemorySpace("cpu", [None, None]).within(priced), [1], residency, 2).peak(1, [0]) == 160
