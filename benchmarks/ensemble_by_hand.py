"""Programs of `ensemble_programs.py` run by hand in one process, and the sum of gradients for those who divide them.

Gradients are added in the tree in which raygrad adds them, so that the bits can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from ensemble_programs import Grads, Outcome, Program

Subtrees = dict[tuple[int, int], Grads]
"""Sums by (level, position): level 0 holds the gradients of single branches, the last branch first."""


def merged(subtrees: Mapping[tuple[int, int], Grads], branches: int) -> Subtrees:
    """Return the largest subtrees of a balanced sum that can be added from those: of all branches, one."""
    found, level, count = dict(subtrees), 0, branches
    while count > 1:
        for position in range(0, count, 2):
            left, right, up = (level, position), (level, position + 1), (level + 1, position // 2)
            if position + 1 == count:
                if left in found:
                    found[up] = found.pop(left)
            elif left in found and right in found:
                found[up] = [np.add(a, b) for a, b in zip(found.pop(left), found.pop(right), strict=True)]
        level, count = level + 1, (count + 1) // 2
    return found


def total(subtrees: Sequence[Subtrees], branches: int) -> Grads:
    """Return the sum of the gradients of all branches."""
    every: Subtrees = {}
    for some in subtrees:
        every |= some
    (grads,) = merged(every, branches).values()
    return grads


def leaf_of_tree(index: int, branches: int) -> tuple[int, int]:
    """Return where a branch stands in the tree: backward reaches the last one first."""
    return 0, branches - 1 - index


def blocks_of(branches: int, workers: int) -> list[list[int]]:
    """Return contiguous blocks of branches, whose sum crosses workers as rarely as can be."""
    return [block.tolist() for block in np.array_split(np.arange(branches), workers)]


Evaluate = Callable[[Grads, Sequence[float]], tuple[Sequence[float], Grads]]
"""From leaves and factors to the losses by branch and the sum of the gradients."""


def stepping(program: Program, evaluate: Evaluate) -> Callable[[], Outcome]:
    """Return what takes one step after another, from the first on."""
    client = program.client()

    def step() -> Outcome:
        leaves, factors = client.begin()
        return client.end(*evaluate(leaves, factors))

    return step


def in_one_process(program: Program) -> Evaluate:
    """Return what runs the branches here, one after the other."""

    def evaluate(leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
        losses, grads = [0.0] * program.branches, Subtrees()
        for index, factor in enumerate(factors):
            losses[index], grads[leaf_of_tree(index, program.branches)] = program.branch(leaves, index, factor)
        return losses, total([grads], program.branches)

    return evaluate
