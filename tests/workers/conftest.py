"""What the tests of executors share: small graphs over built-in ops and Functions, and a listener that keeps a log."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import pytest

from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import KEEP_IN_STORE, KEEP_ON_WORKER, Graph, structural_hash
from raygrad.proto.ir.nodes import Node
from raygrad.proto.ir.program import Record
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.code.shipping import ship
from raygrad.workers.executors.base import Executor
from raygrad.workers.executors.calls import External, GraphSubmission, SuppliedExternal
from raygrad.workers.executors.driver import Driver, LostWorker
from raygrad.workers.executors.run_state import Lost
from raygrad.workers.values.emit_chunks import HeldChunk

from ..graph_nodes import function_node, op_node

CONTEXT, ARRAY = 0, 1


class Graphs:
    """Builds a graph; each method returns the id of the value that it makes."""

    def __init__(self, externals: int = 1, shape: tuple[int, ...] = (4,)) -> None:
        self.specs = (ContextSpec(), ArraySpec(shape, "float64", "cpu", (tuple(range(len(shape))), ())))
        self.externals = (ARRAY,) * externals
        self.nodes: list[Node] = []
        self.kept: list[tuple[int, int]] = []
        self.values = externals

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        self.values += len(node.outputs)
        return self.values - 1

    def mul(self, a: int, b: int, pin: int = -1) -> int:
        return self._add(op_node("mul", (a, b), (ARRAY,), pin=pin))

    def call(self, fn: str, *inputs: int, pin: int = -1, open_ended: bool = False) -> int:
        """Apply a user Function of one output; returns the output (the context comes before it)."""
        outputs = (CONTEXT,) if open_ended else (CONTEXT, ARRAY)
        return self._add(function_node("@" + fn, inputs, outputs, (0,) * len(inputs), recorded=False, pin=pin))

    def keep(self, *values: int, in_store: bool = False) -> None:
        self.kept.extend((value, KEEP_IN_STORE if in_store else KEEP_ON_WORKER) for value in values)

    def graph(self, open_ended: bool = False) -> Graph:
        return Graph(self.specs, self.externals, tuple(self.nodes), tuple(self.kept), open_ended)


class Log:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.records: list[Record] = []
        self.times: dict[tuple[int, int], tuple[float, float]] = {}
        self.failures: dict[int, tuple[Record | None, str]] = {}
        self.lost: dict[int, LostWorker] = {}
        self.plans: dict[int, Plan] = {}
        self.handling = 0
        self.chunks: list[HeldChunk] = []

    def emitted(self, held: HeldChunk) -> None:
        self.chunks.append(held)

    def still_running(self, run: int, segment: int) -> None:
        self.told.append(("still running", run, segment))

    def record(self, called: TimedRecord, finished: bool) -> None:
        record, sent, came, *_ = called
        self.told.append(("record", record.run, record.segment))
        self.records.append(record)
        self.times[record.run, record.segment] = (sent, came)
        if finished:
            self.finished(record.run)

    def fetched(self, run: int, value: int, worker: int, left: Any) -> None:
        self.told.append(("fetched", run, value, worker, left))

    def finished(self, run: int) -> None:
        self.told.append(("finished", run))

    def replanned(self, run: int, plan: Plan, revision: PlanRevision) -> None:
        self.told.append(("replanned", run))
        self.plans[run] = plan

    def failed(self, run: int, record: Record | None, reason: str, lost: Lost | None = None) -> None:
        self.told.append(("failed", run))
        self.failures[run] = (record, reason)
        if isinstance(lost, LostWorker):
            self.lost[run] = lost

    def over(self, run: int) -> bool:
        """Whether the run has ended, well or not."""
        return ("finished", run) in self.told or ("failed", run) in self.told


class Session:
    """The least of a session: a driver over an executor, with runs numbered from 1."""

    def __init__(self, executor: Executor, window: int = 16) -> None:
        self.log = Log()
        self.executor = executor
        self.driver = Driver(executor, Planner(executor.cluster), Machine(window=window), self.log)
        self.run = 0

    def submit(
        self, graph: Graph, *externals: External | np.ndarray[Any, Any], dropped: Iterable[tuple[int, int]] = ()
    ) -> int:
        """Submit a graph, and return its run number."""
        self.run += 1
        given = tuple(SuppliedExternal(one) if isinstance(one, np.ndarray) else one for one in externals)
        encoded = encode_graph(graph)
        self.driver.submit(GraphSubmission(self.run, graph, encoded, structural_hash(encoded), given), dropped)
        return self.run

    def learn(self, obj: Any, *, in_process: bool = False) -> str:
        """Make user code known to the executor; return its name."""
        shipped = ship(obj, in_process=in_process)
        self.executor.learn(shipped.fingerprint, shipped.shipment)
        return shipped.fingerprint

    def let_go(self) -> bool:
        """Drop all that runs have kept; tell whether another test can use the session as if it were new."""
        driver, busy = self.driver, lambda: self.executor.busy
        driver.drop([(run, value) for run, one in list(driver._runs.items()) for value in list(one.places)])
        driver.wait(lambda: not busy(), driver._clock() + 10.0)
        return not driver._runs and not busy() and not driver._machine.state.lost_workers

    def wait(self, run: int, seconds: float = 30.0) -> None:
        """Wait until a run is over."""
        self.driver.wait(lambda: self.log.over(run), self.driver._clock() + seconds)


@pytest.fixture(scope="session")
def graphs() -> type[Graphs]:
    return Graphs


@pytest.fixture(scope="module")
def shared() -> Generator[list[Session]]:
    """Return a place for the session that tests of a module share, as long as `let_go` says that they can: the actors
    of an executor take seconds to start."""
    place: list[Session] = []
    yield place
    for session in place:
        session.driver.close()


@pytest.fixture
def share_session(shared: list[Session]) -> Generator[Callable[[Callable[[], Executor]], Session]]:
    """Return a function that gives the shared session; if there is none, over a new executor."""

    def share(make: Callable[[], Executor]) -> Session:
        if not shared:
            shared.append(Session(make()))
        return shared[0]

    yield share
    for session in [session for session in shared if not session.let_go()]:
        shared.remove(session)
        session.driver.close()


@pytest.fixture
def open_session() -> Generator[Callable[..., Session]]:
    """Return a function that opens a `Session` over an executor; it is closed at the end of the test."""
    opened: list[Session] = []

    def open_one(executor: Executor, **options: Any) -> Session:
        opened.append(Session(executor, **options))
        return opened[-1]

    yield open_one
    for session in opened:
        session.driver.close()
