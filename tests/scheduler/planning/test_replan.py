from __future__ import annotations

import numpy as np
import pytest

from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.placing.constraints import constraint_arrays
from raygrad.scheduler.planning.replan import PlanState, colocated_blocks, move_from_lost_workers, move_to_new_workers
from raygrad.scheduler.segments.array_timetable import segment_times
from raygrad.scheduler.segments.array_transfers import ArrayTransferPlanner
from raygrad.scheduler.segments.segmenter import Block

from ..blocks import block_arrays, block_lists

COSTS = Costs(
    call_seconds=0.1, hop_seconds=0.2, op_seconds=1.0, op_bandwidth=1e30, function_seconds=1.0, function_bandwidth=1e30
)


def known(graph, blocks, workers):
    """What is known of a plan of these blocks, when so many workers are left."""
    residency = (-1,) * len(graph.externals)
    count = max(block.worker for block in blocks) + 1
    arrays = graph_arrays(PricedGraph(graph, COSTS))
    made = block_arrays(blocks, len(graph.nodes))
    planner = ArrayTransferPlanner(arrays, made)
    transfers = planner.run(residency)
    cluster = Cluster.of(max(count, workers))
    demanded = constraint_arrays(arrays, residency, cluster)
    return PlanState(
        arrays=arrays,
        blocks=made,
        crossing_reads=planner.crossing_reads,
        constraints=demanded,
        colocated=colocated_blocks(made, demanded.bound),
        kinds=np.zeros(len(blocks), np.int64),
        times=segment_times(transfers.planned.segments, planner, transfers.flow, residency, COSTS, cluster),
        costs=COSTS,
        cluster=Cluster.of(workers),
    )


def without_last(known):
    worker = known.blocks.worker.copy()
    worker[worker == len(known.cluster.workers)] = -1
    return worker


def independent(builder, count, of=1):
    """A graph of chains of so many nodes that have nothing to do with each other."""
    build = builder(externals=count)
    ends = []
    for external in range(count):
        value = external
        for _ in range(of):
            value = build.op("sin", value)
        ends.append(value)
    build.keep_on_worker(*ends)
    return build.graph()


def test_parts_of_a_lost_block_that_are_independent_are_spread(builder):
    graph = independent(builder, 12)
    some = known(graph, [Block(worker, [3 * worker, 3 * worker + 1, 3 * worker + 2]) for worker in range(4)], 3)
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    assert moves.nodes.tolist() == [9, 10, 11]
    workers = moves.blocks.worker[moves.blocks.home]
    assert np.bincount(workers).tolist() == [4, 4, 4]
    assert [len(block.nodes) for block in block_lists(moves.blocks)] == [4, 4, 3, 1], (
        "one stays in the block that there was"
    )


def test_a_lost_block_that_hangs_together_goes_whole(builder):
    graph = independent(builder, 3, of=4)
    some = known(graph, [Block(worker, list(range(4 * worker, 4 * worker + 4))) for worker in range(3)], 2)
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    assert moves.blocks.home.tolist() == some.blocks.home.tolist()
    assert moves.blocks.worker.tolist() == [0, 1, 0]


def test_a_lost_block_goes_where_there_is_time_for_it(builder):
    build = builder(externals=2)
    first = build.op("sin", 0)  # worker 0
    second = build.op("sin", first)  # worker 1, which is idle before
    build.keep_on_worker(build.op("sin", second), build.op("sin", 1))  # worker 0 again; the lost one
    blocks = [Block(0, [0]), Block(2, [3]), Block(1, [1]), Block(0, [2])]
    some = known(build.graph(), blocks, 2)
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    assert moves.blocks.worker.tolist() == [0, 1, 1, 0], "worker 0 is busy then"


def test_blocks_that_share_their_worker_go_together(builder):
    build = builder(externals=2)
    context, output = build.function("f", 0)
    other = build.function("f", 1)[1]
    away = build.op("sin", output)
    build.keep_on_worker(build.function_vjp("f", context, 1, away), other)
    blocks = [Block(2, [0]), Block(0, [1]), Block(1, [2]), Block(2, [3])]
    some = known(build.graph(), blocks, 2)
    assert some.colocated.tolist() == [0, 1, 2, 0]
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    assert moves.blocks.worker[0] == moves.blocks.worker[3] >= 0


def test_no_node_goes_before_what_it_reads_or_after_its_readers(builder):
    """Layers of nodes that each read two of the layer before: a part may go to blocks of its own layer alone."""
    width, layers = 12, 5
    build = builder(externals=width)
    before = list(range(width))
    for _ in range(layers):
        before = [build.op("add", before[one], before[(5 * one + 1) % width]) for one in range(width)]
    build.keep_on_worker(*before)
    graph = build.graph()
    blocks = [
        Block(worker, [width * layer + 3 * worker + one for one in range(3)])
        for layer in range(layers)
        for worker in range(4)
    ]
    some = known(graph, blocks, 3)
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    home = moves.blocks.home
    assert (home != some.blocks.home).sum() >= layers, "parts were moved"
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            if value >= width:
                assert home[value - width] < home[index]
    work = np.bincount(moves.blocks.worker[home] + 3 * (np.arange(len(home)) // width), minlength=3 * layers)
    assert work.max() <= 5, "no worker has a whole block more in a layer"


@pytest.mark.parametrize("open_ended", [False, True])
def test_nothing_follows_an_open_ended_node(builder, open_ended):
    graph = independent(builder, 9)._replace(open_ended=open_ended)
    blocks = [Block(2, [0, 1, 2]), Block(0, [3, 4, 5]), Block(1, [6, 7, 8])]
    some = known(graph, blocks, 2)
    moves = move_from_lost_workers(some, without_last(some))
    assert moves is not None
    last = block_lists(moves.blocks)[-1]
    assert (last.nodes == [6, 7, 8]) is open_ended


def test_a_new_worker_takes_over_what_others_have_to_wait_for(builder):
    graph = independent(builder, 4)
    some = known(graph, [Block(0, [0]), Block(1, [1]), Block(0, [2]), Block(1, [3])], 3)
    moves = move_to_new_workers(some, some.blocks.worker, [2])
    assert moves.blocks.worker.tolist() == [2, 1, 0, 1]
    assert moves.nodes.tolist() == [0]


def test_a_new_worker_takes_over_a_share_where_nobody_waits(builder):
    build = builder(externals=3)
    contexts = [build.function("f", external) for external in range(3)]
    backs = [build.function_vjp("f", context, 1, output) for context, output in contexts]
    build.keep_on_worker(*backs)
    some = known(
        build.graph(), [Block(0, [0]), Block(0, [1]), Block(1, [2]), Block(0, [3]), Block(0, [4]), Block(1, [5])], 3
    )
    moves = move_to_new_workers(some, some.blocks.worker, [2])
    work = np.bincount(moves.blocks.worker[moves.blocks.home])
    assert work.tolist() == [2, 2, 2]
