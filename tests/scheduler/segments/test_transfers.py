from raygrad.proto.ir.specs import ContextSpec
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Export, InStore, OnWorker
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.segments.segmenter import Block
from raygrad.scheduler.segments.transfers import cotangent_bounds, plan_transfers

from ...graph_nodes import function_vjp_node, op_vjp_node


def crossing(graph, blocks, residency=None, *, saved_stays=False, limited=()):
    residency = [-1] * len(graph.externals) if residency is None else residency
    made = [Block(worker, nodes) for worker, nodes in blocks]
    return plan_transfers(
        PricedGraph(graph, Costs()), made, residency, saved_stays=saved_stays, limited=frozenset(limited)
    )


def test_what_another_worker_reads_is_exported_and_imported(builder):
    build = builder(externals=2)
    a = build.op("sin", 0)
    b = build.op("cos", 1)
    build.op("add", a, b)
    made = crossing(build.graph(), [(0, [0, 1]), (1, [2])])
    first, second = made.segments
    assert first.exports == (Export((a, b), (1,), saved=False, kept=False),)
    assert second.imports == ((0, 0),)
    assert first.externals == (0, 1)
    assert second.externals == ()
    assert (first.bytes_out, second.bytes_in, made.crossing_bytes) == (64, 64, 64)
    assert first.pins == second.pins == ()


def test_values_are_grouped_by_their_readers(builder):
    build = builder()
    a, b, c = (build.op("sin", 0) for _ in range(3))
    build.op("add", a, b)
    build.op("add", b, c)
    first = crossing(build.graph(), [(0, [0, 1, 2]), (1, [3]), (2, [4])]).segments[0]
    assert {(export.values, export.readers) for export in first.exports} == {((a,), (1,)), ((b,), (1, 2)), ((c,), (2,))}


def test_what_only_the_same_worker_reads_later_is_pinned_until_its_last_reader(builder):
    build = builder(externals=2)
    a = build.op("sin", 0)
    for _ in range(2):
        build.op("add", a, build.op("cos", 1))
    made = crossing(build.graph(), [(0, [0]), (1, [1, 3]), (0, [2]), (0, [4])]).segments
    assert made[0].exports == ()
    assert made[0].pins == (a,)
    assert made[2].unpins == ((a, False),)
    assert made[3].unpins == ((a, True),)
    assert made[2].after == (0,)
    assert made[3].after == (0, 2)  # it drops what segment 2 reads: actors run out of order (H13)


def test_a_context_that_only_the_same_worker_reads_later_stays_there(builder):
    build = builder()
    context, y = build.function("f", 0)
    z = build.op("sin", y)
    build.function_vjp("f", context, z, 0, y)
    made = crossing(build.graph(), [(0, [0]), (1, [1]), (0, [2])]).segments
    exports = {(export.values, export.readers, export.saved) for export in made[0].exports}
    assert exports == {((y,), (1, 2), True)}
    assert (made[0].pins, made[0].saved_pins) == ((context,), (context,))
    assert made[2].unpins == ((context, True),)
    assert made[2].after == (0,)


def test_a_context_is_stored_if_its_vjp_runs_on_another_worker(builder):
    build = builder()
    context, y = build.function("f", 0)
    build.function_vjp("f", context, y, 0)
    made = crossing(build.graph(), [(0, [0]), (1, [1])]).segments
    exports = {export.values: (export.readers, export.saved) for export in made[0].exports}
    assert exports[context,] == ((1,), True)
    assert made[0].pins == made[0].saved_pins == ()


def test_a_residual_stays_and_is_saved_but_what_else_is_pinned_is_not_saved(builder):
    build = builder()
    residual = build.op("sin", 0)
    cotangent = build.op("cos", 0)
    build.op_vjp("sin", [residual], cotangent)
    first = crossing(build.graph(), [(0, [0, 1]), (0, [2])]).segments[0]
    assert (first.exports, first.pins, first.saved_pins) == ((), (residual, cotangent), (residual,))


def test_a_context_that_must_stay_is_pinned_where_it_was_made(builder):
    build = builder()
    build.specs[0] = ContextSpec(100, 1)
    context, y = build.function("f", 0)
    z = build.op("sin", y)
    build.function_vjp("f", context, z, 0, y)
    made = crossing(build.graph(), [(0, [0]), (1, [1]), (0, [2])]).segments
    assert (made[0].pins, made[0].saved_pins) == ((context,), ())
    assert made[2].unpins == ((context, True),)


def test_on_a_cluster_where_what_is_saved_stays_no_residual_is_to_be_copied(builder):
    build = builder()
    residual = build.op("sin", 0)
    cotangent = build.op("cos", 0)
    build.op_vjp("sin", [residual], cotangent)
    blocks = [(0, [0, 1]), (0, [2])]
    assert crossing(build.graph(), blocks).segments[0].saved_pins == (residual,)
    stays = crossing(build.graph(), blocks, saved_stays=True).segments[0]
    assert (stays.pins, stays.saved_pins, stays.exports) == ((residual, cotangent), (), ())


def test_a_cotangent_is_not_saved_but_a_residual_is(builder):
    build = builder()
    residual = build.op("sin", 0)
    cotangent = build.op("cos", 0)
    build.op_vjp("sin", [residual], cotangent)
    exports = crossing(build.graph(), [(0, [0, 1]), (1, [2])]).segments[0].exports
    assert [(export.values, export.saved) for export in exports] == [((residual,), True), ((cotangent,), False)]


def test_what_the_client_keeps_is_pinned_or_stored_and_listed(builder):
    build = builder()
    context, y = build.function("f", 0)
    z = build.op("sin", y)
    build.keep_on_worker(0, z)
    build.keep_in_store(0, context, y)
    made = crossing(build.graph(), [(1, [0, 1])])
    assert made.kept == {context: InStore(0, 0, 0), y: InStore(0, 0, 1), z: OnWorker(1, 0)}
    assert made.segments[0].exports == (Export((context, y), (), saved=True, kept=True),)
    assert made.segments[0].pins == (z,)


def test_a_value_kept_in_the_store_is_stored_once_and_its_readers_import_just_it(builder):
    build = builder()
    context, y = build.function("f", 0)
    build.op("sin", y)
    build.keep_in_store(context, y)
    made = crossing(build.graph(), [(0, [0]), (1, [1])])
    place = made.kept[y]
    assert isinstance(place, InStore)
    assert made.segments[1].imports == ((0, place.export),)
    assert made.segments[1].bytes_in == 32
    assert sorted(value for export in made.segments[0].exports for value in export.values) == [context, y]


def test_a_value_kept_both_ways_is_in_the_store_only(builder):
    build = builder()
    a = build.op("sin", 0)
    build.keep_on_worker(a)
    build.keep_in_store(a)
    made = crossing(build.graph(), [(0, [0])])
    assert made.kept == {a: InStore(0, 0, 0)}
    assert made.segments[0].pins == ()


def test_a_pin_that_the_client_holds_is_dropped_by_no_reader(builder):
    build = builder()
    a = build.op("sin", 0)
    build.op("cos", a)
    build.keep_on_worker(a)
    made = crossing(build.graph(), [(0, [0]), (0, [1])]).segments
    assert made[0].pins == (a,)
    assert made[1].unpins == ((a, False),)


def test_an_external_on_another_worker_counts_as_crossing_once(builder):
    build = builder()
    build.op("sin", 0)
    build.op("cos", 0)
    assert crossing(build.graph(), [(0, [0, 1])], [1]).crossing_bytes == 32
    assert crossing(build.graph(), [(1, [0, 1])], [1]).crossing_bytes == 0


def vjp(level, arguments, outputs):
    return function_vjp_node("@f", (), (), depth=level, arguments=arguments, results=outputs)


def test_h7_the_cotangents_of_a_vjp_of_any_level_are_found():
    arguments, outputs = 3, 2
    first = outputs + arguments + outputs  # inputs of the vjp
    second = arguments + first  # cotangents of its gradients, and what it was given
    assert cotangent_bounds(vjp(1, arguments, outputs)) == (1, 1 + outputs)
    assert cotangent_bounds(vjp(2, arguments, outputs)) == (1, 1 + arguments)
    assert cotangent_bounds(vjp(3, arguments, outputs)) == (1, 1 + first)
    assert cotangent_bounds(vjp(4, arguments, outputs)) == (1, 1 + second)
    op = op_vjp_node("mul", (5, 6, 7), (1, 1), (1, 1), (0, 0), (0,))
    assert cotangent_bounds(op) == (2, 3)


def test_what_is_saved_or_kept_in_the_store_stays_on_a_worker_with_a_limit(builder):
    build = builder()
    context, out = build.function("f", 0)
    gradient = build.function_vjp("f", context, out, 0)
    build.keep_in_store(out)
    build.keep_on_worker(gradient)
    blocks = [(0, [0]), (0, [1])]
    first, _ = crossing(build.graph(), blocks).segments
    assert [export.values for export in first.exports] == [(out,)]
    assert first.saved_pins == (context,)
    made = crossing(build.graph(), blocks, limited=[0])
    first, second = made.segments
    assert first.exports == first.saved_pins == ()
    assert first.pins == (context, out)
    assert second.unpins == ((context, True), (out, False))
    assert made.kept[out] == OnWorker(0, 0)
    other = crossing(build.graph(), [(1, [0]), (0, [1])], limited=[0])
    assert other.kept[out] == InStore(0, 0, 0) or isinstance(other.kept[out], InStore), "not on one without"


def test_what_a_worker_with_little_memory_keeps_it_reads_where_that_is_though_others_import_it(builder):
    build = builder()
    a = build.op("sin", 0)
    build.op("cos", a)
    build.op("exp", a)
    build.keep_on_worker(a)
    blocks = [(0, [0]), (1, [1]), (0, [2])]
    made = crossing(build.graph(), blocks, limited=[0]).segments
    assert made[0].exports == (Export((a,), (1,), saved=False, kept=False),)
    assert (made[0].pins, made[2].unpins, made[2].imports, made[2].after) == ((a,), ((a, False),), (), (0,))
    free = crossing(build.graph(), blocks).segments
    assert (free[2].unpins, free[2].imports) == ((), ((0, 0),))
