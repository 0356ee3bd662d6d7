"""The plan of a graph as frozen data: segments with workers, order, imports, exports and pins; and the cluster.

`planning` makes plans, the state machine carries them out. The order of `Plan.segments` is part of the plan: it is the
order of unbroken blocks in one topological order of all nodes (H6), and segments are submitted in it. Workers and
segments are named by index; value ids are those of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from raygrad.proto.ir.graph import DEVICE

from .numerics_class import Numerics


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker process as the planner sees it: a name for tables and errors, and the devices that it offers."""

    name: str
    devices: tuple[str, ...] = ("cpu",)
    """Device kinds ("cpu", "cuda") or devices ("cuda:0"); a node runs where the devices of its specs are served: a kind
    stands for each device of it."""
    memory: int | None = None
    """The hard limit on bytes of values in its host memory at once; None for no limit. See `memory.memory_ledger`."""
    gpu_memory: int | None = None
    """The same for the memory of each GPU that it serves."""
    host: str = ""
    """The machine that it runs on, as links between hosts are measured; equal names are one machine."""
    resources: tuple[tuple[str, float], ...] = ()
    """(name, amount) of each resource that it offers to one node at a time: "num_cpus", "memory", and names of the
    user's own."""

    numerics: Numerics = ()
    """Its numerics classes, as far as they are known."""

    lost: bool = False
    """It has died: it keeps its index, and no node can run there any more."""

    def offers(self, needs: Iterable[tuple[str, float]]) -> bool:
        """Return whether a node with these requests (name, amount) can run here; see `proto.ir.graph.Demand`."""
        own = dict(self.resources)
        return not self.lost and all(
            self.serves(name[len(DEVICE) :]) if name.startswith(DEVICE) else amount <= own.get(name, 0.0)
            for name, amount in needs
        )

    def serves(self, device: str) -> bool:
        """Return whether the worker can work on arrays of a device ("cuda:0"), or of any device of a kind ("cuda")."""
        kind, numbered, _ = device.partition(":")
        offered = device in self.devices or kind in self.devices or (not numbered and kind in self.kinds)
        return offered and not self.lost

    def described(self) -> str:
        """Return its name and offers as text for errors: "worker 0: cpu, num_cpus 2"."""
        if self.lost:
            return f"{self.name}: lost"
        return f"{self.name}: {', '.join([*self.devices, *(f'{name} {amount:g}' for name, amount in self.resources)])}"

    @property
    def limited(self) -> bool:
        """Whether one of its memories is limited."""
        return self.memory is not None or self.gpu_memory is not None

    @property
    def kinds(self) -> frozenset[str]:
        """The device kinds offered: `"cuda:0"` offers "cuda"."""
        return frozenset(device.partition(":")[0] for device in self.devices)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers that a plan may use; indices into `workers` name them everywhere else. Hashable."""

    workers: tuple[WorkerSpec, ...]
    saved_stays: bool = False
    """Saved values stay on the worker that makes them, and are lost with it; else those that stand for much work are
    copied to the object store (`Segment.saved_pins`)."""

    @classmethod
    def of(cls, count: int) -> Cluster:
        """Return `count` equal CPU workers, named "worker 0", "worker 1", ..."""
        return cls(tuple(WorkerSpec(f"worker {index}") for index in range(count)))

    def without(self, worker: int) -> Cluster:
        """Return the cluster after a worker has died: indices stay."""
        return self._with_loss(worker, lost=True)

    def restored(self, worker: int) -> Cluster:
        """Return the cluster after another process has taken the place of a worker that died."""
        return self._with_loss(worker, lost=False)

    def _with_loss(self, worker: int, *, lost: bool) -> Cluster:
        workers = [replace(one, lost=lost) if index == worker else one for index, one in enumerate(self.workers)]
        return replace(self, workers=tuple(workers))

    @property
    def has_limits(self) -> bool:
        """Whether a worker's memory is limited."""
        return any(worker.limited for worker in self.workers)

    def limited(
        self, memory: int | Sequence[int | None] | None, gpu_memory: int | Sequence[int | None] | None = None
    ) -> Cluster:
        """Return the cluster with memory limits in bytes, on the host and on each GPU: one limit for all workers, or
        one per worker.

        Raises ValueError if a limit is not positive, or there is not one per worker.
        """
        hosts, gpus = self._limits("memory", memory), self._limits("gpu_memory", gpu_memory)
        limited = [
            replace(one, memory=host, gpu_memory=gpu) for one, host, gpu in zip(self.workers, hosts, gpus, strict=True)
        ]
        return replace(self, workers=tuple(limited))

    def _limits(self, name: str, given: int | Sequence[int | None] | None) -> list[int | None]:
        limits = [given] * len(self.workers) if given is None or isinstance(given, int) else list(given)
        if len(limits) != len(self.workers) or any(limit is not None and limit < 1 for limit in limits):
            raise ValueError(f"{name} must be a positive number of bytes, or {len(self.workers)} of them, not {given}")
        return limits


class OnWorker(NamedTuple):
    """A kept value stays pinned on `worker`, under (run, value id); `segment` makes it."""

    worker: int
    segment: int


class InStore(NamedTuple):
    """A kept value is number `position` of the object that `segment` returns as its export `export`."""

    segment: int
    export: int
    position: int


ValueLocation = OnWorker | InStore
"""The location of a value that outlives its run."""


class Export(NamedTuple):
    """One object that a segment returns to the object store."""

    values: tuple[int, ...]
    """Value ids, in the order in which they are packed."""
    readers: tuple[int, ...]
    """Segments of this run that import it, ascending; all of them come later in the plan."""
    saved: bool
    """All of its values are contexts or residuals of a vjp (else none is): its bytes count as saved bytes."""
    kept: bool
    """All of its values are kept in the store beyond the run (else none is)."""


class Segment(NamedTuple):
    """One block of nodes that one worker runs by one call."""

    worker: int
    nodes: tuple[int, ...]
    """Node indices, in the order in which they run."""
    externals: tuple[int, ...]
    """Externals of the graph that it reads, ascending; `Call.externals` has one entry for each, in this order."""
    imports: tuple[tuple[int, int], ...]
    """(segment, export) of each object of this run that it reads, ascending; the call's first arguments."""
    exports: tuple[Export, ...]
    pins: tuple[int, ...]
    """Value ids left pinned on the worker: for later segments of this run, or because the client keeps them."""
    unpins: tuple[tuple[int, bool], ...]
    """(value id, last): values that it reads and an earlier segment pinned; with `last` its end drops the pin."""
    after: tuple[int, ...]
    """Earlier segments of the same worker that must have ended before this one starts: those that pin what it
    reads, and other readers of a pin which it drops. Actors run out of order, so this is never implied (H13)."""
    forward_nodes: int
    vjp_nodes: int
    hook_nodes: int
    sum_nodes: int
    bytes_in: int
    """Predicted bytes of the objects of this run that it imports (values that it reads only)."""
    bytes_out: int
    """Predicted bytes of the objects that it exports."""
    predicted_seconds: float
    """Predicted work of its nodes, without the call and without waiting."""
    saved_pins: tuple[int, ...] = ()
    """Contexts and residuals among `pins`."""
    copied_pins: tuple[int, ...] = ()
    """Those of `pins` that only later segments read and that may be copied to the object store meanwhile
    (`machine.recovery_copies`): all but contexts that stay."""


class PlanRow(NamedTuple):
    """One line of the table that shows a plan: one per segment, in order."""

    segment: int
    worker: str
    forward_nodes: int
    vjp_nodes: int
    hook_nodes: int
    bytes_in: int
    bytes_out: int
    predicted_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one graph is run on one cluster. Valid for every graph with the same structural hash and residency."""

    hash: bytes
    """16 bytes that name the plan: equal for equal (graph, residency, cluster, costs, seed)."""
    workers: tuple[str, ...]
    """Names of the cluster's workers, by index."""
    segments: tuple[Segment, ...]
    """In plan order, which is the order of submission."""
    node_worker: tuple[int, ...]
    """Per node of the graph, the index of its worker."""
    kept: Mapping[int, ValueLocation]
    """The location of each value of `Graph.keep` that a node makes. Kept externals are not listed: they stay where they
    are. Nor are the outputs of an open-ended node: they are pinned on the worker of the last segment."""
    open_ended: bool
    """The last node of the last segment is a Function not seen before (H3)."""
    crossing_bytes: int
    """Predicted bytes of values that one worker makes and another reads, counted once per reading worker."""
    predicted_seconds: float
    """Predicted time from submission to the end of the last segment."""
    peaks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Per memory that is limited anywhere ("cpu", "cuda:0"), the most bytes that values are predicted to hold on each
    worker."""
    headroom: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Per such memory and segment, the bytes that values of earlier runs may occupy while the segment runs, if it does
    not read them; -1 without a limit (`memory.headroom`)."""

    limits: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Per such memory, the limit of each worker; -1 without a limit."""

    def rows(self) -> list[PlanRow]:
        """Return the plan as a table: one row per segment, in plan order. Sums count as vjp nodes: they belong to
        backward."""
        return [
            PlanRow(
                segment=index,
                worker=self.workers[segment.worker],
                forward_nodes=segment.forward_nodes,
                vjp_nodes=segment.vjp_nodes + segment.sum_nodes,
                hook_nodes=segment.hook_nodes,
                bytes_in=segment.bytes_in,
                bytes_out=segment.bytes_out,
                predicted_ms=segment.predicted_seconds * 1e3,
            )
            for index, segment in enumerate(self.segments)
        ]
