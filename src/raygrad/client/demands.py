"""What nodes ask of the workers that run them: `Function.resources`, and `rg.device`.

Rules of this file: from what users write to a graph's demands; who can meet them is the planner's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.proto.graph import DEVICE, Demand

from .options import amounts

if TYPE_CHECKING:
    from .records import NodeRecord

Needs = tuple[tuple[str, float], ...]


class Pin(NamedTuple):
    """Where what is recorded is to run."""

    worker: int
    device: str


class Asked(NamedTuple):
    """What a Function asks for."""

    name: str
    needs: Needs


def asked_of(function: type[Any]) -> Needs:
    """Return what a Function's `resources` ask for, sorted by name.

    Raises:
        TypeError: they are no mapping from names to numbers.
        ValueError: an amount is negative or not finite, or a name is empty or that of a device.
    """
    resources: Any = getattr(function, "resources", None)
    if resources is None:
        return ()
    where = f"{function.__name__}.resources"
    return tuple(sorted(amounts(where, resources, _no_device).items()))


def _no_device(name: str) -> str:
    return "is no name of a resource; a device is asked for with rg.device" if name.startswith(DEVICE) else ""


def demands_of(records: Sequence[NodeRecord], asked: Mapping[str, Asked]) -> tuple[Demand, ...]:
    """Return what the nodes of a graph ask for."""
    demands: list[Demand] = []
    for index, record in enumerate(records):
        name, needs = asked.get(record.fn, ("", ()))
        pin = record.pin
        if isinstance(pin, Pin) and pin.device:
            needs = (*needs, (DEVICE + pin.device, 1.0))
        if needs:
            demands.append(Demand(index, name, needs))
    return tuple(demands)
