"""One client's session at the server: a driver on workers of its own, and the thread that serves its requests in order.

The thread of a connection receives; cancelling happens there at once, all else on this session's thread, which also
polls the driver. Reports and answers leave in the order in which they came to be. A session outlives its connection by
the grace: its client may go on over another one."""

from __future__ import annotations

import json
import logging
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from typing import Any, Final, NamedTuple, cast

from raygrad.errors import CostsError, ProtocolError, RaygradError, ServiceError, WaitTimeout
from raygrad.proto.codec.graphs import decode_graph, encode_graph
from raygrad.proto.ir.function_nodes import FunctionCall, FunctionVjp, HookCall
from raygrad.proto.ir.graph import Graph, structural_hash
from raygrad.proto.ir.op_nodes import OpCall, OpVjp
from raygrad.proto.ir.program import Failure, Pinned, Record
from raygrad.proto.ir.runtime_nodes import CheckDefined, CheckNotNan, ControlDependency, Emit, GradSum, Load, Spill
from raygrad.scheduler.model.measured_costs import MeasuredCosts, TimedRecord
from raygrad.scheduler.model.plan import Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.workers.code.shipping import Shipment
from raygrad.workers.executors.base import Executor
from raygrad.workers.executors.calls import External, GraphSubmission, KeptExternal, SuppliedExternal
from raygrad.workers.executors.deadlines import Expired, Limits
from raygrad.workers.executors.driver import Driver
from raygrad.workers.executors.executor_workers import start_driver
from raygrad.workers.executors.run_state import Lost
from raygrad.workers.executors.session_driver import DriverSettings
from raygrad.workers.values.emit_chunks import HeldChunk

from ..protocol.closed_graphs import closed_graph, emitted, opened_graph
from ..protocol.closed_tensors import checked_emit
from ..protocol.connection import MessageConnection
from ..protocol.messages import (
    Answer,
    Ask,
    Declined,
    Drop,
    EmitsSent,
    Fetched,
    Finished,
    Learn,
    LearnNamed,
    MeasuredCostsSent,
    PlanMade,
    Recorded,
    Replanned,
    Resumed,
    RunFailed,
    Start,
    StillRunning,
    Submit,
)
from ..protocol.named_code import CodeName
from ..protocol.plans import cluster_of, paths_of, plan_data
from ..protocol.resumable_connection import ConnectionEnded, ResumableConnection
from ..protocol.values import LOSSES, PICKLE_HINT, Passage, failed_answer
from .options import ServerOptions
from .quotas import SECONDS, Usage
from .run_times import RunTimes

log: Final = logging.getLogger("raygrad.service")

NOTED: Final = ("session", "run", "node", "code", "error")
"""What lines of the log have as fields of their own."""

LEAST_SLICE: Final = 0.002
"""Seconds for which the driver is polled at a time, at least, before requests are looked for, while something runs."""

MOST_SLICE: Final = 0.05
"""The most of these seconds: to look for requests takes time that workers may need."""

LEAST_PAUSE: Final = 0.0005
"""Seconds between polls that return at once with nothing."""

IDLE_SLICE: Final = 0.25
"""Seconds for which requests are waited for at a time, while nothing runs."""

KNOWN_GRAPHS: Final = 16
"""Graphs of a session that are kept decoded: programs submit the same ones again and again."""

MOST_REQUESTS: Final = 256
"""Requests that wait here; then the client has to."""

MOST_RUNS: Final = 10_000
"""Runs of one session that are under way at once."""

_PLAIN_NODES: Final = frozenset({OpCall, OpVjp, GradSum, CheckDefined, CheckNotNan, ControlDependency})
"""Nodes that run built-in ops and nothing else."""

_NAMED_NODES: Final = frozenset({*_PLAIN_NODES, FunctionCall, FunctionVjp, HookCall, Emit})
"""Nodes of a session whose code goes by name: no pickle of the client's is opened for them."""


class _KnownGraph(NamedTuple):
    """A graph that has passed all checks of its session."""

    received: bytes
    graph: Graph
    opened: Graph
    """The same with code of this process in the place of its names."""
    encoded: bytes
    key: bytes
    """These two are of `opened`."""


class ServedSession:
    """A client's session: also the listener of its driver."""

    handling = 0
    """The thread in a handler of emits: they are the client's, so none."""

    def __init__(
        self,
        name: str,
        connection: ResumableConnection,
        executor: Executor,
        passage: Passage,
        options: ServerOptions,
        links: Mapping[str, Any],
    ) -> None:
        """`links` are what the executor has measured."""
        self.name = name
        self.submitted = 0
        self.failures = 0
        self._connection: Final = connection
        self._executor = executor
        self._passage = passage
        self._usage: Final = Usage(options)
        self._most_seconds = options.max_run_seconds
        self._limited_here = False
        """Whether the limit of seconds of a run is the service's, not the client's."""
        self._nodes = None if passage.allow_pickle else _NAMED_NODES
        """The kinds of nodes that it runs; None for all."""
        self._requests: queue.Queue[Any] = queue.Queue(MOST_REQUESTS)
        self._waiting: list[tuple[Ask, float]] = []
        """Reads that are not answered yet, with their deadlines."""
        self._active: set[int] = set()
        self._given_up: set[int] = set()
        """Runs of which something did not pass to the client."""
        self._graphs: dict[bytes, _KnownGraph] = {}
        """By the client's key, the graphs that came last, the latest at the end."""
        self._newest = -1
        """The number of the newest run: they rise."""
        self._driver: Driver | None = None
        self._measured = MeasuredCosts()
        self._measured.links_were(**links)
        self._times = RunTimes(self._measured, executor.host)
        self._latest = time.monotonic()
        """When its client sent something, or was sent something."""
        self._requested = self._latest
        """When its client's latest request had been handled."""
        self._pause = 0.0
        """Seconds for which requests are waited for before the next poll, while something runs."""
        self._closed = False
        self.why = ""
        """Why it ended, if not by its client."""

    @property
    def active(self) -> int:
        """Runs that are under way."""
        return len(self._active)

    @property
    def quiet(self) -> float:
        """The seconds for which nothing of it has run and its client has sent nothing; 0 while something does."""
        if self._active or self._waiting or not self._requests.empty():
            return 0.0
        return time.monotonic() - self._latest

    # ---- the threads of its connections ------------------------------------------------------------------------------

    def receive(self, connection: MessageConnection) -> None:
        """Take requests from a connection until that ends. Raises ConnectionClosed, ProtocolError, ServiceError."""
        with self._connection.reading(connection):
            while True:
                message = self._connection.receive(connection)
                if excess := self._excess_of(message):
                    self._refuse_soon(message, excess, connection)
                elif isinstance(message, Ask) and message.what in ("cancel", "cancel_all") and self._driver is not None:
                    self._answer(message.id, lambda asked=message: self._cancel(asked), waits=False)
                else:
                    self._enqueue(message, connection)
                self._latest = time.monotonic()
                self._connection.took()
                del message  # with its arrays: the next one may be long in coming

    def _excess_of(self, message: Any) -> float:
        """Return the seconds by which a message came too soon. To cancel is always allowed."""
        if isinstance(message, Ask) and message.what.startswith("cancel"):
            return 0.0
        excess = self._usage.rate.excess()
        while excess and not isinstance(message, Submit | Ask | LearnNamed):  # it cannot be refused: the client waits
            time.sleep(min(excess, IDLE_SLICE))
            if self._closed:
                return 0.0
            excess = self._usage.rate.excess()
        return excess

    def _refuse_soon(self, message: Any, excess: float, connection: MessageConnection) -> None:
        error = self._usage.too_fast(excess)
        self._refused(error.code)
        if isinstance(message, Submit) and message.dropped:  # its client has let go of them all the same
            self._enqueue(Drop(tuple(chain.from_iterable(_pairs(message.dropped)))), connection)
        self._connection.send(failed_answer(message.id, error), waits=False)

    def _enqueue(self, message: Any, connection: MessageConnection) -> None:
        """Hand a request to the session's thread; where that has too many, wait, but not longer than the connection
        lives: the request then comes again."""
        while not self._closed:
            try:
                self._requests.put(message, timeout=IDLE_SLICE)
                return
            except queue.Full:
                connection.check()

    def resume(self, connection: MessageConnection, taken: int) -> None:
        """Go on over another connection, whose client has taken so many messages.

        Raises:
            ServiceError: the connection before is still being read.
            ProtocolError: it cannot have taken so many.
            ConnectionEnded: the session is over.
        """
        if not self._connection.abandon():
            raise ServiceError("the connection before this one is still in use: try again", "busy")
        connection.send(Resumed(self._connection.taken))
        self._connection.resume(connection, taken)

    def _cancel(self, ask: Ask) -> Any:
        driver = self._driver
        if driver is None:
            return False
        return driver.cancel_all() if ask.what == "cancel_all" else driver.cancel(ask.numbers)

    def cancel_all(self) -> bool:
        """Cancel all runs, for an administrator. Return whether one had not ended."""
        return self._driver is not None and self._driver.cancel_all()

    def await_client(self) -> bool:
        """Wait, its connection being broken, until the client goes on over another one; return whether it did."""
        return self._connection.await_next()

    def end(self, why: str) -> None:
        """Have its thread end, and cancel what runs."""
        self._closed = True
        self._connection.end(why)
        with suppress(RaygradError):
            self.cancel_all()

    # ---- its own thread ----------------------------------------------------------------------------------------------

    def run(self, ending: Callable[[], None]) -> None:
        """Serve requests until it is ended, and close the driver then, after a call of `ending`: the body of its
        thread."""
        try:
            while not self._closed and self._connection.ended is None:
                self._step()
        except ConnectionEnded:
            pass
        except (ProtocolError, ServiceError) as error:
            self.why = str(error)
        except Exception as error:  # of any kind: requests are the other side's; no thread ends by them
            self.why = f"{type(error).__name__}: {error}"
            log.debug("session %s", self.name, exc_info=True, extra={"session": self.name})
        finally:
            self._closed = True
            ending()
            self._close()

    def _step(self) -> None:
        busy = bool(self._active or self._waiting)
        message: Any = None
        with suppress(queue.Empty):  # and nothing of it is handled in there: errors would tell of this one
            message = self._requests.get(timeout=self._pause if busy else IDLE_SLICE)
        if message is not None:
            self._pause = 0.0
            self._handle(message)
            self._requested = time.monotonic()
            if self._driver is not None and self._requests.empty():
                self._driver.poll()  # what has come meanwhile was not awaited
            return
        began = time.monotonic()
        if self._waiting:
            self._try_reads(self._slice)
        elif self._driver is not None:
            self._driver.poll(self._slice if busy else 0.0)
        in_vain = busy and self._latest < began and time.monotonic() - began < LEAST_PAUSE
        self._pause = LEAST_PAUSE if in_vain else 0.0  # nothing is under way that it could have waited for

    @property
    def _slice(self) -> float:
        """For how long to poll before requests are looked for: one that comes then waits for at most as long as nothing
        has come before, and of the slices there are few."""
        return min(max(time.monotonic() - self._requested, LEAST_SLICE), MOST_SLICE)

    def _close(self) -> None:
        if self._driver is None:
            self._executor.close()
        else:
            self._driver.cancel_all()
            self._driver.close()

    def _handle(self, message: Any) -> None:
        if isinstance(message, Start):
            if self._driver is not None:
                raise ProtocolError("a session was started twice")
            self._start(message)
            return
        driver = self._driver
        if driver is None:
            raise ProtocolError("a request came before the session was started")
        match message:
            case Submit():
                self._submit(driver, message)
            case Ask():
                self._ask(driver, message)
            case Drop():
                numbers = message.numbers
                if len(numbers) % 2:
                    raise ProtocolError("values that are let go of are no pairs of numbers")
                self._drop(driver, zip(numbers[::2], numbers[1::2], strict=True))
            case Learn():
                if not self._passage.allow_pickle:
                    raise ServiceError(f"code by value came: {PICKLE_HINT}", "pickle")
                shipment = Shipment.of(message.values)
                self._executor.learn(shipment.fingerprint, shipment)
            case LearnNamed():
                self._learn_named(message)
            case Declined():
                self._refused(message.code, message.what)
            case MeasuredCostsSent():
                self._times.learn(driver.cluster)  # by what was known while they ran
                self._learn_costs(message.measured, links=False)
            case _:
                raise ProtocolError(f"a {type(message).__name__} came, which a client does not send here")

    def _learn_costs(self, measured: str, *, links: bool = True) -> None:
        """Go by costs that the client has measured; of links only at first, since the server measures its own.

        Raises:
            ProtocolError: they are none.
        """
        try:
            self._measured.use_data(json.loads(measured), links=links)
        except (CostsError, ValueError, RecursionError) as error:
            raise ProtocolError(f"the measured costs are none: {error}") from error

    def _learn_named(self, message: LearnNamed) -> None:
        """Take code that goes by name, or say why not."""
        name = CodeName(message.module, message.qualname)
        try:
            self._passage.modules.code(name, message.source)
        except ServiceError as error:
            self._refused(error.code, str(name))
            self._connection.send(failed_answer(message.id, error))
            return
        self._executor.learn(name.fingerprint, name.shipment)
        self._answer(message.id, lambda: True)

    def _refused(self, code: str, what: str = "", *, run: int | None = None, node: int | None = None) -> None:
        shown = f" ({what[:200]!r})" if what else ""
        noted = {"session": self.name, "run": run, "node": node, "code": code[:40]}
        log.warning("session %s: refused: %s%s", self.name, code[:40], shown, extra=noted)

    def _start(self, start: Start) -> None:
        self._learn_costs(start.measured)
        self._measured.links_were(recovery_time=start.recovery_time)
        given: Any = start.limits
        if type(given) is not tuple or any([type(one) is not float for one in cast("tuple[Any, ...]", given)]):
            raise ProtocolError("the limits of time are no numbers")
        limits = tuple([None if limit < 0 else limit for limit in cast("tuple[float, ...]", given)])
        limited = Limits(*limits)
        most = self._most_seconds
        if most is not None and (limited.run is None or limited.run > most):
            self._limited_here = True
            limited = limited._replace(run=most)
        settings = DriverSettings(
            cluster=cluster_of(start.cluster),
            measured=self._measured,
            seed=start.seed,
            recovery_time=start.recovery_time,
            retries=start.retries,
            limits=limited,
        )
        if [one.name for one in settings.cluster.workers] != [one.name for one in self._executor.cluster.workers]:
            raise ProtocolError("the settings are for other workers than those that were opened")
        self._driver = start_driver(self._executor, settings, self)

    def _submit(self, driver: Driver, message: Submit) -> None:
        if not message.preview:  # first: its client has let go of them, whatever becomes of the submission
            self._drop(driver, _pairs(message.dropped))
        if len(self._active) >= MOST_RUNS:
            error = ServiceError(f"more than {MOST_RUNS:,} runs of this session are under way: wait for some", "quota")
            self._connection.send(failed_answer(message.id, error))
            return
        try:
            if not message.preview and message.run <= self._newest:
                raise ProtocolError(f"run {message.run} was submitted after run {self._newest}")
            known = self._known_graph(message.graph, message.key)
            graph = known.opened
            externals = self._externals(known.graph, message.values)
            paths = paths_of(message.paths)
            submission = GraphSubmission(message.run, graph, known.encoded, known.key, externals, paths)
            self._times.learn(driver.cluster)
            residency: tuple[int, ...] = ()
            if message.preview:
                planned, residency = driver.preview(submission)
            else:
                self._usage.submitted(message.run, graph, message.values)
                self._active.add(message.run)
                self._newest = message.run
                self.submitted += 1
                noted = {"session": self.name, "run": message.run}
                log.debug(
                    "session %s submits run %d of %d nodes", self.name, message.run, len(graph.nodes), extra=noted
                )
                planned = driver.submit(submission)
                self._times.submitted(message.run, planned.graph, planned.plan)
                if message.run not in self._active:  # another thread has cancelled it before that
                    self._times.ended(message.run, well=False)
        except (RaygradError, ValueError, TypeError) as error:
            if not message.preview and message.run in self._active:
                self._ended(message.run, well=False)
            if isinstance(error, ServiceError):
                self._refused(error.code, run=message.run)
            self._connection.send(failed_answer(message.id, error))
            return
        other = b"" if planned.graph == graph else self._graph_bytes(planned.graph)
        self._connection.send(PlanMade(message.id, plan_data(planned.plan), other, residency))

    def _known_graph(self, received: bytes, key: bytes) -> _KnownGraph:
        """Return the graph of a submission, decoded and checked; that of an earlier one if it came before."""
        known = self._graphs.pop(key, None)
        if known is None or known.received != received:
            known = self._checked_graph(received, key)
        self._graphs[key] = known
        if len(self._graphs) > KNOWN_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        return known

    def _checked_graph(self, received: bytes, key: bytes) -> _KnownGraph:
        """Return a graph that came.

        Raises:
            ProtocolError: it is none, or not what a client may submit.
            ServiceError: it has code that does not pass, or too many nodes.
        """
        graph = opened = decode_graph(received)
        if structural_hash(received) != key:  # by which plans and programs are cached
            raise ProtocolError("the key of a graph is not its hash")
        if added := [node for node in graph.nodes if isinstance(node, Spill | Load)]:
            raise ProtocolError(f"a {type(added[0]).__name__} was submitted, which plans alone add")
        if self._nodes is not None and (code := [node for node in graph.nodes if type(node) not in self._nodes]):
            raise ServiceError(f"the graph has a {type(code[0]).__name__}, which {PICKLE_HINT}", "pickle")
        self._usage.check_nodes(graph)
        encoded = received
        if self._nodes is not None and (opened := opened_graph(graph, self._passage.modules)) is not graph:
            encoded = encode_graph(opened)
            key = structural_hash(encoded)
        return _KnownGraph(received, graph, opened, encoded, key)

    def _drop(self, driver: Driver, values: Iterable[tuple[int, int]]) -> None:
        """Let go of kept values (run, value)."""
        pairs = list(values)
        for pair in pairs:
            self._usage.dropped(*pair)
        if pairs:
            driver.drop(pairs)

    def _externals(self, graph: Graph, values: Sequence[Any]) -> tuple[External, ...]:
        emits = {} if self._passage.allow_pickle else emitted(graph)
        found: list[External] = []
        for number, one in enumerate(values):
            if number in emits:  # its worker unpickles it: nothing else may stand there
                sent = checked_emit(one, emits[number], self._passage.modules)
                found.append(SuppliedExternal(sent))
            elif isinstance(one, Pinned):
                found.append(KeptExternal(one.run, one.value))
            else:
                found.append(SuppliedExternal(self._passage.incoming(one, "an input of the graph")))
        return tuple(found)

    def _graph_bytes(self, graph: Graph) -> bytes:
        return encode_graph(graph if self._passage.allow_pickle else closed_graph(graph))

    def _ask(self, driver: Driver, message: Ask) -> None:
        if message.what == "stored":
            self._answer(message.id, driver.stored_bytes)
        elif message.what in ("read", "stays") and len(message.numbers) == 2:
            deadline = inf if message.seconds == inf else time.monotonic() + message.seconds
            self._waiting.append((message, deadline))
            self._try_reads(LEAST_SLICE)
        else:
            raise ProtocolError(f"nothing can be asked by {message.what[:40]!r} of {len(message.numbers)} numbers")

    def _try_reads(self, seconds: float) -> None:
        """Answer the reads whose values are here, and those that have passed their deadline; wait for so long."""
        driver = self._driver
        if driver is None:
            return
        for entry in list(self._waiting):
            ask, deadline = entry
            read = driver.read if ask.what == "read" else driver.stays_on_worker
            now = time.monotonic()
            try:
                found = read(*ask.numbers, deadline=min(now + seconds / len(self._waiting), deadline))
            except WaitTimeout as error:
                if now < deadline:
                    continue
                self._connection.send(failed_answer(ask.id, error))
            except RaygradError as error:
                self._connection.send(failed_answer(ask.id, error))
            else:
                self._answer(ask.id, lambda value=found: value)
            self._waiting.remove(entry)

    def _answer(self, number: int, ask: Callable[[], Any], *, waits: bool = True) -> None:
        try:
            value = self._passage.outgoing(ask(), "the value")
            self._connection.send(Answer(number, *self._bytes(), (value,)), waits=waits)
        except (RaygradError, ValueError, TypeError) as error:  # a message may be too large, too
            if isinstance(error, ServiceError):
                self._refused(error.code)
            self._connection.send(failed_answer(number, error), waits=waits)

    def _bytes(self) -> tuple[int, int]:
        driver = self._driver
        return (0, 0) if driver is None else (driver.saved_bytes, driver.peak_saved_bytes)

    # ---- what the driver reports -------------------------------------------------------------------------------------

    def _report(self, message: Any) -> None:
        self._latest = time.monotonic()
        try:
            self._connection.send(message)
        except ConnectionEnded:  # nobody is there to be told
            self._closed = True

    def record(self, called: TimedRecord, finished: bool) -> None:
        """Send a segment's record."""
        record = called.record
        self._usage.measured(record.run, record.sizes)
        self._times.took(called)
        if finished:
            self._ended(record.run)
        if record.run in self._given_up:
            return
        try:
            data = self._passage.record_bytes(record)
        except ServiceError as error:
            node = record.emits[0][0] if record.emits else -1
            self._give_up(record.run, record.segment, record.attempt, record.worker, node, error)
            return
        times = called.sent, called.came, called.awaited, called.spent
        self._report(Recorded(data, *times, finished, *self._bytes()))

    def _ended(self, run: int, *, well: bool = True) -> None:
        """Note that a run is over."""
        self._active.discard(run)
        self._usage.ended(run, failed=not well)
        self._times.ended(run, well=well)

    def _give_up(self, run: int, segment: int, attempt: int, worker: str, node: int, error: ServiceError) -> None:
        """Fail a run of which something, that a node has made, does not pass to its client."""
        self._refused(error.code, run=run, node=node if node >= 0 else None)
        self._given_up.add(run)
        self.failures += 1
        failure = Failure(node, "user code", (), "", error, type(error).__name__, str(error))
        record = Record(run, segment, attempt, worker, 0, 0.0, "failed", (), (), (), (), (), (), (), failure)
        self._report(RunFailed(run, self._passage.record_bytes(record), str(error), ()))
        with suppress(RaygradError):
            self._cancel(Ask(0, "cancel", (run,), 0.0))

    def _too_long(self, run: int, lost: Expired) -> ServiceError:
        return ServiceError(
            f"run {run} was stopped {lost.seconds:.3g} s after it was submitted: this service gives each run "
            f"{lost.limit:g} s. Submit less at once, or start it with a larger max_run_seconds (--max-run-seconds)",
            SECONDS,
        )

    def emitted(self, held: HeldChunk) -> None:
        """Send emits of a segment that goes on."""
        chunk = held.take()
        if chunk.run in self._given_up:
            return
        head = chunk.run, chunk.segment, chunk.attempt, chunk.worker, chunk.nbytes
        try:
            emits = self._passage.emits_out(chunk.emits)
        except ServiceError as error:
            self._give_up(*head[:4], chunk.emits[0][0], error)
            return
        self._report(EmitsSent(*head, emits))

    def fetched(self, run: int, value: int, worker: int, left: Sequence[tuple[str, int]]) -> None:
        """Send that a value was fetched."""
        self._report(Fetched(run, value, worker, tuple([tuple(one) for one in left])))

    def finished(self, run: int) -> None:
        """Send that a run is done."""
        self._ended(run)
        if run not in self._given_up:
            self._report(Finished(run))

    def replanned(self, run: int, plan: Plan, revision: PlanRevision) -> None:
        """Send that the rest of a run was planned again."""
        self._times.replanned(run, plan)
        self._report(Replanned(run, plan_data(plan), revision.at, tuple(revision)[1:]))

    def still_running(self, run: int, segment: int) -> None:
        """Send that what was cancelled runs on."""
        self._report(StillRunning(run, segment))

    def failed(self, run: int, record: Record | None, reason: str, lost: Lost | None = None) -> None:
        """Send that a run failed."""
        self._ended(run, well=False)
        if run in self._given_up:
            return
        if isinstance(lost, Expired) and lost.scope == "run" and self._limited_here:
            self._give_up(run, lost.segment, 0, lost.worker, -1, self._too_long(run, lost))
            return
        self.failures += 1
        failure = None if record is None else record.failure
        node, kind = (None, None) if failure is None else (failure.index, failure.type)
        noted = {"session": self.name, "run": run, "node": node, "error": kind}
        log.info("session %s: run %d failed: %s", self.name, run, reason, extra=noted)
        why: tuple[Any, ...] = ()
        if lost is not None:
            why = (LOSSES[type(lost)], *lost)
        self._report(RunFailed(run, self._passage.record_bytes(record), reason, why))


def _pairs(values: Any) -> list[tuple[int, int]]:
    """Return what a client says are kept values (run, value), checked.

    Raises:
        ProtocolError: they are none.
    """
    try:
        return [(int(run), int(value)) for run, value in values]
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"values that are let go of are no pairs of numbers: {error}") from error
