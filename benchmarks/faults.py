"""What becomes of runs on Ray under faults that are drawn from seeds.

    python benchmarks/faults.py --seeds 270 --nodes 30

Each trial opens a session with workers that are processes, runs one of three programs, and has one fault of
`raygrad.chaos` happen at a drawn point. What the program returns (values, gradients, parameters, what was emitted) is
held against the undisturbed run, bit for bit. With `--nodes`, as many trials on two nodes of one machine follow, of
which one goes away at a drawn moment, with its worker and its object store. Prints a table of what happened, and the
seeds that went wrong.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import Grid, machine, table

import raygrad as rg
from raygrad import chaos

SIZE = 20_000
"""Elements of an array: 160 kB, more than Ray keeps outside of the object store."""

NODE_SECONDS = 0.004
"""What each forward and each backward takes at least."""

HANG_SECONDS = 60.0
"""A trial that takes longer is taken for one that hangs, if that is also longer than `HANG_RATIO` allows."""

HANG_RATIO = 20.0
"""A trial may take so many times as long as the undisturbed run and the start of its session: on a machine that others
keep busy it takes a minute to start a process."""

ENDLESS = 97
"""Seeds divisible by this have a worker stopped for ever, which takes seconds to be noticed."""

KINDS = (chaos.Kill, chaos.Kill, chaos.Stop, chaos.Delay, chaos.DropReply)


class Piece(rg.autograd.Function):
    """A piece that takes a while, emits, and saves what it reads and makes."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, number: int) -> Any:
        time.sleep(NODE_SECONDS)
        y = rg.tanh(x * w + number / 7)
        rg.emit("forward", (number, float(y.numpy()[0])))
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(NODE_SECONDS)
        x, w, y = ctx.saved_tensors
        inner = grad * (1 - y * y)
        rg.emit("backward", float(inner.numpy().sum()))
        return inner * w, inner * x, None


@dataclass
class Watched:
    """What a program does in one session."""

    session: rg.Session
    synced: bool
    """The program waits after each phase."""
    emitted: list[Any] = field(default_factory=list[Any])
    phases: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """When each phase began."""
    runs: dict[int, Any] = field(default_factory=dict[int, Any])

    def phase(self, name: str) -> None:
        """Enter that a phase begins; "step" is all of them in programs that wait for none."""
        self.phases.append((time.time(), name if self.synced else "step"))

    def wait(self, *values: Any) -> None:
        """Wait for the values, if this program waits after each phase."""
        for value in values if self.synced else ():
            value.detach().numpy()
            self.enter_run()

    def enter_run(self) -> None:
        """Remember the run that the session has submitted last."""
        run = self.session.last_run
        if run is not None:
            self.runs[id(run)] = run

    @property
    def remade(self) -> int:
        """How many nodes have run again."""
        return sum([len(one.remade) for run in self.runs.values() for one in run.report().revisions])


Program = Callable[[Watched], list[np.ndarray[Any, Any]]]


def leaf(scale: float) -> Any:
    return rg.from_numpy(np.linspace(0.1, scale, SIZE)).requires_grad_()


def branches(watched: Watched) -> list[np.ndarray[Any, Any]]:
    """A graph with branches that share a leaf and join, with hooks, twice."""
    w, x = leaf(1.0), leaf(2.0)
    w.register_hook(lambda grad: grad * 0.5)
    loss: Any = None
    for _ in range(2):
        watched.phase("forward")
        shared = Piece.apply(x, w, 0)
        shared.register_hook(lambda grad: grad + 1.0)
        left, right = Piece.apply(shared, w, 1), Piece.apply(shared, x, 2)
        loss = (Piece.apply(left, right, 3) * Piece.apply(left, w, 4)).sum()
        watched.wait(loss)
        watched.phase("backward")
        loss.backward()
        watched.wait(w.grad, x.grad)
    return [w.grad.numpy(), x.grad.numpy(), loss.detach().numpy()]


def training(watched: Watched) -> list[np.ndarray[Any, Any]]:
    """A training with Adam over steps."""
    weights = [leaf(1.0), leaf(0.5)]
    optimiser = rg.optim.Adam(weights, lr=0.01)
    losses: list[Any] = []
    for step in range(5):
        watched.phase("forward")
        x = rg.from_numpy(np.linspace(-1.0, 1.0, SIZE) + step)
        parts = [Piece.apply(Piece.apply(x, weights[0], n), weights[1], n).sum() for n in range(2)]
        loss: Any = parts[0] + parts[1]
        optimiser.zero_grad()
        watched.wait(loss)
        watched.phase("backward")
        loss.backward()
        watched.wait(*[one.grad for one in weights])
        watched.phase("update")
        optimiser.step()
        watched.wait(*weights)
        losses.append(loss.detach())
    return [*[one.detach().numpy() for one in weights], *[one.numpy() for one in losses]]


def ensemble(watched: Watched) -> list[np.ndarray[Any, Any]]:
    """An ensemble of eight members, each with noise of its own, and the gradient of its mean."""
    w = leaf(1.0)
    rg.manual_seed(5)
    watched.phase("forward")
    members = [Piece.apply(rg.randn(SIZE, dtype=rg.float64), w, n) for n in range(8)]
    mean: Any = sum([one.sum() for one in members]) / 8
    watched.wait(mean)
    watched.phase("backward")
    mean.backward()
    watched.wait(w.grad)
    return [w.grad.numpy(), mean.detach().numpy(), members[3].detach().numpy()]


PROGRAMS: tuple[Program, ...] = (branches, training, ensemble)


@dataclass(frozen=True)
class Outcome:
    """What a trial came to."""

    seed: int
    fault: chaos.Fault | None
    """None for a node that went away."""
    program: str
    phase: str
    """Where the fault fell; "" if it did not."""
    verdict: str
    """"same bits", or what else."""
    remade: int = 0
    seconds: float = 0.0
    story: str = ""


def ran(program: Program, watched: Watched) -> tuple[list[np.ndarray[Any, Any]], list[Any]]:
    """Run a program; return what it returns, and what was emitted, in an order of its own."""
    session = watched.session
    for name in ("forward", "backward"):
        session.on(name, lambda value, name=name: watched.emitted.append((name, value)))
    found = [one.copy() for one in program(watched)]
    session.run().wait()
    watched.enter_run()
    return found, sorted(watched.emitted)


class Undisturbed:
    """What the programs return without faults, made when it is first asked for."""

    def __init__(self, workers: int, address: str = "ray") -> None:
        self._workers = workers
        self.address = address
        self.seconds: dict[tuple[str, bool], float] = {}
        self.opening: dict[tuple[str, bool], float] = {}
        """Seconds that the session took to open."""
        self._known: dict[tuple[str, bool], Any] = {}

    def of(self, program: Program, synced: bool) -> Any:
        key = program.__name__, synced
        if key not in self._known:
            opening = time.perf_counter()
            with rg.Session(self.address, workers=self._workers) as session:
                began = time.perf_counter()
                self.opening[key] = began - opening
                self._known[key] = ran(program, Watched(session, synced))
                self.seconds[key] = time.perf_counter() - began
        return self._known[key]

    def limit(self, program: Program, synced: bool) -> float:
        """Return the seconds after which a disturbed run is taken for one that hangs."""
        key = program.__name__, synced
        return max(HANG_SECONDS, HANG_RATIO * (self.opening[key] + self.seconds[key]))


@contextmanager
def no_longer_than(seconds: float) -> Generator[None]:
    """Interrupt this thread's program after so many seconds. An alarm that was set before goes off in its time."""

    def interrupt(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds:.0f} s")

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, interrupt)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.001))


def fault_of(seed: int, workers: int) -> chaos.Fault:
    """Return the fault of a trial."""
    if seed % ENDLESS == 0:
        return chaos.Stop(seed % workers, chaos.Point("node", 1 + seed % 7))
    return chaos.draw(seed, workers=workers, kinds=KINDS, most=6)


def trial(seed: int, undisturbed: Undisturbed, workers: int = 2) -> Outcome:
    """Run one program under one fault."""
    program, synced = PROGRAMS[seed % len(PROGRAMS)], bool(seed // len(PROGRAMS) % 2)
    expected = undisturbed.of(program, synced)
    fault = fault_of(seed, workers)
    began, limit = time.perf_counter(), undisturbed.limit(program, synced)
    verdict, story, phase, remade, happened = "same bits", "", "", 0, ()
    watched: Watched | None = None
    try:
        with no_longer_than(limit), rg.Session("ray", workers=workers) as session:
            watched = Watched(session, synced)
            with chaos.inject(session, fault) as injected:
                try:
                    found = ran(program, watched)
                finally:
                    happened = injected.happened
            remade = watched.remade
        verdict = verdict_of(found, expected)
    except Exception as error:
        hung = time.perf_counter() - began >= limit
        verdict, story = "hung" if hung else type(error).__name__, traceback.format_exc()
    if happened and watched is not None:
        at = happened[0].at
        phase = [name for begun, name in watched.phases if begun <= at][-1]
    return Outcome(seed, fault, program.__name__, phase, verdict, remade, time.perf_counter() - began, story)


class Nodes:
    """Two nodes on this machine, of which one can be taken away. Ray looks after its nodes often enough to notice soon:
    by default it takes a quarter of a minute."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        checks = {"health_check_period_ms": 200, "health_check_failure_threshold": 3, "health_check_timeout_ms": 500}
        head = {**NODE, "include_dashboard": False, "_system_config": {"health_check_initial_delay_ms": 0, **checks}}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.other = self.cluster.add_node(**NODE)

    def remove(self) -> float:
        """Take the node away that is not the head, at once; return when."""
        at = time.time()
        self.cluster.remove_node(self.other, allow_graceful=False)
        return at

    def add(self) -> None:
        """Bring another node in its place. Only the main thread can."""
        self.other = self.cluster.add_node(**NODE)


NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


def node_trial(seed: int, undisturbed: Undisturbed, nodes: Nodes) -> Outcome:
    """Run one program while a node goes away."""
    program, synced = PROGRAMS[seed % len(PROGRAMS)], bool(seed // len(PROGRAMS) % 2)
    expected = undisturbed.of(program, synced)
    delay = random.Random(seed).uniform(0.0, undisturbed.seconds[program.__name__, synced])
    began, removed, limit = time.perf_counter(), list[float](), undisturbed.limit(program, synced)
    verdict, story, phase, remade = "same bits", "", "", 0
    watched: Watched | None = None
    strike = threading.Timer(delay, lambda: removed.append(nodes.remove()))
    try:
        with no_longer_than(limit), rg.Session(undisturbed.address, workers=2) as session:
            watched = Watched(session, synced)
            strike.start()
            verdict = verdict_of(ran(program, watched), expected)
            remade = watched.remade
    except Exception as error:
        hung = time.perf_counter() - began >= limit
        verdict, story = "hung" if hung else type(error).__name__, traceback.format_exc()
    strike.join()
    if removed:
        nodes.add()
    if removed and watched is not None:
        phase = ([name for begun, name in watched.phases if begun <= removed[0]] or ["forward"])[-1]
    return Outcome(seed, None, program.__name__, phase, verdict, remade, time.perf_counter() - began, story)


def verdict_of(found: Any, expected: Any) -> str:
    """Return how what a program did compares with the undisturbed run."""
    if not all([np.array_equal(one, other) for one, other in zip(found[0], expected[0], strict=True)]):
        return "other bits"
    return "same bits" if found[1] == expected[1] else "other emits"


def tables(outcomes: Sequence[Outcome]) -> Grid:
    """Return the table of what happened."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.phase and one.fault is not None:
            groups[type(one.fault).__name__, one.fault.at.name, one.phase].append(one)
        elif one.phase:
            groups["node lost", "any", one.phase].append(one)
    rows: list[tuple[str, ...]] = []
    for (kind, point, phase), some in sorted(groups.items()):
        good = [one for one in some if one.verdict == "same bits"]
        mean = sum([one.remade for one in some]) / len(some)
        rows.append((kind, point, phase, str(len(some)), str(len(good)), f"{mean:.1f}"))
    columns = ("fault", "point", "phase", "trials", "same bits and emits", "nodes that ran again, mean")
    return Grid("Faults at drawn points of runs on Ray", columns, tuple(rows), words=3)


def told(one: Outcome) -> Outcome:
    """Print a trial that went wrong."""
    if one.verdict != "same bits":
        print(f"seed {one.seed}: {one.verdict} ({one.program}, {one.fault}, {one.phase})\n{one.story}", flush=True)
    return one


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=30, help="how many trials")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=0, help="how many trials in which a node goes away")
    given = parser.parse_args(arguments)
    import ray

    ray.init(
        address="local",
        num_cpus=given.workers + 1,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        include_dashboard=False,
    )
    undisturbed = Undisturbed(given.workers)
    outcomes: list[Outcome] = []
    for seed in range(given.first, given.first + given.seeds):
        outcomes.append(told(trial(seed, undisturbed, given.workers)))
    ray.shutdown()
    if given.nodes:
        nodes = Nodes()
        undisturbed = Undisturbed(2, "ray:" + nodes.cluster.address)
        try:
            for seed in range(given.first, given.first + given.nodes):
                outcomes.append(told(node_trial(seed, undisturbed, nodes)))
        finally:
            ray.shutdown()
            nodes.cluster.shutdown()
    print("\n".join([f"{name}: {value}" for name, value in machine().items()]))
    print(table([tables(outcomes)]))
    fell = [one for one in outcomes if one.phase]
    wrong = [one.seed for one in outcomes if one.verdict != "same bits"]
    print(f"{len(outcomes)} trials, {len(fell)} of whose faults happened; {len(wrong)} went wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
