"""Programs of `ensemble_programs.py` run by bare Ray actors, in three ways.

Each actor adds the subtrees of the gradients' sum of which it has all the leaves, the client the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ray
from ensemble_by_hand import Evaluate, Subtrees, blocks_of, leaf_of_tree, merged, total
from ensemble_programs import Grads, Program

QUEUE: Final = "bare actors, ray.wait queue"


class BareActor:
    """An actor with nothing of raygrad: runs branches, and keeps their gradients until it is asked for their sum."""

    program: Program

    def __init__(self) -> None:
        self.grads: Subtrees = {}

    def begin(self, program: Program) -> None:
        """Make ready for the branches of a program."""
        program.prepare()
        self.program = program

    def branch(self, index: int, factor: float, *leaves: Any) -> float:
        """Run one branch; return its loss."""
        loss, grads = self.program.branch(list(leaves), index, factor)
        self.grads[leaf_of_tree(index, self.program.branches)] = grads
        return loss

    def collect(self) -> Subtrees:
        """Return the sums of the gradients kept, and keep them no longer."""
        grads, self.grads = self.grads, {}
        return merged(grads, self.program.branches)

    def block(self, indices: Sequence[int], factors: Sequence[float], *leaves: Any) -> tuple[list[float], Subtrees]:
        """Run several branches; return their losses, and the sums of their gradients."""
        losses = [self.branch(index, factors[index], *leaves) for index in indices]
        return losses, self.collect()


class BareActors:
    """Two actors, and three ways of giving them the branches of a step."""

    program: Program
    blocks: list[list[int]]

    def __init__(self, workers: int = 2) -> None:
        self.actors: list[Any] = [ray.remote(BareActor).options(num_cpus=0).remote() for _ in range(workers)]

    def begin(self, program: Program) -> dict[str, Evaluate]:
        """Make ready for a program; return the ways by name."""
        self.program, self.blocks = program, blocks_of(program.branches, len(self.actors))
        ray.get([actor.begin.remote(program) for actor in self.actors])
        return {
            "bare actors, a call per branch": self.call_per_branch,
            "bare actors, a call per worker": self.call_per_worker,
            QUEUE: self.queue,
        }

    def call_per_branch(self, leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
        """Send all branches ahead, in blocks."""
        refs = [ray.put(leaf) for leaf in leaves]
        losses = [
            actor.branch.remote(index, factors[index], *refs)
            for actor, block in zip(self.actors, self.blocks, strict=True)
            for index in block
        ]
        grads = [actor.collect.remote() for actor in self.actors]
        return ray.get(losses), total(ray.get(grads), self.program.branches)

    def call_per_worker(self, leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
        """Send each worker its block."""
        refs = [ray.put(leaf) for leaf in leaves]
        calls = [
            actor.block.remote(block, list(factors), *refs)
            for actor, block in zip(self.actors, self.blocks, strict=True)
        ]
        losses, grads = zip(*ray.get(calls), strict=True)
        return [loss for block in losses for loss in block], total(grads, self.program.branches)

    def queue(self, leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
        """Send each worker a branch as soon as it has done one."""
        refs = [ray.put(leaf) for leaf in leaves]
        waiting = iter(range(self.program.branches))
        losses, running = [0.0] * self.program.branches, {}

        def start(actor: Any) -> None:
            for index in waiting:
                running[actor.branch.remote(index, factors[index], *refs)] = (index, actor)
                return

        for actor in self.actors:
            start(actor)
        while running:
            (done,), _ = ray.wait(list(running))
            index, actor = running.pop(done)
            start(actor)
            losses[index] = ray.get(done)
        return losses, total(ray.get([actor.collect.remote() for actor in self.actors]), self.program.branches)

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            ray.kill(actor)
