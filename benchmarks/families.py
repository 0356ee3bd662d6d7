"""Families of graphs that placement algorithms are measured on.

Rules of this file: functions of (shape, size, generator) that add to a shape what depends on what, how long each node
takes and how much each edge carries, in proportion; `make` alone turns proportions into a `Dag` of a given ratio of
communication to computation. Nothing here knows a planner. `size` is the number of nodes wanted; regular shapes come
near it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from raygrad.scheduler.model.dag import Dag, dag_of

RATIOS = (0.1, 1.0, 5.0)
"""Mean time of an edge between two workers over mean time of a node."""


@dataclass(slots=True)
class Shape:
    """A graph being drawn: nodes are numbered in the order of their making."""

    seconds: list[float] = field(default_factory=list[float])
    source: list[int] = field(default_factory=list[int])
    target: list[int] = field(default_factory=list[int])
    amount: list[float] = field(default_factory=list[float])

    def node(self, seconds: float, reads: Iterable[int] = (), amount: float = 1.0) -> int:
        """Add a node that reads `amount` from each of `reads`; return its number."""
        number = len(self.seconds)
        self.seconds.append(seconds)
        for source in reads:
            self.edge(source, number, amount)
        return number

    def edge(self, source: int, target: int, amount: float = 1.0) -> None:
        """Add an edge that carries `amount`."""
        self.source.append(source)
        self.target.append(target)
        self.amount.append(amount)


Family: TypeAlias = Callable[[Shape, int, np.random.Generator], None]


def make(family: Family, size: int, ccr: float, seed: int) -> Dag:
    """Return a graph of about `size` nodes, of one second on average, whose edges take `ccr` seconds on average.

    The graphs of one seed differ in nothing but their edges' times."""
    shape = Shape()
    family(shape, size, np.random.default_rng(seed))
    seconds, amount = np.array(shape.seconds), np.array(shape.amount)
    transfer = amount * (ccr / amount.mean()) if len(amount) else amount
    return dag_of(seconds / seconds.mean(), shape.source, shape.target, transfer)


def spread(rng: np.random.Generator) -> float:
    """Return a factor of mean 1 for what varies without order."""
    return float(rng.uniform(0.2, 1.8))


def jitter(rng: np.random.Generator) -> float:
    """Return a factor near 1 for what is the same work each time."""
    return float(rng.uniform(0.9, 1.1))


# ---- plain shapes --------------------------------------------------------------------------------------------------


def chain(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """One chain: nothing to win, and everything to lose by a crossing."""
    for number in range(size):
        shape.node(spread(rng), [number - 1] if number else [], spread(rng))


def chains(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """Independent chains of unequal lengths."""
    left, mean = size, max(2, round(size**0.5 / 2))
    while left:
        length = min(left, int(rng.integers(1, 2 * mean)))
        node = shape.node(spread(rng))
        for _ in range(length - 1):
            node = shape.node(spread(rng), [node], spread(rng))
        left -= length


def out_tree(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """A tree that branches, each node into two or three until there are enough."""
    shape.node(spread(rng))
    parent = 0
    while len(shape.seconds) < size:
        for _ in range(min(int(rng.integers(2, 4)), size - len(shape.seconds))):
            shape.node(spread(rng), [parent], spread(rng))
        parent += 1


def in_tree(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """A tree that reduces to one node: an `out_tree` read backwards."""
    out_tree(shape, size, rng)
    last = len(shape.seconds) - 1
    shape.seconds.reverse()
    shape.source, shape.target = ([last - node for node in ends] for ends in (shape.target, shape.source))


def fork_join(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """Stages one after another: each forks into many nodes, which join in one."""
    width = max(2, round(2 * size**0.5))
    join = shape.node(spread(rng))
    while len(shape.seconds) < size - 1:
        count = min(width, size - 1 - len(shape.seconds))
        branches = [shape.node(spread(rng), [join], spread(rng)) for _ in range(count)]
        join = shape.node(spread(rng))
        for branch in branches:
            shape.edge(branch, join, spread(rng))


def layered(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """Random layers: each node reads one to four nodes, most of them of the layer before its own."""
    width = max(2, round(2 * size**0.5))
    before: list[int] = []
    while len(shape.seconds) < size:
        count = min(int(rng.integers(width // 2, width + width // 2 + 1)), size - len(shape.seconds))
        first = len(shape.seconds)
        for _ in range(count):
            node = shape.node(spread(rng))
            if not before:
                continue
            reads = {before[int(one)] for one in rng.integers(0, len(before), int(rng.integers(1, 4)))}
            if rng.random() < 0.2:
                reads.add(int(rng.integers(0, first)))
            for source in sorted(reads):
                shape.edge(source, node, spread(rng))
        before = list(range(first, first + count))


# ---- training ------------------------------------------------------------------------------------------------------


def transformer(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """Blocks of attention and perceptron, microbatches through them forward and backward, one step per block.

    A backward node takes twice its forward's time and reads what that saved; a step reads the gradients of all
    microbatches."""
    blocks = max(1, round((size / 8) ** 0.5))
    microbatches = max(1, round((size - blocks) / (4 * blocks + 1)))
    saved, activation, gradient = 2.0, 1.0, 1.5
    gradients: list[list[int]] = [[] for _ in range(blocks)]
    for _ in range(microbatches):
        forward: list[int] = []
        for _ in range(blocks):
            forward.append(shape.node(1.0 * jitter(rng), forward[-1:], activation))
            forward.append(shape.node(1.4 * jitter(rng), forward[-1:], activation))
        cotangent = shape.node(0.3 * jitter(rng), forward[-1:], activation)
        for number, made in reversed(list(enumerate(forward))):
            cotangent = shape.node(2.0 * shape.seconds[made], [cotangent], activation)
            shape.edge(made, cotangent, saved)
            gradients[number // 2].append(cotangent)
    for block in gradients:
        shape.node(0.5 * jitter(rng), block, gradient)


def ensemble(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """A thousand members (fewer where the size is below ten thousand), each with a forward and a backward of its own on
    inputs of one node, and one node that averages them all."""
    members = max(1, min(1000, size // 10))
    layers = max(1, round((size - 2) / (2 * members)))
    inputs = shape.node(0.5)
    ends: list[int] = []
    for _ in range(members):
        pace = spread(rng)  # members differ; the layers of one do not
        node, forward = inputs, list[int]()
        for _ in range(layers):
            node = shape.node(pace * jitter(rng), [node])
            forward.append(node)
        for made in reversed(forward):
            reads = [node] if node == made else [node, made]
            node = shape.node(2 * shape.seconds[made], reads)
        ends.append(node)
    shape.node(1.0, ends, 0.5)


# ---- linear algebra, signals, science ------------------------------------------------------------------------------


def cholesky(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """Tiled Cholesky factorisation, right-looking: POTRF, TRSM, SYRK and GEMM in the proportions of their flops."""
    tiles = 1
    while (tiles + 1) * (tiles + 2) * (tiles + 3) // 6 <= size:
        tiles += 1
    holds: dict[tuple[int, int], list[int]] = {}  # the node that last wrote a tile
    for k in range(tiles):
        holds[k, k] = [shape.node(1 / 3 * jitter(rng), holds.get((k, k), []))]
        for i in range(k + 1, tiles):
            holds[i, k] = [shape.node(1.0 * jitter(rng), holds[k, k] + holds.get((i, k), []))]
        for i in range(k + 1, tiles):
            holds[i, i] = [shape.node(1.0 * jitter(rng), holds[i, k] + holds.get((i, i), []))]
            for j in range(k + 1, i):
                reads = holds[i, k] + holds[j, k] + holds.get((i, j), [])
                holds[i, j] = [shape.node(2.0 * jitter(rng), reads)]


def fft(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """The butterflies of a fast Fourier transform over blocks: each node reads two of the rank before."""
    bits = 1
    while abs((1 << bits + 1) * (bits + 2) - size) < abs((1 << bits) * (bits + 1) - size):
        bits += 1
    points = 1 << bits
    rank = [shape.node(jitter(rng)) for _ in range(points)]
    for bit in range(bits):
        rank = [shape.node(jitter(rng), [rank[point], rank[point ^ (1 << bit)]]) for point in range(points)]


def montage(shape: Shape, size: int, rng: np.random.Generator) -> None:
    """A mosaic of sky images like Montage's, with task times in the proportions reported by Juve et al.,
    "Characterizing and profiling scientific workflows" (Future Generation Computer Systems 29, 2013)."""
    side = max(2, round((size / 4.2) ** 0.5))
    place = [(row, column) for row in range(side) for column in range(side)]
    projected = {where: shape.node(1.73 * spread(rng)) for where in place}
    overlaps = [
        (where, other)
        for where in place
        for other in ((where[0], where[1] + 1), (where[0] + 1, where[1]))
        if other in projected
    ]
    fits = [shape.node(0.66 * spread(rng), [projected[one], projected[two]]) for one, two in overlaps]
    joined = shape.node(0.068 * len(place), fits, 0.05)
    model = shape.node(0.183 * len(place), [joined], 0.1)
    corrected: list[int] = []
    for where in place:
        corrected.append(shape.node(1.72 * spread(rng), [projected[where]]))
        shape.edge(model, corrected[-1], 0.05)
    tiles = max(1, len(place) // 130)
    shrunk: list[int] = []
    for tile in range(tiles):
        images = corrected[tile::tiles]
        index = shape.node(0.02 * len(images), images, 0.05)
        added = shape.node(2.2 * len(images) * jitter(rng), images)
        shape.edge(index, added, 0.05)
        shrunk.append(shape.node(0.5 * len(images), [added], 4.0))
    shape.node(0.64, shrunk)


FAMILIES: dict[str, Family] = {
    "chain": chain,
    "chains": chains,
    "out-tree": out_tree,
    "in-tree": in_tree,
    "fork-join": fork_join,
    "layered": layered,
    "transformer": transformer,
    "ensemble": ensemble,
    "cholesky": cholesky,
    "fft": fft,
    "montage": montage,
}
CHAINS = ("chain", "chains")
"""Families in which no placement can gain by moving less: each chain belongs on one worker."""
