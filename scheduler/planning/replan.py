"""Replanning for few changed workers: the blocks and nodes of a large plan that move to other blocks or other workers.

`clustered_planner` calls it; `incremental_transfers` then updates the segments. Order and number of blocks stay. A node
moves to another block only if that comes after the makers of all its inputs and before all its readers, so that blocks
can still be submitted in their order, and no two wait for each other (H6). Times are those of the previous plan. Ties
go to the worker with the least work, then to the lowest index.

- Colocated blocks go to one worker together: the one with the least work.
- Any other block goes where it delays itself and the next block of that worker least.
- If that delay is longer than a call takes, the independent parts of the block go to blocks that run at about its time,
  as far as each then causes less delay.
- A new worker takes over, along the plan, blocks that waited for their worker or made others wait; if there are none,
  blocks from the workers that have the most work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from ..model.arrays import Flags, GraphArrays, offsets
from ..model.costs import Costs
from ..model.dag import Floats, Indices
from ..model.disjoint_sets import find_root
from ..model.plan import Cluster
from ..placing.constraints import ConstraintArrays
from ..segments.array_timetable import SegmentTimes
from ..segments.array_transfers import BlockArrays, distinct_pairs

MAX_SHARE = 1.02
"""A new worker takes over at most this factor of an equal share of the work."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BlockMoves:
    """Blocks after some nodes or blocks have moved."""

    blocks: BlockArrays
    kinds: Indices
    """Per block, the devices that it needs, as bits."""
    nodes: Indices
    """All moved nodes: those in other blocks, and those whose block is on another worker."""


@dataclass(eq=False, slots=True, kw_only=True)
class PlanState:
    """The blocks of a plan with their times and constraints, and the current cluster."""

    arrays: GraphArrays
    blocks: BlockArrays
    crossing_reads: tuple[Indices, Indices]
    """(value, block that reads it) of each value that another block makes, sorted."""
    constraints: ConstraintArrays
    colocated: Indices
    """Per block, the name of its group of colocated blocks."""
    kinds: Indices
    """Per block, the devices that it needs, as bits."""
    times: SegmentTimes
    costs: Costs
    cluster: Cluster
    """The current workers."""

    def able_workers(self, kinds: int) -> list[int]:
        """Return the workers that serve devices given as bits."""
        return self.constraints.able_workers(self.cluster, kinds)


def colocated_blocks(blocks: BlockArrays, bound: Indices) -> Indices:
    """Return, per block, the first block of its group: the blocks that must be on one worker with it."""
    colocated = list(range(len(blocks.worker)))

    tied = np.flatnonzero(bound != np.arange(len(bound)))
    ties = distinct_pairs(blocks.home[tied], blocks.home[bound[tied]], len(colocated))
    for one, other in zip(*(some.tolist() for some in ties), strict=True):
        one, other = find_root(colocated, one), find_root(colocated, other)
        colocated[max(one, other)] = min(one, other)
    return np.array([find_root(colocated, one) for one in range(len(colocated))], np.int64)


def move_from_lost_workers(state: PlanState, worker: Indices) -> BlockMoves | None:
    """Return the moves that give every block a worker; `worker` has the worker of each block, -1 for one that is lost.
    Return None if no worker can run some block."""
    return _LostWorkers(state, worker).moves()


def move_to_new_workers(state: PlanState, worker: Indices, come: Sequence[int]) -> BlockMoves:
    """Return the moves by which the new workers `come` take over a part of the work."""
    after = _take_waiting_blocks(state, worker, come)
    if (after == worker).all():
        after = _take_fair_share(state, worker, come)
    return _block_moves(state, after, np.flatnonzero((after != worker)[state.blocks.home]))


def _block_moves(state: PlanState, worker: Indices, nodes: Indices) -> BlockMoves:
    return BlockMoves(blocks=replace(state.blocks, worker=worker), kinds=state.kinds, nodes=nodes)


# ---- workers that are gone -----------------------------------------------------------------------------------------


class _LostWorkers:
    """One call of `move_from_lost_workers`."""

    def __init__(self, state: PlanState, worker: Indices) -> None:
        self.state = state
        self.worker = worker.copy()
        self.lost = np.flatnonzero(worker < 0)
        self.count = len(worker)
        self.workers = len(state.cluster.workers)
        self.call = state.costs.call_seconds
        self.work = np.bincount(state.blocks.home, state.arrays.seconds, self.count)
        here = worker >= 0
        self.load = np.bincount(worker[here], self.work[here], self.workers)
        self.home = state.blocks.home.copy()
        self.kinds = state.kinds.copy()
        self.start, self.end = state.times.start.copy(), state.times.end.copy()
        self.moved_nodes: list[int] = []
        """Nodes moved to other blocks."""

    def moves(self) -> BlockMoves | None:
        state, lost = self.state, self.lost
        blocks = state.blocks
        members = np.bincount(state.colocated, minlength=self.count)
        single = members[state.colocated[lost]] == 1
        if not self._settle(lost[~single]):
            return None
        placed = np.flatnonzero(self.worker >= 0)
        self.line = np.sort(self.worker[placed] * self.count + placed)
        """The blocks of each worker in plan order, as worker * count + block."""
        bound = np.bincount(state.constraints.bound, minlength=len(state.arrays)) != 1
        able: dict[int, Indices] = {}
        for block in lost[single].tolist():
            need = int(state.kinds[block])
            if need not in able:
                able[need] = np.array(state.able_workers(need), np.int64)
            if not len(able[need]):
                return None
            self._place(block, able[need], bound)
        lost_blocks = np.zeros(self.count, np.bool_)
        lost_blocks[lost] = True
        nodes = np.flatnonzero(lost_blocks[blocks.home])
        if not self.moved_nodes:
            return _block_moves(state, self.worker, nodes)
        moved = np.zeros(len(self.home), np.bool_)
        moved[self.moved_nodes] = True
        order = np.append(blocks.order[~moved[blocks.order]], np.array(self.moved_nodes, np.int64))
        return BlockMoves(
            blocks=BlockArrays(
                order=order[np.argsort(self.home[order], kind="stable")],
                ends=offsets(np.bincount(self.home, minlength=self.count)),
                home=self.home,
                worker=self.worker,
            ),
            kinds=self.kinds,
            nodes=nodes,
        )

    def _settle(self, lost: Indices) -> bool:
        """Move each lost group of colocated blocks to the worker with the least work, the longest group first; return
        False if no worker can run one of them."""
        state, load = self.state, self.load
        if not len(lost):
            return True
        groups, which = np.unique(state.colocated[lost], return_inverse=True)
        work = np.bincount(which, self.work[lost])
        kinds = np.zeros(len(groups), np.int64)
        np.bitwise_or.at(kinds, which, state.kinds[lost])
        found = np.empty(len(groups), np.int64)
        heaps: dict[int, list[tuple[float, int]]] = {}
        for one in np.lexsort((groups, -work)).tolist():
            need = int(kinds[one])
            heap = heaps.get(need)
            if heap is None:
                able = state.able_workers(need)
                if not able:
                    return False
                heap = heaps[need] = [(float(load[index]), index) for index in able]
                heapify(heap)
            while heap[0][0] != load[heap[0][1]]:
                _, index = heappop(heap)
                heappush(heap, (float(load[index]), index))
            index = heap[0][1]
            load[index] += work[one]
            found[one] = index
        self.worker[lost] = found[which]
        return True

    # ---- one block

    def _place(self, block: int, able: Indices, bound: Flags) -> None:
        """Move a block to a worker, or parts of it to other blocks."""
        state = self.state
        nodes: list[int] = state.blocks.order[state.blocks.ends[block] : state.blocks.ends[block + 1]].tolist()
        ready, due = float(state.times.ready[block]), float(state.times.end[block])
        neighbours = self._neighbours(block, able)
        late, begin = self._late(neighbours, ready, due, self.call + float(self.work[block]))
        place = self._least(late, able)
        if late[place] > self.call and len(nodes) > 1:
            parts = self._parts(nodes, bound)
            if len(parts) > 1:
                left = self._dissolve(block, parts, able, neighbours, ready, due)
                self.work[block] = float(state.arrays.seconds[left].sum())
                late, begin = self._late(neighbours, ready, due, self.call + float(self.work[block]))
                place = self._least(late, able)
        one = int(able[place])
        self.worker[block] = one
        self.load[one] += self.work[block]
        self.start[block] = begin[place]
        self.end[block] = begin[place] + self.call + self.work[block]
        key = one * self.count + block
        self.line = np.insert(self.line, int(np.searchsorted(self.line, key)), key)

    def _neighbours(self, block: int, able: Indices) -> tuple[Indices, Indices]:
        """Return, per worker, its previous and its next block in plan order; -1 for none."""
        line, count = self.line, self.count
        if not len(line):
            return np.full(len(able), -1), np.full(len(able), -1)
        place = np.searchsorted(line, able * count + block)
        after, before = line[np.minimum(place, len(line) - 1)], line[place - 1]
        found = (place < len(line)) & (after // count == able)
        return (
            np.where((place > 0) & (before // count == able), before % count, -1),
            np.where(found, after % count, -1),
        )

    def _least(self, loss: Floats, worker: Indices) -> int:
        """Return the place of the smallest loss; of equal losses the one on the worker with the least work."""
        some = np.flatnonzero(loss == loss.min())
        return int(some[np.argmin(self.load[worker[some]])])

    def _late(
        self, neighbours: tuple[Indices, Indices], ready: float, due: float, seconds: float
    ) -> tuple[Floats, Floats]:
        """Return, per worker, the delay of a block there or of the block after it, and the block's start."""
        before, after = neighbours
        begin = np.maximum(np.where(before >= 0, self.end[before], 0.0), ready)
        delay = np.where(after >= 0, begin + seconds - self.start[after], 0.0)
        return np.maximum(np.maximum(delay, begin + seconds - due), 0.0), begin

    def _parts(self, nodes: list[int], bound: Flags) -> list[list[int]]:
        """Return the nodes of a block in independent parts; the first has all bound nodes and is not to be moved."""
        arrays = self.state.arrays
        group = {node: node for node in nodes}

        stay = -1
        for node in nodes:
            for value in arrays.read[arrays.reads[node] : arrays.reads[node + 1]].tolist():
                maker = int(arrays.maker[value]) if value >= 0 else -1
                if maker in group:
                    group[find_root(group, node)] = find_root(group, maker)
            if bound[node]:
                if stay >= 0:
                    group[find_root(group, node)] = find_root(group, stay)
                stay = node
        parts: dict[int, list[int]] = {}
        for node in nodes:
            parts.setdefault(find_root(group, node), []).append(node)
        if arrays.graph.open_ended and len(arrays) - 1 in group:
            stay = len(arrays) - 1 if stay < 0 else stay
        stay = find_root(group, stay) if stay >= 0 else nodes[0]
        return sorted(parts.values(), key=lambda part: find_root(group, part[0]) != find_root(group, stay))

    def _dissolve(
        self,
        block: int,
        parts: list[list[int]],
        able: Indices,
        neighbours: tuple[Indices, Indices],
        ready: float,
        due: float,
    ) -> list[int]:
        """Move parts of a block but the first to other blocks, as long as each causes less delay there; return the
        nodes that stay."""
        arrays, seconds = self.state.arrays, self.state.arrays.seconds
        left = list(parts[0])
        late, _ = self._late(neighbours, ready, due, self.call + float(seconds[left].sum()))
        here = float(late.min())
        some = np.concatenate(neighbours)
        on = np.concatenate((able, able))[some >= 0]
        some = some[some >= 0]
        if arrays.graph.open_ended:  # its last node ends the last block
            on, some = on[some < self.count - 1], some[some < self.count - 1]
        follow = self._following(some)
        for part in parts[1:]:
            took = float(seconds[part].sum())
            low, high = self._window(arrays, part)
            fits = (some > low) & (some < high)
            begin = np.maximum(self.start[some], ready)
            ends = begin + (self.end[some] - self.start[some]) + took
            delay = np.maximum(ends - self.end[some], 0.0)
            slack = np.where(follow >= 0, self.start[follow] - self.end[some], np.inf)
            loss = np.where(fits, np.maximum(np.maximum(delay - np.maximum(slack, 0.0), ends - due), 0.0), np.inf)
            best = self._least(loss, on) if len(some) else -1
            if best < 0 or loss[best] > here + took:
                left.extend(part)
                here += took
                continue
            to = int(some[best])
            self.home[part] = to
            self.kinds[to] |= self.kinds[block]
            self.moved_nodes.extend(part)
            self.load[on[best]] += took
            self.work[to] += took
            self.start[to] = begin[best]
            self.end[to] = ends[best]
        return left

    def _following(self, some: Indices) -> Indices:
        """Return, per block, the next block of its worker; -1 for none."""
        line, count = self.line, self.count
        owner = self.worker[some]
        place = np.searchsorted(line, owner * count + some) + 1
        found = line[np.minimum(place, len(line) - 1)]
        return np.where((place < len(line)) & (found // count == owner), found % count, -1)

    def _window(self, arrays: GraphArrays, part: list[int]) -> tuple[int, int]:
        """Return the bounds between which the block of a part must be: the latest maker, and the earliest reader."""
        low, high = -1, self.count
        own = set(part)
        for node in part:
            for value in arrays.read[arrays.reads[node] : arrays.reads[node + 1]].tolist():
                maker = int(arrays.maker[value]) if value >= 0 else -1
                if maker >= 0 and maker not in own:
                    low = max(low, int(self.home[maker]))
            first, last = int(arrays.first[node]), int(arrays.first[node + 1])
            begin, end = np.searchsorted(self.state.crossing_reads[0], (first, last)).tolist()
            if begin < end:  # readers are in blocks that come later: none of them was moved yet
                high = min(high, int(self.state.crossing_reads[1][begin:end].min()))
        return low, high


# ---- workers that have come ----------------------------------------------------------------------------------------


def _take_waiting_blocks(state: PlanState, worker: Indices, come: Sequence[int]) -> Indices:
    """Return the worker of each block after new workers took over blocks that waited for their busy worker, or made
    another block wait for it."""
    times, count = state.times, len(worker)
    worker = worker.copy()
    call = state.costs.call_seconds
    waited = times.start - times.ready
    line = np.lexsort((np.arange(count), worker))
    next_waits = np.zeros(count)
    same = worker[line[1:]] == worker[line[:-1]]
    next_waits[line[:-1][same]] = waited[line[1:][same]]
    alone = np.bincount(state.colocated, minlength=count)[state.colocated] == 1
    presses = alone & (next_waits > call)
    ready, due = times.ready.tolist(), times.end.tolist()
    took = (times.end - times.start).tolist()
    free = dict.fromkeys(come, 0.0)
    able = {need: state.able_workers(need) for need in np.unique(state.kinds).tolist()}
    moved: set[int] = set()
    before = np.full(count, -1)
    before[line[1:][same]] = line[:-1][same]
    for block in np.flatnonzero(presses | (alone & (waited > call))).tolist():
        if int(before[block]) in moved:
            continue  # its worker is free now
        for new in come:
            end = max(free[new], ready[block]) + took[block]
            late = call if presses[block] else -call  # if no block waits for it, it must itself end earlier
            if end <= due[block] + late and new in able[int(state.kinds[block])]:
                free[new] = end
                worker[block] = new
                moved.add(block)
                break
    return worker


def _take_fair_share(state: PlanState, worker: Indices, come: Sequence[int]) -> Indices:
    """Return the worker of each block after new workers took over an equal share, from those with the most work."""
    worker = worker.copy()
    count = len(state.cluster.workers)
    each = np.bincount(state.blocks.home, state.arrays.seconds, len(worker))
    load = np.bincount(worker, each, count)
    fair = float(load.sum()) / count
    groups, which = np.unique(state.colocated, return_inverse=True)
    work = np.bincount(which, each)
    kinds = np.zeros(len(groups), np.int64)
    np.bitwise_or.at(kinds, which, state.kinds)
    owner = np.empty(len(groups), np.int64)
    owner[which] = worker
    order = np.lexsort((np.arange(len(groups)), -work, owner))
    ends: list[int] = np.searchsorted(owner[order], np.arange(count + 1)).tolist()
    sort: list[int] = order.tolist()
    for new in come:
        needs: list[int] = np.unique(kinds).tolist()
        able = {need for need in needs if new in state.able_workers(need)}
        heap = [(-float(load[index]), index) for index in range(count) if index not in come]
        heapify(heap)
        while heap and load[new] < fair:
            _, index = heappop(heap)
            for place in range(ends[index], ends[index + 1]):
                one = sort[place]
                if owner[one] == index and int(kinds[one]) in able and load[new] + work[one] <= MAX_SHARE * fair:
                    owner[one] = new
                    load[new] += work[one]
                    load[index] -= work[one]
                    break
    return owner[which]
