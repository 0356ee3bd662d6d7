"""Blocks of nodes as the planner of large graphs has them, made from those of small graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raygrad.scheduler.model.arrays import as_tuples, offsets
from raygrad.scheduler.segments.array_transfers import BlockArrays
from raygrad.scheduler.segments.segmenter import Block


def block_arrays(blocks: Sequence[Block], nodes: int) -> BlockArrays:
    """Return the blocks as arrays; `nodes` is the number of nodes of the graph."""
    sizes = np.array([len(block.nodes) for block in blocks], np.int64)
    order = np.array([node for block in blocks for node in block.nodes], np.int64)
    home = np.empty(nodes, np.int64)
    home[order] = np.repeat(np.arange(len(sizes)), sizes)
    worker = np.array([block.worker for block in blocks], np.int64)
    return BlockArrays(order=order, ends=offsets(sizes), home=home, worker=worker)


def block_lists(blocks: BlockArrays) -> list[Block]:
    """Return blocks of arrays as blocks of lists."""
    nodes = as_tuples(blocks.order.tolist(), blocks.ends.tolist())
    return list(map(Block, blocks.worker.tolist(), map(list, nodes)))
