"""What a memory budget costs: a chain whose saved tensors total eight times the budget, in process and on Ray; as one
graph of Functions that ran before, and as the first step of a program, in which each runs by itself to be learned.

Each run has a process of its own. Its peak is the proportional set size of all processes that run nodes, without what
they share with the object store, plus the store's bytes, over what they were before the chain; asked for every 10 ms.
Gradients are compared by their digest.
"""

# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from measure import Grid, elsewhere

import raygrad as rg

LAYERS = 40
TIMES = 8
"""What is saved, over the budget."""


class Layer(rg.autograd.Function):
    """Saves its input and an array of its own; cheap beside them."""

    pure = True

    @staticmethod
    def forward(ctx, x, w, number):
        inner = np.sin(x.numpy()) * w.numpy()
        ctx.save_for_backward(x, w, rg.from_numpy(inner))
        return rg.from_numpy(np.exp(inner) * 0.5)

    @staticmethod
    def backward(ctx, grad):
        x, w, inner = ctx.saved_tensors
        outer = np.exp(inner.numpy()) * 0.5
        slope = rg.from_numpy(outer * np.cos(x.numpy()) * w.numpy())
        return grad * slope, grad * rg.from_numpy(outer * np.sin(x.numpy())), None


def own_bytes(pid: int) -> int:
    """Return a process's share of memory, but for what it shares with the object store."""
    kinds = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return (int(kinds["Pss"].split()[0]) - int(kinds["Pss_Shmem"].split()[0])) * 1024


class Watch(threading.Thread):
    """Notes the most that a session's processes and its store hold."""

    def __init__(self, session: rg.Session) -> None:
        super().__init__(daemon=True)
        self._pids = session._driver.executor.pids() or (os.getpid(),)
        self._on_ray = session.address != "local"
        self.peak = 0
        self._done = threading.Event()

    def now(self) -> int:
        """Return the bytes held now."""
        stored = 0
        if self._on_ray:
            from raygrad.workers.executors.ray.connection import store_statistics

            stored = store_statistics()["bytes_used"]
        return stored + sum(map(own_bytes, self._pids))

    def run(self) -> None:
        """Look until told to stop."""
        while not self._done.wait(0.01):
            self.peak = max(self.peak, self.now())

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self.join()


def child(address: str, size: int, budget: int, *, first: bool) -> None:
    """Run the chain once and write what it took to stdout; `first`, with another argument for each node."""
    random = np.random.default_rng(0)
    with rg.Session(address, workers=1, memory=budget or None) as session:
        w = rg.tensor(random.standard_normal(size) * 0.1, requires_grad=True)
        x = rg.tensor(random.standard_normal(size), requires_grad=True)
        Layer.apply(x, w, 0).sum().backward()  # what is made once, and the leaves, are no part of it
        w.grad = x.grad = None
        session._waiter.wait_for_everything()
        watch = Watch(session)
        before = watch.now()
        watch.start()
        start = time.perf_counter()
        y = x
        for number in range(LAYERS):
            y = Layer.apply(y, w, 1 + number if first else 0)
        y.sum().backward()
        digest = hashlib.sha256(w.grad.numpy().tobytes() + x.grad.numpy().tobytes()).hexdigest()
        seconds = time.perf_counter() - start
        watch.stop()
    sys.stdout.write(json.dumps({"seconds": seconds, "peak": watch.peak - before, "digest": digest}) + "\n")


def results(quick: bool) -> list[Grid]:
    """Measure everything of this file."""
    size = 250_000 if quick else 1_000_000
    budget = LAYERS * 2 * 8 * size // TIMES
    script = str(Path(__file__).resolve())
    rows: list[tuple[str, ...]] = []
    with elsewhere():
        for address, step in itertools.product(("local", "ray"), ("known", "first")):
            found = []
            for limit in (0, budget):
                command = [sys.executable, script, address, str(size), str(limit), step]
                done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
                found.append(json.loads(done.stdout.splitlines()[-1]))
            free, tight = found
            for name, one in (("unlimited", free), (f"{budget / 1e6:.0f} MB", tight)):
                rows.append(
                    (
                        "in process" if address == "local" else "Ray, one worker",
                        step,
                        name,
                        f"{one['peak'] / 1e6:.0f} MB",
                        f"{one['peak'] / budget:.2f}",
                        f"{one['seconds']:.2f} s",
                        f"{one['seconds'] / free['seconds']:.2f}",
                        "the same" if one["digest"] == free["digest"] else "OTHERS",
                    )
                )
    title = f"{LAYERS} nodes that save {TIMES} times the budget; aim: peak <= 1.1 x the budget, the same gradients"
    columns = ("where", "step", "memory", "peak", "x budget", "time", "x unlimited", "gradients")
    return [Grid(title, columns, tuple(rows), words=3)]


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), first=sys.argv[4] == "first")
