"""Memory spaces: the host memory and the memory of each device, with limits per worker and the bytes of values there.

Ordering and spilling work on one space at a time: `MemorySpace.within` returns the graph with the bytes in that space,
and 0 for values that are elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from raygrad.proto.ir.specs import ArraySpec, ContextSpec, Spec, is_sized

from .plan import Cluster
from .priced_graph import PricedGraph
from .unseen_function_bytes import estimated_bytes

HOST = "cpu"
WHOLE: Final = (1, 0)
NOTHING: Final = (0, 0)


class MemorySpace(NamedTuple):
    """One memory space: host memory, or the memory of one device."""

    device: str
    """Values of this device are in it; values without a device are in host memory."""
    limits: list[int | None]
    """Per worker, its bytes; None for no limit."""
    unseen: float = 1.0
    """The share of the estimate for an unseen Function (`unseen_function_bytes`) that is counted."""

    def within(self, priced: PricedGraph) -> PricedGraph:
        """Return the graph with the bytes of values in this space alone. The unknown outputs of the last node of an
        open-ended graph count as bytes of its context."""
        graph = priced.graph
        shares = [self._share(spec) for spec in graph.specs]
        unseen = graph.open_ended and self.unseen
        unmade = _unrequested_contexts(priced)
        if not unseen and not unmade and all([share is WHOLE for share in shares]):
            return priced
        sizes = [size * shares[spec][0] + shares[spec][1] for size, spec in zip(priced.size, priced.spec, strict=True)]
        for value in unmade:
            sizes[value] = 0
        if unseen:
            read = {value for value in graph.nodes[-1].inputs if value >= 0}
            sizes[priced.first[-1]] += int(unseen * estimated_bytes(sum([sizes[value] for value in read])))
        return priced.with_sizes(sizes)

    def _share(self, spec: Spec) -> tuple[int, int]:
        """Return (factor, addend) that turn the bytes of a value into its bytes in this space."""
        if isinstance(spec, ContextSpec) and (held := spec.per_device):
            here = sum([size for device, size in held if self.device in (HOST, device)])
            return (1, -here) if self.device == HOST else (0, here)
        return WHOLE if ((spec.device or HOST) if isinstance(spec, ArraySpec) else HOST) == self.device else NOTHING

    @property
    def argument(self) -> str:
        """The session's argument that limits it."""
        return "memory" if self.device == HOST else "gpu_memory"

    def named(self, size: int) -> str:
        """Return an amount as text in the form of a session's argument: `memory=1000`."""
        return f"{self.argument}={size}"


def limited_spaces(specs: Sequence[Spec], cluster: Cluster) -> list[MemorySpace]:
    """Return the memory spaces that hold values of these specs and are limited on some worker: devices first, since
    values spilled from a device go to the host."""
    spaces: list[MemorySpace] = []
    if any([worker.gpu_memory is not None for worker in cluster.workers]):
        for device in sorted(_devices(specs) - {HOST}):
            limits = [worker.gpu_memory if worker.serves(device) else None for worker in cluster.workers]
            if any(limit is not None for limit in limits):
                spaces.append(MemorySpace(device, limits))
    if any([worker.memory is not None for worker in cluster.workers]):
        spaces.append(MemorySpace(HOST, [worker.memory for worker in cluster.workers]))
    return spaces


def _unrequested_contexts(priced: PricedGraph) -> set[int]:
    """Return the contexts that vjps return with saved values and that nobody reads or keeps."""
    graph = priced.graph
    sized = [is_sized(spec) for spec in graph.specs]
    if not any(sized):
        return set()
    nodes = zip(priced.first, graph.nodes, strict=True)
    found = {first for first, node in nodes if node.depth and node.outputs and sized[node.outputs[0]]}
    if found:
        found.difference_update([value for value, _ in graph.keep], *[node.inputs for node in graph.nodes])
    return found


def _devices(specs: Sequence[Spec]) -> set[str]:
    found = {spec.device or HOST for spec in specs if isinstance(spec, ArraySpec)}
    held = [spec.per_device for spec in specs if isinstance(spec, ContextSpec)]
    return found.union([device for one in held for device, _ in one])
