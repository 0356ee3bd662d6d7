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
from ..placing.constraints import ConstraintArrays, able_workers
from ..segments.array_timetable import SegmentTimes
from ..segments.array_transfers import BlockArrays, distinct_pairs

MAX_SHARE = 1.02
"""A new worker takes over at most this factor of its fair share."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BlockMoves:
    """Blocks in which some nodes are elsewhere."""

    blocks: BlockArrays
    kinds: Indices
    """Per block, the kinds of device that it needs."""
    nodes: Indices
    """All nodes that are in other blocks, or whose block is on another worker."""


@dataclass(eq=False, slots=True, kw_only=True)
class PlanState:
    """What is known of the blocks of a plan."""

    arrays: GraphArrays
    blocks: BlockArrays
    crossing: tuple[Indices, Indices]
    """(value, block that reads it) where another block makes it, sorted."""
    demanded: ConstraintArrays
    share: Indices
    """Per block, the name of those that go to one worker with it."""
    kinds: Indices
    """Per block, the kinds of device that it needs."""
    times: SegmentTimes
    costs: Costs
    cluster: Cluster
    """The workers there are now."""


def colocated_blocks(blocks: BlockArrays, bound: Indices) -> Indices:
    """Return, per block, the first of those that must be where it is."""
    share = list(range(len(blocks.worker)))

    tied = np.flatnonzero(bound != np.arange(len(bound)))
    ties = distinct_pairs(blocks.home[tied], blocks.home[bound[tied]], len(share))
    for one, other in zip(*(some.tolist() for some in ties), strict=True):
        one, other = find_root(share, one), find_root(share, other)
        share[max(one, other)] = min(one, other)
    return np.array([find_root(share, one) for one in range(len(share))], np.int64)


def move_from_lost_workers(known: PlanState, worker: Indices) -> BlockMoves | None:
    """Return the moves that leave no block without a worker; `worker` has -1 for those that have none. None if some
    can run nowhere."""
    return _LostWorkers(known, worker).moves()


def move_to_new_workers(known: PlanState, worker: Indices, come: Sequence[int]) -> BlockMoves:
    """Return the moves by which new workers take over a part of the work."""
    after = _take_waiting_blocks(known, worker, come)
    if (after == worker).all():
        after = _take_fair_share(known, worker, come)
    return _block_moves(known, after, np.flatnonzero((after != worker)[known.blocks.home]))


def _block_moves(known: PlanState, worker: Indices, nodes: Indices) -> BlockMoves:
    return BlockMoves(blocks=replace(known.blocks, worker=worker), kinds=known.kinds, nodes=nodes)


def _able_workers(known: PlanState, kinds: int) -> list[int]:
    able = able_workers(known.cluster, known.demanded.names, kinds)
    return list(range(len(known.cluster.workers))) if able is None else able


# ---- workers that are gone -----------------------------------------------------------------------------------------


class _LostWorkers:
    """One use of `move_from_lost_workers`."""

    def __init__(self, known: PlanState, worker: Indices) -> None:
        self.known = known
        self.worker = worker.copy()
        self.lost = np.flatnonzero(worker < 0)
        self.count = len(worker)
        self.workers = len(known.cluster.workers)
        self.call = known.costs.call_seconds
        self.work = np.bincount(known.blocks.home, known.arrays.seconds, self.count)
        here = worker >= 0
        self.load = np.bincount(worker[here], self.work[here], self.workers)
        self.home = known.blocks.home.copy()
        self.kinds = known.kinds.copy()
        self.start, self.end = known.times.start.copy(), known.times.end.copy()
        self.gone: list[int] = []
        """Nodes that went to other blocks."""

    def moves(self) -> BlockMoves | None:
        known, lost = self.known, self.lost
        blocks = known.blocks
        members = np.bincount(known.share, minlength=self.count)
        single = members[known.share[lost]] == 1
        if not self._settle(lost[~single]):
            return None
        placed = np.flatnonzero(self.worker >= 0)
        self.line = np.sort(self.worker[placed] * self.count + placed)
        """Blocks of each worker in their order."""
        bound = np.bincount(known.demanded.bound, minlength=len(known.arrays)) != 1
        able: dict[int, Indices] = {}
        for block in lost[single].tolist():
            need = int(known.kinds[block])
            if need not in able:
                able[need] = np.array(_able_workers(known, need), np.int64)
            if not len(able[need]):
                return None
            self._place(block, able[need], bound)
        gone = np.zeros(self.count, np.bool_)
        gone[lost] = True
        nodes = np.flatnonzero(gone[blocks.home])
        if not self.gone:
            return _block_moves(known, self.worker, nodes)
        away = np.zeros(len(self.home), np.bool_)
        away[self.gone] = True
        order = np.append(blocks.order[~away[blocks.order]], np.array(self.gone, np.int64))
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
        """Give blocks that share their worker to those that have the least work, the longest first; False if none can
        run them."""
        known, load = self.known, self.load
        if not len(lost):
            return True
        shares, which = np.unique(known.share[lost], return_inverse=True)
        work = np.bincount(which, self.work[lost])
        kinds = np.zeros(len(shares), np.int64)
        np.bitwise_or.at(kinds, which, known.kinds[lost])
        found = np.empty(len(shares), np.int64)
        heaps: dict[int, list[tuple[float, int]]] = {}
        for one in np.lexsort((shares, -work)).tolist():
            need = int(kinds[one])
            heap = heaps.get(need)
            if heap is None:
                able = _able_workers(known, need)
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
        """Give a block to a worker, or parts of it to others."""
        known = self.known
        nodes: list[int] = known.blocks.order[known.blocks.ends[block] : known.blocks.ends[block + 1]].tolist()
        ready, due = float(known.times.ready[block]), float(known.times.end[block])
        beside = self._beside(block, able)
        late, begin = self._late(beside, ready, due, self.call + float(self.work[block]))
        place = self._least(late, able)
        if late[place] > self.call and len(nodes) > 1:
            parts = self._parts(nodes, bound)
            if len(parts) > 1:
                left = self._dissolve(block, parts, able, beside, ready, due)
                self.work[block] = float(known.arrays.seconds[left].sum())
                late, begin = self._late(beside, ready, due, self.call + float(self.work[block]))
                place = self._least(late, able)
        one = int(able[place])
        self.worker[block] = one
        self.load[one] += self.work[block]
        self.start[block] = begin[place]
        self.end[block] = begin[place] + self.call + self.work[block]
        key = one * self.count + block
        self.line = np.insert(self.line, int(np.searchsorted(self.line, key)), key)

    def _beside(self, block: int, able: Indices) -> tuple[Indices, Indices]:
        """Return, per worker, its blocks before and after this one in the order of the plan; -1 for none."""
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
        """Return the place of the least loss, of equal ones on the worker with the least work."""
        some = np.flatnonzero(loss == loss.min())
        return int(some[np.argmin(self.load[worker[some]])])

    def _late(self, beside: tuple[Indices, Indices], ready: float, due: float, seconds: float) -> tuple[Floats, Floats]:
        """Return, per worker, by how much a block would be late there or delay what follows; and its start."""
        before, after = beside
        begin = np.maximum(np.where(before >= 0, self.end[before], 0.0), ready)
        delay = np.where(after >= 0, begin + seconds - self.start[after], 0.0)
        return np.maximum(np.maximum(delay, begin + seconds - due), 0.0), begin

    def _parts(self, nodes: list[int], bound: Flags) -> list[list[int]]:
        """Return the nodes of a block in parts that have nothing to do with each other; what is bound is in the first,
        which is to stay."""
        arrays = self.known.arrays
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
        beside: tuple[Indices, Indices],
        ready: float,
        due: float,
    ) -> list[int]:
        """Give parts of a block but the first to other blocks, as long as each delays less there than here; return
        what is left of it."""
        arrays, seconds = self.known.arrays, self.known.arrays.seconds
        left = list(parts[0])
        late, _ = self._late(beside, ready, due, self.call + float(seconds[left].sum()))
        here = float(late.min())
        some = np.concatenate(beside)
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
            self.gone.extend(part)
            self.load[on[best]] += took
            self.work[to] += took
            self.start[to] = begin[best]
            self.end[to] = ends[best]
        return left

    def _following(self, some: Indices) -> Indices:
        """Return, per block, the next one of its worker; -1 for none."""
        line, count = self.line, self.count
        owner = self.worker[some]
        place = np.searchsorted(line, owner * count + some) + 1
        found = line[np.minimum(place, len(line) - 1)]
        return np.where((place < len(line)) & (found // count == owner), found % count, -1)

    def _window(self, arrays: GraphArrays, part: list[int]) -> tuple[int, int]:
        """Return the blocks between which all of a part may be: those of what it reads, and of its readers."""
        low, high = -1, self.count
        own = set(part)
        for node in part:
            for value in arrays.read[arrays.reads[node] : arrays.reads[node + 1]].tolist():
                maker = int(arrays.maker[value]) if value >= 0 else -1
                if maker >= 0 and maker not in own:
                    low = max(low, int(self.home[maker]))
            first, last = int(arrays.first[node]), int(arrays.first[node + 1])
            begin, end = np.searchsorted(self.known.crossing[0], (first, last)).tolist()
            if begin < end:  # readers are in blocks that come later: none of them was moved yet
                high = min(high, int(self.known.crossing[1][begin:end].min()))
        return low, high


# ---- workers that have come ----------------------------------------------------------------------------------------


def _take_waiting_blocks(known: PlanState, worker: Indices, come: Sequence[int]) -> Indices:
    """Return the workers of blocks when new ones have taken over those whose worker was busy: with others, so that they
    came late, or with them, so that others did."""
    times, count = known.times, len(worker)
    worker = worker.copy()
    call = known.costs.call_seconds
    waited = times.start - times.ready
    line = np.lexsort((np.arange(count), worker))
    next_waits = np.zeros(count)
    same = worker[line[1:]] == worker[line[:-1]]
    next_waits[line[:-1][same]] = waited[line[1:][same]]
    alone = np.bincount(known.share, minlength=count)[known.share] == 1
    presses = alone & (next_waits > call)
    ready, due = times.ready.tolist(), times.end.tolist()
    took = (times.end - times.start).tolist()
    free = dict.fromkeys(come, 0.0)
    able = {need: _able_workers(known, need) for need in np.unique(known.kinds).tolist()}
    moved: set[int] = set()
    before = np.full(count, -1)
    before[line[1:][same]] = line[:-1][same]
    for block in np.flatnonzero(presses | (alone & (waited > call))).tolist():
        if int(before[block]) in moved:
            continue  # its worker is free now
        for new in come:
            end = max(free[new], ready[block]) + took[block]
            late = call if presses[block] else -call  # where nobody waits for it, it has to gain itself
            if end <= due[block] + late and new in able[int(known.kinds[block])]:
                free[new] = end
                worker[block] = new
                moved.add(block)
                break
    return worker


def _take_fair_share(known: PlanState, worker: Indices, come: Sequence[int]) -> Indices:
    """Return the workers of blocks when new ones have taken over a fair share, from those that have the most work."""
    worker = worker.copy()
    count = len(known.cluster.workers)
    each = np.bincount(known.blocks.home, known.arrays.seconds, len(worker))
    load = np.bincount(worker, each, count)
    fair = float(load.sum()) / count
    shares, which = np.unique(known.share, return_inverse=True)
    work = np.bincount(which, each)
    kinds = np.zeros(len(shares), np.int64)
    np.bitwise_or.at(kinds, which, known.kinds)
    owner = np.empty(len(shares), np.int64)
    owner[which] = worker
    order = np.lexsort((np.arange(len(shares)), -work, owner))
    ends: list[int] = np.searchsorted(owner[order], np.arange(count + 1)).tolist()
    sort: list[int] = order.tolist()
    for new in come:
        able = {need for need in np.unique(kinds).tolist() if new in _able_workers(known, need)}
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
