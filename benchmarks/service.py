"""One server and its clients, over loopback sockets: many clients at once, and large arrays.

32 clients, in processes of their own, run 200 small graphs each through one server: errors, how alike their times are,
and how long a graph takes. A 10 MB array goes to the server, through a node and back, beside a WebSocket that echoes
the same bytes. A 1 GiB array goes there: how far the memory of the server grows beyond that array.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import Grid, Result, Subject, compare, per_unit
from websockets.sync.client import connect

import raygrad as rg

PROCESSES = 4
THREADS = 8
"""Clients of each process."""

GRAPHS = 200
"""Of each client."""

MEGABYTES = 10
GIB = 1 << 30

SERVER = """
import json, sys
from raygrad.service import Server, ServerOptions
with Server(ServerOptions(**json.loads(sys.argv[1]))) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""

ECHO = """
import sys, threading
from websockets.sync.server import serve
def echo(socket):
    for message in socket:
        socket.send(message)
with serve(echo, "127.0.0.1", 0, compression=None, max_size=None) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ws://127.0.0.1:{server.socket.getsockname()[1]}", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def program(source: str, *words: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Run a program that prints its address and ends when its input does; give the address and the process."""
    command = [sys.executable, "-c", source, *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def server(**options: Any) -> contextlib.AbstractContextManager[tuple[str, subprocess.Popen[str]]]:
    """Run a server."""
    return program(SERVER, json.dumps({"port": 0, "workers": 1, **options}))


# ---- many clients ----------------------------------------------------------------------------------------------------


class Client(NamedTuple):
    """What one client saw."""

    seconds: float
    """From the common start until its last graph."""
    latencies: list[float]
    errors: int


def one_client(url: str, graphs: int, start: threading.Barrier, found: list[Client]) -> None:
    """Run graphs in a session, once all are ready."""
    errors, latencies = 0, []
    with rg.Session(url):
        x = np.arange(16.0)
        assert rg.tensor(x).sum().item() == 120.0
        start.wait()
        began = time.perf_counter()
        for number in range(graphs):
            before = time.perf_counter()
            try:
                w = rg.tensor(x, requires_grad=True)
                loss = (w * number).tanh().sum()
                loss.backward()
                assert w.grad is not None
                correct = np.array_equal(w.grad.numpy(), number * (1 - np.tanh(x * number) ** 2))
                errors += not correct
            except Exception:  # of any kind: what is counted here
                errors += 1
            latencies.append(time.perf_counter() - before)
        found.append(Client(time.perf_counter() - began, latencies, errors))


def clients(url: str, threads: int, graphs: int) -> None:
    """Run some clients, once a line comes in, and print what they saw: the body of a process."""
    found: list[Client] = []
    start = threading.Barrier(threads + 1)
    working = [threading.Thread(target=one_client, args=(url, graphs, start, found)) for _ in range(threads)]
    for one in working:
        one.start()
    while start.n_waiting < threads:
        time.sleep(0.01)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    start.wait()
    for one in working:
        one.join()
    sys.stdout.write(json.dumps(found) + "\n")


def many_clients(processes: int, threads: int, graphs: int) -> list[Client]:
    """Run clients in processes against one server; return what each saw."""
    with server(max_sessions=processes * threads) as (url, _):
        command = [sys.executable, __file__, url, str(threads), str(graphs)]
        working = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        try:
            for one in working:
                assert one.stdout is not None
                assert one.stdout.readline() == "ready\n"
            for one in working:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            return [Client(*entry) for one in working for entry in json.loads(one.communicate(timeout=600)[0])]
        finally:
            for one in working:
                one.kill()
                one.wait()


def fairness(quick: bool) -> Grid:
    """Measure many clients at once."""
    graphs = GRAPHS // 10 if quick else GRAPHS
    alone = many_clients(1, 1, graphs)
    found = many_clients(PROCESSES, THREADS, graphs)
    rows = [_shown("1 client", alone, graphs), _shown(f"{PROCESSES * THREADS} clients", found, graphs)]
    columns = "clients", "graphs", "errors", "graphs / s", "median ms", "p99 ms", "slowest / fastest client"
    title = f"small graphs, forward + backward, through one server; {PROCESSES} client processes; aim: no errors, <= 2"
    return Grid(title, columns, tuple(rows), 1)


def _shown(name: str, found: list[Client], graphs: int) -> tuple[str, ...]:
    each = [1e3 * one for client in found for one in client.latencies]
    seconds = [client.seconds for client in found]
    return (
        name,
        f"{len(each):,}",
        str(sum(client.errors for client in found) + len(found) * graphs - len(each)),
        f"{len(each) / max(seconds):,.0f}",
        f"{statistics.median(each):.1f}",
        f"{statistics.quantiles(each, n=100)[98]:.1f}",
        f"{max(seconds) / min(seconds):.2f}",
    )


# ---- large arrays ----------------------------------------------------------------------------------------------------


def large_arrays(quick: bool) -> list[Result]:
    """Measure a 10 MB array to the server, through a node, and back, beside an echo of its bytes."""
    array = np.random.default_rng(0).standard_normal(MEGABYTES * 1_000_000 // 8)
    data = array.tobytes()
    with program(ECHO) as (echo_url, _), connect(echo_url, compression=None, max_size=None) as raw:

        def echoed() -> None:
            raw.send(data)
            assert len(raw.recv()) == len(data)

        def in_pieces() -> None:
            raw.send(data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20))
            assert sum(map(len, raw.recv_streaming())) == len(data)

        with server() as (url, _), rg.Session(url):

            def through_a_node() -> None:
                assert (-rg.tensor(array)).numpy().nbytes == len(data)

            echo = "WebSocket echo"
            return compare(
                f"{MEGABYTES} MB to a server and back | array",
                [
                    Subject(echo, per_unit(echoed, 1)),
                    Subject("WebSocket echo, sent in pieces of 1 MiB", per_unit(in_pieces, 1), echo),
                    Subject("raygrad, through a node", per_unit(through_a_node, 1), echo, "<= 1.5"),
                ],
                5 if quick else 25,
            )


def processes_of(pid: int) -> list[int]:
    """Return a process and those below it: a server, what forks processes for sessions, and these."""
    children = chain(*[path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")])
    return [pid, *[one for child in children for one in processes_of(int(child))]]


def memory_of(pids: list[int], name: str) -> int:
    """Return a figure of processes' memory, in bytes: "VmRSS", or "VmHWM" for the most so far of each."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum([1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")])


def growth(quick: bool) -> Grid:
    """Measure how far the memory of a server grows beyond an array that comes, stays for a while, and goes back."""
    nbytes = GIB // 16 if quick else GIB
    rows: list[tuple[str, ...]] = []
    with server(max_message=2 * GIB) as (url, process), rg.Session(url):
        assert (rg.tensor(np.ones(1 << 20)) + 1).numpy()[0] == 2.0  # what grows once has grown
        array = np.ones(nbytes // 8)
        pids = processes_of(process.pid)

        def measured(what: str, stored: int, work: Any) -> Any:
            for pid in pids:
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the most so far begins anew
            before = memory_of(pids, "VmRSS")
            kept = work()
            most, after = memory_of(pids, "VmHWM"), memory_of(pids, "VmRSS")
            figures = most - before, most - before - stored, after - before
            rows.append((what, f"{stored >> 20:,}", *[f"{one / (1 << 20):,.0f}" for one in figures]))
            return kept

        measured("client -> sum -> number", nbytes, lambda: rg.tensor(array).sum().item())
        kept = measured("client -> node, kept there", 2 * nbytes, lambda: _made(rg.tensor(array) * 2))
        measured("kept there -> client", 0, lambda: kept.numpy()[0])
    columns = "what", "arrays", "growth at most", "beyond arrays", "growth at the end"
    title = f"memory of the server's processes, MiB, for an array of {nbytes >> 20:,} MiB; aim: <= 64 beyond arrays"
    return Grid(title, columns, tuple(rows), 1)


def _made(value: Any) -> Any:
    assert value.sum().item() > 0
    return value


def results(quick: bool) -> list[Result | Grid]:
    """Measure everything of this file."""
    os.environ.pop("RAYGRAD_TOKEN", None)
    return [fairness(quick), *large_arrays(quick), growth(quick)]


if __name__ == "__main__":
    clients(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
