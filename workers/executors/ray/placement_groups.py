"""Validation of a Ray placement group against the workers of a session, before they start.

It refuses only what Ray would wait for in vain, or refuse in words that do not name the session's options."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

_NAMES: Final = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
"""By option of an actor, the name of the resource in a bundle."""
ROUNDING: Final = 1e-4
"""Ray counts fractions of a resource to four places."""


def check_type(group: Any) -> None:
    """Check that something is a placement group.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(group, importlib.import_module("ray.util.placement_group").PlacementGroup):
        raise TypeError(
            "Session(placement_group=...) takes a placement group of Ray's (ray.util.placement_group), got "
            f"{group!r} ({type(group).__name__})"
        )


def check_placement(group: Any, options: Sequence[Mapping[str, Any]]) -> None:
    """Check that a placement group has a bundle for each worker, with the resources that it requests.

    Raises:
        TypeError: it is none.
        ValueError: it was removed, or it has too few bundles, or one of them has less than its worker asks for.
    """
    check_type(group)
    known = importlib.import_module("ray.util.placement_group")
    if known.placement_group_table(group).get("state") == "REMOVED":
        raise ValueError("Session(placement_group=...): the group was removed; make another")
    bundles: list[Mapping[str, float]] = group.bundle_specs
    if len(bundles) < len(options):
        raise ValueError(
            f"Session(placement_group=...): each worker takes a bundle, worker i takes bundle i; there are "
            f"{len(options)} workers, and the group has {len(bundles)}: ask for fewer with Session(workers=...), or "
            "make a group of more"
        )
    for number, (own, bundle) in enumerate(zip(options, bundles, strict=False)):
        for name, amount in requested_resources(own).items():
            if amount > bundle.get(name, 0.0) + ROUNDING:
                raise ValueError(
                    f"Session(placement_group=...): worker {number} asks for {name} {amount:g}, and bundle {number} of "
                    f"the group has {dict(bundle)}: ask for less with Session(gpus=..., worker_options=...), or put "
                    "more in that bundle"
                )


def requested_resources(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the resources that an actor with these options requests, under the names of bundles."""
    asked = {_NAMES[name]: float(options[name]) for name in _NAMES if options.get(name)}
    more: Mapping[str, Any] = options.get("resources") or {}
    return {**asked, **{name: float(amount) for name, amount in more.items()}}
