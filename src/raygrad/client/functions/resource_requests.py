"""Resource requests: `Function.resources` and `Function.devices`, as demands of graph nodes on their workers.

Collected when user code is shipped, entered into the graph at submission; the planner decides which worker meets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from raygrad.autograd.dispatch.device_dispatch import kinds_of
from raygrad.proto.ir.graph import DEVICE, Demand
from raygrad.proto.ir.nodes import ROLE_FUNCTION, ROLE_HOOK, device_in
from raygrad.proto.ir.specs import ArraySpec, ContextSpec

from ..options import amounts

if TYPE_CHECKING:
    from ..recording.records import Constant, NodeRecord

Needs = tuple[tuple[str, float], ...]


class ResourceRequest(NamedTuple):
    """What a Function asks for."""

    name: str
    needs: Needs


def declares_request(function: type[Any]) -> bool:
    """Tell whether a class says something of resources or devices: what is in it may change at any time."""
    return getattr(function, "resources", None) is not None or getattr(function, "devices", None) is not None


def requested_by(function: type[Any]) -> Needs:
    """Return what a Function's `resources` and `devices` ask for, sorted by name: of `devices` only what is none of the
    host, which each worker has.

    Raises:
        TypeError: `resources` are no mapping from names to numbers, `devices` no sequence of names.
        ValueError: an amount is negative or not finite, or a name is empty or that of a device; or a device is none.
    """
    resources: Any = getattr(function, "resources", None)
    needs = {} if resources is None else amounts(f"{function.__name__}.resources", resources, _no_device)
    kinds = kinds_of(function)
    if kinds and "cpu" not in kinds:
        needs[DEVICE + kinds[0]] = 1.0
    return tuple(sorted(needs.items()))


def _no_device(name: str) -> str:
    return "is no name of a resource; a device is named in `devices`" if name.startswith(DEVICE) else ""


_USER_CODE: Final = frozenset({ROLE_FUNCTION, ROLE_HOOK})


def demands_of(records: Sequence[NodeRecord], requests: Mapping[str, ResourceRequest]) -> tuple[Demand, ...]:
    """Return what the nodes of a graph ask for: Functions what they declare, and user code recorded in the block of a
    device that device, on which its factories make tensors, unless it works on another."""
    demands: list[Demand] = []
    for index, record in enumerate(records):
        work: Any = record.work
        if work.role not in _USER_CODE:
            continue
        name, needs = requests.get(work.fn, ("", ()))
        device = device_in(work.settings) if work.settings else ""
        if device and _may_work_on(record, device):
            needs = tuple(sorted([*needs, (DEVICE + device, 1.0)]))
        if needs:
            demands.append(Demand(index, name, needs))
    return tuple(demands)


def _may_work_on(record: NodeRecord, device: str) -> bool:
    """Tell whether a node has values of no other device than this and the host."""
    entries = list(record.outputs)
    for source in record.sources:
        if type(source) is tuple:
            entries.append(source[0].outputs[source[1]])
        elif source is not None:
            entries.append(cast("Constant", source).spec)
    specs = [entry.spec for entry in entries]
    on = {spec.device for spec in specs if isinstance(spec, ArraySpec)}
    on.update([there for spec in specs if isinstance(spec, ContextSpec) for there, _ in spec.per_device])
    return on <= {"cpu", device}
