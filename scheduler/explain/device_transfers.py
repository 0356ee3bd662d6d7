"""Transfers between devices in a plan, and arrays that a run copied from devices to the client.

The explanation of a plan lists the former, the report of a run the latter; there are no other transfers. A `to_device`
node moves a value, its vjp the gradient back. Besides, a value on a device goes through host memory when another
process reads it, and when it is spilled to disk and loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import Load, Spill, moves
from raygrad.proto.ir.specs import ContextSpec, Spec

from ..model.plan import Plan
from ..placing.constraints import devices_of


class DeviceTransfer(NamedTuple):
    """The transfer of one value between devices."""

    node: int
    """The node that moves it; -1: it is transferred between workers, or from the client."""
    worker: int
    """The worker that receives it; -1: the client sends it to its readers."""
    source: str
    target: str
    bytes: int


class FetchedArray(NamedTuple):
    """One array that was copied from its device to the client, which read it or held it at the end of the session."""

    node: int
    """The node that made the value; -1: a node of no plan, recorded by user code on its worker."""
    worker: int
    """The worker that held it."""
    device: str
    bytes: int


def fetched_arrays(
    graph: Graph, requested: Sequence[tuple[int, int, Sequence[tuple[str, int]]]]
) -> tuple[FetchedArray, ...]:
    """Return the arrays of a run that were copied from devices to the client.

    `requested` has, per value, its id, its worker, and the device and bytes of each of its arrays on a device.
    """
    maker: dict[int, int] = {}
    value = len(graph.externals)
    ids = {value for value, _, _ in requested}
    for number, node in enumerate(graph.nodes if ids else ()):
        maker.update((one, number) for one in range(value, value + len(node.outputs)) if one in ids)
        value += len(node.outputs)
    return tuple(
        [FetchedArray(maker.get(one, -1), worker, *left) for one, worker, lefts in requested for left in lefts]
    )


def device_transfers(
    graph: Graph, sizes: Sequence[int], residency: Sequence[int], plan: Plan, *, staged: bool = False
) -> tuple[DeviceTransfer, ...]:
    """Return the transfers between devices of a plan, in plan order. O(nodes + edges).

    Args:
        graph: what is planned.
        sizes: per value id, its bytes.
        residency: per external, the worker that holds it, or -1.
        plan: its plan.
        staged: workers are processes of their own.
    """
    devices = devices_of(graph.specs)
    if not {*devices} - {"", "cpu"}:
        return ()
    spec = list(graph.externals)
    first: list[int] = []
    for node in graph.nodes:
        first.append(len(spec))
        spec.extend(node.outputs)
    device = [devices[one] for one in spec]
    found: list[DeviceTransfer] = []
    for segment in plan.segments:
        if staged:
            brought = [
                value
                for source, export in segment.imports
                if plan.segments[source].worker != segment.worker
                for value in plan.segments[source].exports[export].values
            ]
            brought += [value for value in segment.externals if residency[value] not in (-1, segment.worker)]
            found += [
                DeviceTransfer(-1, segment.worker, device[value], device[value], sizes[value])
                for value in brought
                if device[value] not in ("", "cpu")
            ]
        for index in segment.nodes:
            node = graph.nodes[index]
            if moves(node) and node.outputs:
                read, made = node.inputs[-1], first[index]
                source = device[read] if read >= 0 else ""
                found.append(DeviceTransfer(index, segment.worker, source, device[made], sizes[made]))
            elif isinstance(node, Spill | Load):
                spilled = isinstance(node, Spill)
                value = node.inputs[0] if spilled else first[index]
                for there, size in _held_on(graph.specs[spec[value]], sizes[value]):
                    ways = (there, "cpu") if spilled else ("cpu", there)
                    found.append(DeviceTransfer(index, segment.worker, *ways, size))
    return tuple(found)


def _held_on(spec: Spec, size: int) -> tuple[tuple[str, int], ...]:
    """Return the devices that hold a value, each with the value's bytes there."""
    if isinstance(spec, ContextSpec):
        return spec.per_device
    device = devices_of((spec,))[0]
    return () if device in ("", "cpu") else ((device, size),)
