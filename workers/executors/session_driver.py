"""The session's interface to its workers: what submits graphs, reads and drops values, waits, and reports to a
listener.

`driver.Driver` implements it in the session's process; a service's client implements it over a network. A session opens
`SessionWorkers`, looks at their cluster, and starts one `SessionDriver` with its `DriverSettings` on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from raygrad.scheduler.model.measured_costs import MeasuredCosts

from .deadlines import NO_LIMITS, Limits

if TYPE_CHECKING:
    from raygrad.proto.ir.graph import Graph
    from raygrad.scheduler.model.costs import Costs
    from raygrad.scheduler.model.plan import Cluster, Plan, WorkerSpec
    from raygrad.scheduler.planning.planner import Planner

    from ..code.shipping import Shipment, Shipped
    from .calls import GraphSubmission
    from .elastic_workers import Scale
    from .run_state import Listener


class PlannedGraph(Protocol):
    """A plan, and the graph whose nodes it runs: the submitted one, or with nodes that the planner has added."""

    @property
    def plan(self) -> Plan: ...

    @property
    def graph(self) -> Graph: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """How a session's work is planned and run on its workers."""

    cluster: Cluster
    """The workers that were opened, with the session's memory limits."""
    measured: MeasuredCosts
    """What the session knows of costs; plans go by it."""
    seed: int = 0
    recovery_time: float = inf
    """Seconds of work that may be lost with a worker."""
    retries: int = 0
    limits: Limits = NO_LIMITS
    scale: Scale | None = None
    """How many workers there are to be, if they come and go."""
    admission: Callable[[Planner], Callable[[WorkerSpec], WorkerSpec]] | None = None
    """Returns what admits a worker that joins; None where none can."""


class SessionWorkers(ABC):
    """Workers that a session has opened and not started to use."""

    reports_unasked: bool
    """Whether workers may be lost alone, and that is reported while nothing is requested."""

    host: str
    """The host of what submits to the workers: those whose spec names it share its clock."""

    @property
    @abstractmethod
    def cluster(self) -> Cluster:
        """The workers, those that are gone included: indices stay."""

    @abstractmethod
    def links(self) -> dict[str, Any]:
        """Return measured latencies and bandwidths as fields of `Costs`; empty if none are measured."""

    @abstractmethod
    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        """Cache user code, which goes to a worker with the first program that needs it.

        Raises:
            NotShippable: the workers do not take it.
        """

    def named(self, obj: Any) -> Shipped | None:
        """Return how user code goes that the workers take by its name alone; None where it goes as they do.

        Raises:
            ServiceError: it has no name.
        """
        return None

    @abstractmethod
    def name_of(self, fn: str) -> str:
        """Return the display name of the user code `fn` ("@" and fingerprint); `fn` itself if it is not cached."""

    @abstractmethod
    def start(self, settings: DriverSettings, listener: Listener) -> SessionDriver:
        """Return the driver of a session on these workers, which closes them. Called once."""

    @abstractmethod
    def close(self) -> None:
        """Release workers on which no driver was started. Closing again does nothing."""


class SessionDriver(ABC):
    """Runs the graphs of one session. Several threads may use it; the listener is called by one at a time, inside of
    `poll` and of what waits, in order, and its handlers may use the driver again."""

    # ---- what it is --------------------------------------------------------------------------------------------------

    reports_unasked: bool
    """Whether it may report something while nothing is requested: that a worker has died."""

    @property
    @abstractmethod
    def cluster(self) -> Cluster:
        """The workers, those that are gone included: indices stay."""

    @property
    @abstractmethod
    def planning_cluster(self) -> Cluster:
        """The workers as the next plan sees them: with memory limits, and marked if they are lost."""

    @property
    @abstractmethod
    def costs(self) -> Costs:
        """The cost model that the next new plan is made with."""

    @property
    @abstractmethod
    def present(self) -> tuple[int, ...]:
        """The indices of workers that are there: without those that have left, are about to, or died."""

    @property
    @abstractmethod
    def unusable(self) -> str:
        """Why none of its workers can be reached any more, "" while they can."""

    @property
    @abstractmethod
    def saved_bytes(self) -> int:
        """Bytes of saved tensors and contexts in the object store now."""

    @property
    @abstractmethod
    def peak_saved_bytes(self) -> int:
        """The most that `saved_bytes` has been."""

    @abstractmethod
    def stored_bytes(self) -> int:
        """Return the bytes that the object store holds, by its own account."""

    # ---- graphs ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def submit(self, submission: GraphSubmission, dropped: Iterable[tuple[int, int]] = ()) -> PlannedGraph:
        """Plan a graph and start it. Does not wait for its work, nor call the listener. The kept values `dropped` are
        released before that; see `drop`.

        Raises:
            PlanError: no worker can run one of its nodes.
            ExecutionError: the driver is closed, or its workers cannot be reached.
        """

    @abstractmethod
    def preview(self, submission: GraphSubmission) -> tuple[PlannedGraph, tuple[int, ...]]:
        """Return the plan that a graph would get if it were submitted now, and the workers of its external inputs.

        Raises:
            PlanError: no worker can run one of its nodes.
        """

    # ---- waiting -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def poll(self, timeout: float = 0.0, *, submits: bool = False) -> None:
        """Report what has arrived to the listener, waiting up to `timeout` seconds for the first. With `submits`, the
        caller submits next.

        Raises:
            KeyboardInterrupt: it came while this thread waited.
            Whatever a handler of the listener raises; the reports after it come with the next poll.
        """

    @abstractmethod
    def wait(self, done: Callable[[], bool], deadline: float | None = None) -> None:
        """Poll until `done()`; `deadline` is a time of `time.monotonic`.

        Raises:
            WaitTimeout: the deadline has passed.
            ExecutionError: nothing can end the wait.
            KeyboardInterrupt: Ctrl-C. All runs are cancelled then.
        """

    # ---- values ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, run: int, value: int, deadline: float | None = None) -> Any:
        """Return a kept value, waiting for it and fetching it: an array, None if undefined, or another object; POISON
        if its run failed or it was dropped.

        Raises:
            WaitTimeout: the deadline has passed.
            WorkerLost: it was pinned on a worker that died after its run.
            ExecutionError: it cannot leave its worker.
        """

    @abstractmethod
    def peek(self, run: int, value: int) -> Any:
        """Return a kept value that is here already, without waiting for anything; else None."""

    @abstractmethod
    def stays_on_worker(self, run: int, value: int, deadline: float | None = None) -> bool:
        """Wait until a kept value exists; tell whether it stays on its worker until it is read. False for values that
        are inlined in records, None among them, and for values that do not exist.

        Raises:
            WaitTimeout: the deadline has passed.
        """

    @abstractmethod
    def drop(self, values: Iterable[tuple[int, int]]) -> None:
        """Release the client's references to kept values (run, value). Those of failed runs are dropped already."""

    # ---- cancelling --------------------------------------------------------------------------------------------------

    @abstractmethod
    def cancel(self, runs: Collection[int]) -> bool:
        """Cancel runs, and wait until nothing of them runs. Return whether one of them had not ended. Any thread may
        call this, while others wait."""

    @abstractmethod
    def cancel_all(self) -> bool:
        """As `cancel`, for all runs."""

    # ---- workers that come and go ------------------------------------------------------------------------------------

    @abstractmethod
    def add_workers(self, count: int, options: Mapping[str, Any], deadline: float | None) -> tuple[str, ...]:
        """Ask for workers, and wait until they are there; return their names.

        Raises:
            ExecutionError: no workers can join, or some do not.
            WaitTimeout: the deadline has passed.
            TypeError, ValueError: options that no worker can have.
        """

    @abstractmethod
    def remove_worker(self, worker: int, deadline: float | None) -> None:
        """Empty a worker, and end it. It stays if the deadline passes before.

        Raises:
            ExecutionError: something cannot leave it.
            WaitTimeout: the deadline has passed.
            WorkerLost: it died meanwhile.
        """

    # ---- its end -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Stop the workers; unfinished runs are lost. Closing again does nothing."""

    @abstractmethod
    def leave_to_parent(self, why: str) -> None:
        """End it in a process that was forked from its own, and leave the workers as they are. Sessions say `why`."""
