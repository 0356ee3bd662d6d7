"""A flood of emits: memory of client, workers and object store while a Function emits 100 MB/s for a minute.

    python benchmarks/emit_flood.py [--on ray|local] [--workers N] [--seconds 60] [--rate 100] [--handler-seconds 0.0]

Prints the peaks beside the stated limits: what waits for handlers is at most 32 MiB in each place (worker, client)."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

import raygrad as rg

MEGABYTE = 1_000_000


class Flood(rg.autograd.Function):
    """Emits numbered arrays of a megabyte, so many per second."""

    effects = True

    @staticmethod
    def infer(x: Any, seconds: float, rate: float) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float, rate: float) -> Any:
        began = time.monotonic()
        for number in range(int(seconds * rate)):
            due = began + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            value = np.zeros(MEGABYTE // 8)
            value[0] = number
            rg.emit("flood", value)
        return x + 1.0


def resident(pid: int | str) -> int:
    """Return the megabytes of a process in memory, without what it shares with the object store."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        found[name] = rest
    return (int(found["RssAnon"].split()[0]) + int(found["RssFile"].split()[0])) // 1000


def main() -> None:
    """Run the flood and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", default="local", choices=["local", "ray"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="megabytes per second")
    parser.add_argument("--handler-seconds", type=float, default=0.0, help="how long the handler sleeps per megabyte")
    given = parser.parse_args()
    handled: list[int] = []

    def handler(value: Any) -> None:
        handled.append(int(value[0]))
        if given.handler_seconds:
            time.sleep(given.handler_seconds)

    with rg.Session(given.on, workers=given.workers) as session:
        session.on("flood", handler)
        (rg.ones(2) * 2.0).tolist()
        pids = sorted(set(cast("Any", session._driver).executor.pids()))
        before = [resident("self"), *(resident(pid) for pid in pids)]
        peaks, stored = list(before), [0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.25):
                now = [resident("self"), *(resident(pid) for pid in pids)]
                peaks[:] = map(max, peaks, now)
                if given.on == "ray":
                    from raygrad.workers.executors.ray.connection import store_statistics

                    stored[0] = max(stored[0], store_statistics()["bytes_used"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.monotonic()
        Flood.apply(rg.ones(1), given.seconds, given.rate).tolist()
        took = time.monotonic() - began
        ended.set()
        watcher.join()
        run = session.last_run
        assert run is not None
        assert handled == [*range(int(given.seconds * given.rate))], "each once, in order"
        print(f"{given.on}, {given.workers} workers: {len(handled):,} MB emitted and handled in {took:.1f} s")
        print(f"waited for handlers: {run.emit_seconds:.1f} s")
        for name, first, most in zip(["client", *(f"process {pid}" for pid in pids)], before, peaks, strict=True):
            print(f"{name}: {first} MB before, at most {most} MB, +{most - first} MB")
        print(f"object store: at most {stored[0] // MEGABYTE} MB")


if __name__ == "__main__":
    main()
