"""Huge graphs: a chain of 10^5 nodes and wide graphs of 10^6 nodes, eagerly and in a session in process: seconds to
record, differentiate and run, and the peak of memory.

    python benchmarks/huge.py              the aims: 8 GiB and two minutes each
    python benchmarks/huge.py --quick      a tenth of the nodes

It is no part of `make bench`, since it takes a quarter of an hour. Each graph has a process of its own. `nodes` are
those of the forward graph; its backward has as many again, and sums.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from measure import Grid, elsewhere, table

import raygrad as rg

CHAIN, WIDE = 100_000, 1_000_000


class Scale(rg.autograd.Function):
    """Saves its input; as cheap as a Function can be."""

    pure = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.0001

    @staticmethod
    def backward(ctx, g):
        return g * 1.0001


def loss_of(kind: str, x: Any, nodes: int) -> Any:
    """Return the loss of a graph of about so many nodes."""
    y: Any = x
    if kind == "chain of ops":
        for _ in range(nodes):
            y = y * 1.0001
        return y.sum()
    if kind == "chain of Functions":
        for _ in range(nodes):
            y = Scale.apply(y)
        return y.sum()
    if kind == "loss + op":
        loss: Any = 0.0
        for _ in range(nodes // 2):
            loss = loss + x * 2.0
        return loss.sum()
    if kind == "loss + Function":
        loss = 0.0
        for _ in range(nodes // 2):
            loss = loss + Scale.apply(x)
        return loss.sum()
    return rg.stack([x * 2.0 for _ in range(nodes)]).sum()


def peak() -> int:
    """Return the peak of this process's resident memory, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(kind: str, workers: int, nodes: int) -> None:
    """Differentiate one graph and write what it took to stdout."""
    with rg.Session(workers=workers) if workers else nullcontext():
        x: Any = rg.ones(4, dtype=rg.float64, requires_grad=True)
        loss_of(kind, x, 100).backward()
        before, x.grad = peak(), None
        times = [time.perf_counter()]
        loss = loss_of(kind, x, nodes)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        total = float(cast(Any, x.grad).numpy().sum())
        times.append(time.perf_counter())
        del loss, x
    times.append(time.perf_counter())
    steps = [after - earlier for earlier, after in itertools.pairwise(times)]
    sys.stdout.write(json.dumps({"seconds": steps, "peak": peak() - before, "total": total}) + "\n")


def results(quick: bool) -> list[Grid]:
    """Measure everything of this file."""
    script, rows = str(Path(__file__).resolve()), []
    kinds = [("chain of ops", CHAIN), ("chain of Functions", CHAIN)]
    kinds += [(kind, WIDE) for kind in ("loss + op", "loss + Function", "stack of ops")]
    with elsewhere():
        for kind, full in kinds:
            nodes, totals = full // 10 if quick else full, set()
            for workers in (0, 1, 2):
                command = [sys.executable, script, kind, str(workers), str(nodes)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
                one = json.loads(done.stdout.splitlines()[-1])
                totals.add(one["total"])
                rows.append(
                    (
                        kind,
                        f"session of {workers}" if workers else "eager",
                        f"{nodes:,}",
                        *[f"{seconds:.1f}" for seconds in one["seconds"]],
                        f"{sum(one['seconds']):.1f}",
                        f"{one['peak'] / 2**30:.2f}",
                        f"{one['peak'] / nodes:,.0f}",
                        "the same" if len(totals) == 1 else "OTHERS",
                    )
                )
    columns = (
        "graph", "where", "nodes", "record s", "backward s", "run s", "release s", "all s", "peak GiB", "bytes a node",
        "gradient",
    )  # fmt: skip
    return [Grid("Huge graphs; aim: two minutes and 8 GiB each", columns, tuple(rows), words=2)]


if __name__ == "__main__":
    if len(sys.argv) == 4:
        child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.stdout.write(table(results("--quick" in sys.argv)) + "\n")
