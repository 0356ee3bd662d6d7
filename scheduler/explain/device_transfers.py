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
from ..placing.place import devices_of


class DeviceTransfer(NamedTuple):
    """One value that goes from a device to another."""

    node: int
    """The node that moves it; -1: it crosses from a worker to another, or comes from the client."""
    worker: int
    """Where it goes; -1: from the client to whoever reads it."""
    source: str
    target: str
    bytes: int


class FetchedArray(NamedTuple):
    """One array that left its device because the client read what a run kept there, or held it at the end."""

    node: int
    """The node that made it, or what held it; -1: one that no plan has, of user code that records on its worker."""
    worker: int
    """Where it was."""
    device: str
    bytes: int


def fetched_arrays(
    graph: Graph, told: Sequence[tuple[int, int, Sequence[tuple[str, int]]]]
) -> tuple[FetchedArray, ...]:
    """Return what of a run was brought to the client. `told` has, per value that was asked for, its id, its worker, and
    the device and bytes of each array that left its device for it."""
    maker: dict[int, int] = {}
    value = len(graph.externals)
    asked = {value for value, _, _ in told}
    for number, node in enumerate(graph.nodes if asked else ()):
        maker.update((one, number) for one in range(value, value + len(node.outputs)) if one in asked)
        value += len(node.outputs)
    return tuple([FetchedArray(maker.get(one, -1), worker, *left) for one, worker, lefts in told for left in lefts])


def device_transfers(
    graph: Graph, sizes: Sequence[int], residency: Sequence[int], plan: Plan, *, staged: bool = False
) -> tuple[DeviceTransfer, ...]:
    """Return what a plan moves, in plan order. O(nodes + edges).

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
    """Return the devices on which a value of so many bytes is, with its bytes there."""
    if isinstance(spec, ContextSpec):
        return spec.per_device
    device = devices_of((spec,))[0]
    return () if device in ("", "cpu") else ((device, size),)
