"""The client's end of a service: `RemoteWorkers` and `RemoteDriver`, what a session on "ws://..." or "wss://..." uses.

One thread receives: answers go to whoever asked, reports wait in order until a thread of the session polls. The server
plans and runs; each request waits for its answer until the session ends there, which every wait notices. A connection
that breaks is replaced by another."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

from raygrad.errors import ExecutionError, ProtocolError, ServiceError, WaitTimeout
from raygrad.proto.codec.graphs import decode_graph, encode_graph
from raygrad.proto.ir.graph import Graph, structural_hash
from raygrad.proto.ir.program import Pinned
from raygrad.scheduler.model.costs import Costs as CostModel
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import Cluster, Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.tracebacks import attribute_of
from raygrad.workers.code.guard import Guard
from raygrad.workers.code.shipping import Shipment, Shipped
from raygrad.workers.executors.base import CODE_CACHE_SIZE
from raygrad.workers.executors.calls import GraphSubmission, SuppliedExternal
from raygrad.workers.executors.run_state import Listener, Lost
from raygrad.workers.executors.session_driver import DriverSettings, PlannedGraph, SessionDriver, SessionWorkers
from raygrad.workers.values.emit_chunks import ChunkStore, EmitChunk
from raygrad.workers.values.packed_values import POISON

from ..protocol.closed_graphs import closed_graph, emitted
from ..protocol.closed_tensors import closed_around
from ..protocol.connection import LEFT, MessageConnection
from ..protocol.messages import (
    Answer,
    Ask,
    Declined,
    Drop,
    EmitsSent,
    Failed,
    Fetched,
    Finished,
    Learn,
    LearnNamed,
    MeasuredCostsSent,
    PlanMade,
    Recorded,
    Refused,
    Replanned,
    RunFailed,
    Start,
    StillRunning,
    Submit,
    Welcome,
)
from ..protocol.named_code import CodeName, NamedModules, check_no_registrations, name_of, source_digest
from ..protocol.plans import cluster_data, cluster_of, links_of, paths_data, plan_of
from ..protocol.resumable_connection import ConnectionEnded, ResumableConnection
from ..protocol.values import LOSSES, Passage, error_of

WAIT_SLICE: Final = 0.25
"""Seconds between looks whether a wait is over."""

REFUSED_SECONDS: Final = 3.0
"""Seconds after which a service that accepts no connection counts as gone, though it might answer later."""

RETRIED: Final = frozenset({"unreachable", "handshake", "closed", "busy", "http"})
"""Codes of errors after which another connection is tried."""

LEARNED_RUNS: Final = 16
"""The most runs after which the server is told what the client has measured."""

FIRST_RUNS: Final = 32
"""The first runs, after each of which it is told: they show the most."""


CLOSED_KEPT: Final = 256
"""Graphs of which the form is kept in which they are sent."""


class RemotePlan(NamedTuple):
    """A plan that the server has made, and its graph."""

    plan: Plan
    graph: Graph


class RemoteWorkers(SessionWorkers):
    """Workers that a service has opened for this session."""

    def __init__(
        self,
        lasting: ResumableConnection,
        connection: MessageConnection,
        reopen: Callable[[int], tuple[MessageConnection, int]],
        welcome: Welcome,
        *,
        ahead: float,
        url: str,
        allow_pickle: bool,
    ) -> None:
        self._connection: Final = lasting
        self._first = connection
        self._reopen = reopen
        self._grace = welcome.grace
        self._url: Final = url
        self._cluster = cluster_of(welcome.cluster)
        self._links = links_of(welcome.links)
        self.host = f"client of {url}"  # no worker's: they go by other clocks than this one
        self._ahead = ahead
        self._names: dict[str, str] = {}
        self._sent: OrderedDict[str, None] = OrderedDict()
        """Fingerprints of the code by value that was sent last: half as many as the server is sure to have."""
        self._driver: RemoteDriver | None = None
        self.passage = Passage(allow_pickle, NamedModules())
        """What passes here: without pickles, names of modules from which code was sent."""
        self.reports_unasked = welcome.reports_unasked

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    def links(self) -> dict[str, Any]:
        return self._links

    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        if self.passage.allow_pickle:
            if fingerprint not in self._sent:
                self._names[fingerprint] = shipment.name
                send(self._connection, self._url, Learn(tuple(shipment.portable())))
                self._sent[fingerprint] = None
                if len(self._sent) > CODE_CACHE_SIZE // 2:
                    self._sent.popitem(last=False)
        elif fingerprint not in self._names:
            assert self._driver is not None
            self._driver.learn_named(CodeName(shipment.module, shipment.qualname))
            self._names[fingerprint] = shipment.name

    def named(self, obj: Any) -> Shipped | None:
        if self.passage.allow_pickle:
            return None
        try:
            check_no_registrations()
            name = name_of(obj)
        except ServiceError as error:
            self.declined(error, str(attribute_of(obj, "__qualname__") or type(obj).__qualname__))
            raise
        return Shipped(name.fingerprint, name.shipment, (), Guard())

    def declined(self, error: ServiceError, what: str) -> None:
        """Have the service note that this side does not send something."""
        with suppress(ServiceError):
            send(self._connection, self._url, Declined(error.code, what[:200]))

    def name_of(self, fn: str) -> str:
        return self._names.get(fn[1:], fn)

    def start(self, settings: DriverSettings, listener: Listener) -> RemoteDriver:
        self._driver = RemoteDriver(self._connection, self, settings, listener, self._url, self._ahead)
        return self._driver

    def connections(self, stopped: threading.Event) -> Iterator[MessageConnection]:
        """Return the connections of the session, one after another: the next where the one before broke.

        Raises:
            ServiceError: there is no next one, since the service is gone, or has the session no more.
        """
        connection = self._first
        while True:
            yield connection
            connection = self._next(stopped)

    def _next(self, stopped: threading.Event) -> MessageConnection:
        until, refused_since, pause = time.monotonic() + self._grace, inf, 0.02
        while True:
            try:
                connection, taken = self._reopen(self._connection.taken)
                try:
                    self._connection.resume(connection, taken)
                except BaseException:  # nobody else would close it
                    connection.close()
                    raise
                return connection
            except ServiceError as error:
                now = time.monotonic()
                refused = isinstance(error.__context__, ConnectionRefusedError)
                refused_since = min(refused_since, now) if refused else inf
                over = now > until or now > refused_since + REFUSED_SECONDS
                if over or stopped.is_set() or error.code not in RETRIED:
                    raise lost(self._url, str(error)) from None
            except ConnectionEnded as error:
                raise lost(self._url, str(error)) from None
            stopped.wait(pause)
            pause = min(2 * pause, 1.0)

    def close(self) -> None:
        self._connection.close()


def send(connection: ResumableConnection, url: str, message: Any) -> None:
    """Send a message, now or once there is a connection again.

    Raises:
        ServiceError: the session has ended, or the message is too large.
    """
    try:
        connection.send(message)
    except ConnectionEnded as error:
        raise lost(url, str(error)) from None


def lost(url: str, why: str) -> ServiceError:
    """Return the error of whoever waits for a service that is gone."""
    return ServiceError(
        f"the session at {url} has ended ({why}): the service was stopped, or cannot be reached. What the session "
        "had there is gone; open a new one, which goes on from its journal if it has one",
        "lost",
    )


class RemoteDriver(SessionDriver):
    """Runs the graphs of one session on a service."""

    def __init__(
        self,
        connection: ResumableConnection,
        workers: RemoteWorkers,
        settings: DriverSettings,
        listener: Listener,
        url: str,
        ahead: float,
    ) -> None:
        self._connection = connection
        self._workers = workers
        self._listener = listener
        self._url = url
        self._ahead = ahead
        """What the server's clock shows beyond this one."""
        self._passage = workers.passage
        self._closed_graphs: dict[bytes, tuple[bytes, bytes]] = {}
        """By key, graphs and keys as they are sent, of those whose pickles are not."""
        self._planning = settings.cluster
        self._measured = settings.measured
        self._told = 0
        """Runs that had been measured when the server was told last."""
        self._ids = itertools.count(1)
        self._news = threading.Condition()
        """Guards what follows; notified when something has come."""
        self._answers: dict[int, Any] = {}
        self._asked: set[int] = set()
        self._reports: deque[Callable[[], None]] = deque()
        self._chunks = ChunkStore()
        self._gone: ServiceError | None = None
        self._closed = False
        self._stopped = threading.Event()
        """Set when it is closed: no connection is tried any more."""
        self._kept: dict[tuple[int, int], Any] = {}
        self._saved = self._peak = 0
        measured = json.dumps(settings.measured.as_data())
        limits = tuple([-1.0 if limit is None else float(limit) for limit in settings.limits])
        send(
            connection,
            url,
            Start(
                cluster_data(settings.cluster),
                measured,
                settings.seed,
                float(settings.recovery_time),
                settings.retries,
                limits,
            ),
        )
        self._thread = threading.Thread(target=self._receive, name="raygrad-service", daemon=True)
        self._thread.start()

    # ---- what it is --------------------------------------------------------------------------------------------------

    reports_unasked = True

    @property
    def cluster(self) -> Cluster:
        return self._workers.cluster

    @property
    def planning_cluster(self) -> Cluster:
        return self._planning

    @property
    def costs(self) -> CostModel:
        return self._measured.costs()

    @property
    def present(self) -> tuple[int, ...]:
        return tuple([index for index, one in enumerate(self._workers.cluster.workers) if not one.lost])

    @property
    def unusable(self) -> str:
        return "" if self._gone is None else str(self._gone)

    @property
    def saved_bytes(self) -> int:
        return self._saved

    @property
    def peak_saved_bytes(self) -> int:
        return self._peak

    def stored_bytes(self) -> int:
        return int(self._ask("stored").values[0])

    # ---- graphs ------------------------------------------------------------------------------------------------------

    def submit(self, submission: GraphSubmission, dropped: Iterable[tuple[int, int]] = ()) -> PlannedGraph:
        runs = self._measured.runs
        if runs > self._told and (runs <= FIRST_RUNS or runs >= self._told + LEARNED_RUNS):
            self._told = runs
            self._send(MeasuredCostsSent(json.dumps(self._measured.as_data())))
        planned, _ = self._plan(submission, dropped, preview=False)
        return planned

    def preview(self, submission: GraphSubmission) -> tuple[PlannedGraph, tuple[int, ...]]:
        return self._plan(submission, (), preview=True)

    def _plan(
        self, submission: GraphSubmission, dropped: Iterable[tuple[int, int]], *, preview: bool
    ) -> tuple[RemotePlan, tuple[int, ...]]:
        try:
            given = self._externals_out(submission)
            encoded, sent_key = self._graph_out(submission)
        except ServiceError as error:
            self._workers.declined(error, "an input of a graph")
            raise
        released = tuple(dropped)
        for key in released:
            self._kept.pop(key, None)
        number = next(self._ids)
        answer = self._request(
            number,
            Submit(
                number,
                preview,
                submission.run,
                encoded,
                sent_key,
                released,
                paths_data(submission.paths),
                tuple(given),
            ),
        )
        if not isinstance(answer, PlanMade):
            raise ProtocolError("the service answered a submission by something else than a plan")
        graph = decode_graph(answer.graph) if answer.graph else submission.graph
        return RemotePlan(plan_of(answer.plan), graph), answer.residency

    def _externals_out(self, submission: GraphSubmission) -> list[Any]:
        emits = {} if self._passage.allow_pickle else emitted(submission.graph)
        given: list[Any] = []
        readers: dict[int, str] | None = None
        for number, one in enumerate(submission.externals):
            if not isinstance(one, SuppliedExternal):
                given.append(Pinned(one.run, one.value))
            elif number in emits:
                given.append(closed_around(one.value, emits[number], "what rg.emit is given"))
            else:
                try:
                    given.append(self._passage.outgoing(one.value, "an input of the graph"))
                except ServiceError as error:
                    readers = readers or self._readers(submission.graph)
                    named = str(error).replace("an input of the graph", readers.get(number, "an input of the graph"), 1)
                    raise ServiceError(named, error.code) from None
        return given

    def _readers(self, graph: Graph) -> dict[int, str]:
        """Return, by external, what reads it, in words."""
        found: dict[int, str] = {}
        for node in graph.nodes:
            for place, number in enumerate(node.inputs):
                found.setdefault(number, f"argument {place} of {self._workers.name_of(node.fn)}")
        return found

    def _graph_out(self, submission: GraphSubmission) -> tuple[bytes, bytes]:
        if self._passage.allow_pickle:
            return submission.encoded, submission.key
        known = self._closed_graphs.get(submission.key)
        if known is None:
            closed = closed_graph(submission.graph)
            encoded = submission.encoded if closed is submission.graph else encode_graph(closed)
            known = encoded, submission.key if closed is submission.graph else structural_hash(encoded)
            if closed is not submission.graph:
                self._closed_graphs[submission.key] = known
                if len(self._closed_graphs) > CLOSED_KEPT:
                    del self._closed_graphs[next(iter(self._closed_graphs))]
        return known

    def learn_named(self, name: CodeName) -> None:
        """Have the service find user code by its name.

        Raises:
            ServiceError: it does not allow it, or does not have it.
        """
        number = next(self._ids)
        self._request(number, LearnNamed(number, *name, source_digest(name.module)))
        self._passage.modules.add(name.module)

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0, *, submits: bool = False) -> None:
        if timeout > 0:
            with self._news:
                if not self._reports and self._gone is None:
                    self._news.wait(timeout)
        self._deliver()

    def wait(self, done: Callable[[], bool], deadline: float | None = None) -> None:
        try:
            self._deliver()
            while not done():
                remaining = WAIT_SLICE if deadline is None else deadline - time.monotonic()
                if remaining <= 0:
                    raise WaitTimeout("the wait passed its deadline; the work goes on and can be waited for again")
                self._check()
                self.poll(min(remaining, WAIT_SLICE))
        except KeyboardInterrupt:
            self.cancel_all()
            raise

    def _deliver(self) -> None:
        while self._reports:
            with self._news:
                if not self._reports:
                    return
                report = self._reports.popleft()
            report()

    # ---- values ------------------------------------------------------------------------------------------------------

    def read(self, run: int, value: int, deadline: float | None = None) -> Any:
        if (run, value) not in self._kept:
            answer = self._ask("read", (run, value), deadline)
            found = self._passage.incoming(answer.values[0], "a value of the service")
            if found is POISON:
                return found
            self._kept[run, value] = found
        return self._kept[run, value]

    def peek(self, run: int, value: int) -> Any:
        return self._kept.get((run, value))

    def stays_on_worker(self, run: int, value: int, deadline: float | None = None) -> bool:
        return bool(self._ask("stays", (run, value), deadline).values[0])

    def drop(self, values: Iterable[tuple[int, int]]) -> None:
        released = tuple(values)
        for key in released:
            self._kept.pop(key, None)
        self._send(Drop(tuple(itertools.chain.from_iterable(released))))

    # ---- cancelling --------------------------------------------------------------------------------------------------

    def cancel(self, runs: Collection[int]) -> bool:
        return bool(self._ask("cancel", tuple(runs)).values[0])

    def cancel_all(self) -> bool:
        return bool(self._ask("cancel_all").values[0])

    # ---- workers that come and go ------------------------------------------------------------------------------------

    def add_workers(self, count: int, options: Mapping[str, Any], deadline: float | None) -> tuple[str, ...]:
        raise ExecutionError("the workers of a session on a service are as many as it was opened with: open another")

    def remove_worker(self, worker: int, deadline: float | None) -> None:
        raise ExecutionError("the workers of a session on a service stay until it is closed")

    # ---- its end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._stopped.set()
            self._connection.close()
            self._thread.join(5.0)
            self._chunks.close()

    def leave_to_parent(self, why: str) -> None:
        self._closed = True
        self._gone = ServiceError(why, "forked")

    # ---- requests and what comes -------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._gone is not None:
            raise self._gone.with_traceback(None)

    def _send(self, message: Any) -> None:
        self._check()
        send(self._connection, self._url, message)

    def _ask(self, what: str, numbers: tuple[int, ...] = (), deadline: float | None = None) -> Answer:
        number = next(self._ids)
        seconds = inf if deadline is None else max(deadline - time.monotonic(), 0.0)
        answer = self._request(number, Ask(number, what, numbers, seconds), delivers=True)
        if not isinstance(answer, Answer) or len(answer.values) != 1:
            raise ProtocolError(f"the service answered '{what}' by something else")
        self._saved, self._peak = answer.saved, answer.peak
        return answer

    def _request(self, number: int, message: Any, *, delivers: bool = False) -> Any:
        """Send a request and return its answer; with `delivers`, reports that come before it go to the listener."""
        with self._news:
            self._asked.add(number)
        try:
            self._send(message)
            while True:
                if delivers:
                    self._deliver()
                with self._news:
                    if number in self._answers:
                        answer = self._answers.pop(number)
                        break
                    if self._gone is None and not (delivers and self._reports):
                        self._news.wait(WAIT_SLICE)
                    if number not in self._answers:
                        self._check()
        except KeyboardInterrupt:
            if not (isinstance(message, Ask) and message.what.startswith("cancel")):
                self.cancel_all()
            raise
        finally:
            with self._news:
                self._asked.discard(number)
                self._answers.pop(number, None)
        if delivers:
            self._deliver()  # what came before the answer
        if isinstance(answer, Failed):
            raise error_of(answer)
        return answer

    def _receive(self) -> None:
        """Take what comes, over one connection after another: the thread of this driver."""
        connections = self._workers.connections(self._stopped)
        try:
            while True:
                closed = self._receive_from(next(connections))
                if self._gone is not None or self._stopped.is_set() or (closed is not None and closed.code in LEFT):
                    raise lost(self._url, "" if closed is None else closed.reason or "it has closed the session")
        except ServiceError as error:
            gone = error
        except ProtocolError as error:
            gone = ServiceError(f"what {self._url} has sent cannot be read: {error}", "protocol")
        except BaseException as error:  # whatever it is: who waits is told
            gone = ServiceError(f"the session at {self._url} ended by a {type(error).__name__}: {error}", "bug")
        with self._news:
            self._gone = self._gone or gone
            self._news.notify_all()
        self._connection.close(1000 if gone.code == "lost" else 1002)

    def _receive_from(self, connection: MessageConnection) -> Close | None:
        """Take what comes over a connection, until it ends; return what the service said of its end, if anything."""
        with self._connection.reading(connection):
            try:
                while True:
                    self._take(self._connection.receive(connection))
                    self._connection.took()
            except ConnectionClosed as error:
                return error.rcvd

    def _take(self, message: Any) -> None:
        if isinstance(message, PlanMade | Answer | Failed):
            with self._news:
                if message.id in self._asked:
                    self._answers[message.id] = message
                self._news.notify_all()
            return
        if isinstance(message, Refused):
            with self._news:
                text = f"the service at {self._url} ended this session: {message.message}"
                self._gone = ServiceError(text, message.code)
                self._news.notify_all()
            return
        report = self._report_of(message)
        with self._news:
            self._reports.append(report)
            self._news.notify_all()

    def _report_of(self, message: Any) -> Callable[[], None]:
        """Return the call of the listener that a report stands for."""
        listener = self._listener
        match message:
            case Recorded():
                record = self._passage.record_of(message.record)
                if record is None:
                    raise ProtocolError("a report of a record holds none")
                self._saved, self._peak = message.saved, message.peak
                sent, came = message.sent - self._ahead, message.came - self._ahead
                timed = TimedRecord(record, sent, came, message.awaited, message.spent)
                return partial(listener.record, timed, message.finished)
            case EmitsSent():
                head = (message.run, message.segment, message.attempt, message.worker)
                chunk = EmitChunk(*head, self._passage.emits_in(message.values), message.nbytes)
                return partial(listener.emitted, self._chunks.hold(chunk, or_in_memory=True))
            case Fetched():
                return partial(listener.fetched, message.run, message.value, message.worker, message.left)
            case Finished():
                return partial(listener.finished, message.run)
            case StillRunning():
                return partial(listener.still_running, message.run, message.segment)
            case Replanned():
                revision = PlanRevision(message.at - self._ahead, *message.revision)
                return partial(listener.replanned, message.run, plan_of(message.plan), revision)
            case RunFailed():
                record = self._passage.record_of(message.record)
                return partial(listener.failed, message.run, record, message.reason, _lost_of(message.lost))
            case _:
                raise ProtocolError(f"a {type(message).__name__} came, which a service does not send here")


def _lost_of(data: Any) -> Lost | None:
    if not data:
        return None
    kind, *parts = data
    for made, name in LOSSES.items():
        if kind == name:
            return made(*parts)
    raise ProtocolError(f"a run failed for {kind!r}, which is no reason")
