"""What nodes ask of the workers that run them: `Function.resources`, and `rg.device`.

Rules of this file: from what users write to a graph's demands; who can meet them is the planner's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from raygrad.proto.graph import DEVICE, Demand

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
    if not isinstance(resources, Mapping):
        raise TypeError(f"{where} must map names to amounts, like {{'num_cpus': 2}}; got {resources!r}")
    needs: list[tuple[str, float]] = []
    for name, amount in cast("Mapping[Any, Any]", resources).items():
        if not isinstance(name, str) or isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"{where} must map names to amounts; got {name!r}: {amount!r}")
        if not isfinite(amount) or amount < 0:
            raise ValueError(f"{where}: the amount of '{name}' must be 0 or more, got {amount!r}")
        if not name or name.startswith(DEVICE):
            raise ValueError(f"{where}: '{name}' is no name of a resource; a device is asked for with rg.device")
        needs.append((name, float(amount)))
    return tuple(sorted(needs))


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
