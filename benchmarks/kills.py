"""What it costs that a worker is killed, on Ray.

    python benchmarks/kills.py              one kill in each of four programs, against the work that it destroyed
    python benchmarks/kills.py --training   a training with ten kills, 20 s apart, against the undisturbed one

Pieces sleep, so that their time is known and two cores are enough. Bits are compared in both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from measure import Grid, machine, table

import raygrad as rg
from raygrad.workers.executors.ray.executor import RayExecutor

SIZE = 20_000
PIECE_SECONDS = 0.1
"""What each forward and each backward of the four programs takes."""

KILLS, APART = 10, 20.0
"""Of the training."""

ROUNDS = 3


class Piece(rg.autograd.Function):
    """A piece that takes so many seconds in each direction."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, seconds: float) -> Any:
        time.sleep(seconds)
        y = rg.tanh(x * w)
        ctx.seconds = seconds
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(ctx.seconds)
        x, w, y = ctx.saved_tensors
        inner = grad * (1 - y * y)
        return inner * w, inner * x, None


def leaf(end: float) -> Any:
    return rg.from_numpy(np.linspace(0.1, end, SIZE)).requires_grad_()


Program = Callable[[], list[Any]]


def ensemble() -> list[Any]:
    """Sixteen members, and the gradient of their mean."""
    w = leaf(1.0)
    members = [Piece.apply(rg.from_numpy(np.linspace(0.0, n, SIZE)), w, PIECE_SECONDS).sum() for n in range(16)]
    mean: Any = sum(members)
    mean.backward()
    return [w.grad]


def chain() -> list[Any]:
    """Sixteen pieces, one after the other."""
    w = leaf(1.0)
    y = rg.from_numpy(np.linspace(0.0, 1.0, SIZE))
    for _ in range(16):
        y = Piece.apply(y, w, PIECE_SECONDS)
    y.sum().backward()
    return [w.grad]


def tree() -> list[Any]:
    """Eight pieces that are joined two by two."""
    w = leaf(1.0)
    level = [Piece.apply(rg.from_numpy(np.linspace(0.0, n, SIZE)), w, PIECE_SECONDS) for n in range(8)]
    while len(level) > 1:
        level = [Piece.apply(a * b, w, PIECE_SECONDS) for a, b in zip(level[::2], level[1::2], strict=True)]
    level[0].sum().backward()
    return [w.grad]


def training() -> list[Any]:
    """Four steps of Adam over four branches, submitted one by one."""
    w = leaf(1.0)
    optimiser = rg.optim.Adam([w], lr=0.01)
    for step in range(4):
        optimiser.zero_grad()
        x = rg.from_numpy(np.linspace(-1.0, 1.0, SIZE) + step)
        loss: Any = sum([Piece.apply(x + n, w, PIECE_SECONDS).sum() for n in range(4)])
        loss.backward()
        optimiser.step()
        loss.item()
    return [w.detach()]


PROGRAMS: tuple[Program, ...] = (ensemble, chain, tree, training)


@contextmanager
def restarts_timed() -> Generator[list[float]]:
    """Collect the seconds from asking Ray for each process that takes the place of another to its first answer."""
    asked: dict[int, float] = {}
    took: list[float] = []
    restart, restarted = RayExecutor.restart, RayExecutor._restarted

    def timed_restart(self: RayExecutor, worker: int) -> bool:
        asked[worker] = time.perf_counter()
        return restart(self, worker)

    def timed_restarted(self: RayExecutor, index: int, restart: Any, answer: Any) -> None:
        took.append(time.perf_counter() - asked[index])
        restarted(self, index, restart, answer)

    RayExecutor.restart, RayExecutor._restarted = timed_restart, timed_restarted
    try:
        yield took
    finally:
        RayExecutor.restart, RayExecutor._restarted = restart, restarted


def kill(session: rg.Session, worker: int) -> None:
    """Kill a worker, if it is there."""
    pid = cast("Any", session._driver).executor.pids()[worker]
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, signal.SIGKILL)


def timed(program: Program, kill_at: float | None) -> tuple[float, list[Any], float]:
    """Run a program; return the seconds, what it made, and the seconds of pieces that ran again."""
    with rg.Session("ray", workers=2) as session:
        program()  # plans and times are known, and contexts are known to pickle
        again: list[str] = []
        listened = cast("Any", session._driver)._lost_work._replanned

        def replanned(number: int, plan: Any, revision: Any) -> None:
            graph = cast("Any", session._driver)._runs[number].planned.graph
            again.extend(
                [cast("Any", session._driver).executor.name_of(graph.nodes[node].fn) for node in revision.remade]
            )
            listened(number, plan, revision)

        cast("Any", session._driver)._lost_work._replanned = replanned
        began = time.perf_counter()
        strike = threading.Timer(kill_at or 0.0, kill, (session, 0))
        if kill_at is not None:
            strike.start()
        found = [one.numpy().copy() for one in program()]
        took = time.perf_counter() - began
    return took, found, len([name for name in again if "Piece" in name]) * PIECE_SECONDS


def one_kill() -> Grid:
    """Return what a kill costs in each program, at a quarter, half and three quarters of its time."""
    rows: list[tuple[str, ...]] = []
    for program in PROGRAMS:
        alone = [timed(program, None) for _ in range(ROUNDS)]
        undisturbed = statistics.median([seconds for seconds, _, _ in alone])
        for share in (0.25, 0.5, 0.75):
            with restarts_timed() as took:
                disturbed, found, again = timed(program, share * undisturbed)
            same = all([np.array_equal(one, other) for one, other in zip(found, alone[0][1], strict=True)])
            cells = [f"{undisturbed:.2f} s", f"{disturbed - undisturbed:+.2f} s", f"{again:.1f} s"]
            restart = f"{took[0]:.1f} s" if took else "after the end"
            rows.append((program.__name__, f"{share:.0%}", *cells, restart, "same" if same else "OTHER"))
    columns = ("program", "killed at", "undisturbed", "the kill costs", "ran again", "new process came after", "bits")
    return Grid("One of two workers is killed", columns, tuple(rows), words=2)


def train(steps: int, kills: int, seed: int = 0) -> tuple[float, Any, int]:
    """Train in steps of 0.2 s; return the seconds, the parameters, and the kills that have hit a process."""
    ended = threading.Event()
    drawn, hits = random.Random(seed), list[int]()
    with rg.Session("ray", workers=2) as session:
        w = leaf(1.0)
        optimiser = rg.optim.Adam([w], lr=0.01)

        def strike() -> None:
            for _ in range(kills):
                if ended.wait(APART + drawn.uniform(-2.0, 2.0)):
                    return
                worker = drawn.randrange(2)
                kill(session, worker)
                hits.append(worker)

        killer = threading.Thread(target=strike)
        began = time.perf_counter()
        killer.start()
        for step in range(steps):
            optimiser.zero_grad()
            x = rg.from_numpy(np.linspace(-1.0, 1.0, SIZE) + step % 7)
            loss: Any = sum([Piece.apply(x + n, w, 0.05).sum() for n in range(4)])
            loss.backward()
            optimiser.step()
            if step % 10 == 9:
                loss.item()
        found = w.detach().numpy().copy()
        took = time.perf_counter() - began
        ended.set()
        killer.join()
    return took, found, len(hits)


def ten_kills(steps: int) -> Grid:
    """Return how a training with kills compares with the undisturbed one."""
    undisturbed, expected, _ = train(steps, 0)
    with restarts_timed() as took:
        disturbed, found, hits = train(steps, KILLS)
    same = "same" if np.array_equal(found, expected) else "OTHER"
    waits = sum(took)
    cells = (
        f"{undisturbed:.1f} s",
        f"{disturbed:.1f} s",
        str(hits),
        f"{waits:.1f} s",
        f"{(disturbed - waits) / undisturbed:.2f}",
        f"{disturbed / undisturbed:.2f}",
        same,
    )
    columns = ("undisturbed", "with kills", "kills", "new processes", "ratio without these", "ratio", "bits")
    title = f"A training of {steps} steps of {undisturbed / steps:.2f} s on two workers, killed every {APART:.0f} s"
    return Grid(title, columns, (cells,), words=0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--training", action="store_true", help="a training with ten kills")
    parser.add_argument("--steps", type=int, default=1_000, help="of the training")
    given = parser.parse_args(arguments)
    import ray

    ray.init(address="local", num_cpus=3, object_store_memory=100 * 2**20, log_to_driver=False, include_dashboard=False)
    grid = ten_kills(given.steps) if given.training else one_kill()
    ray.shutdown()
    print("\n".join([f"{name}: {value}" for name, value in machine().items()]))
    print(table([grid]))
    return 1 if any(["OTHER" in row for row in grid.rows]) else 0


if __name__ == "__main__":
    sys.exit(main())
