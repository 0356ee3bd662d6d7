"""Numerics classes: strings that workers report, equal where the same node gives equal bits (H12).

Only their equality has a meaning here; `workers.process.numerics_class` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Numerics: TypeAlias = tuple[tuple[str, str], ...]
"""(kind of device, what decides over bits there)."""


def describe_differences(workers: Sequence[tuple[str, Numerics]]) -> str:
    """Return a description of the workers' numerics classes if there are several for one kind of device, else "".
    Workers that reported no class are ignored."""
    lines: list[str] = []
    for kind in dict.fromkeys(kind for _, classes in workers for kind, _ in classes):
        members: dict[str, list[str]] = {}
        for name, classes in workers:
            if kind in (mine := dict(classes)):
                members.setdefault(mine[kind], []).append(name)
        if len(members) > 1:
            lines += [f"{_some(names)}: {kind}, {name}" for name, names in members.items()]
    return "; ".join(lines)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
