"""Chaos: faults that happen to the workers of a session at chosen points, so that a program can be tried under them.

    with rg.Session("ray", workers=2) as session, rg.chaos.inject(session, rg.chaos.Kill(0, rg.chaos.Point("node", 7))):
        train(session)

- `faults.py`: what can happen, and where.
- `drawing.py`: faults drawn from a seed.
- `worker_faults.py`: the part that runs on a worker, which imports nothing of the client.
- `injection.py`: the part that runs in the program.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .drawing import RECOVERABLE, draw
from .faults import Delay, DropReply, Fault, InjectedError, Kill, Point, Raise, Stop

if TYPE_CHECKING:
    from .injection import Happened, Injected, inject

__all__ = [
    "RECOVERABLE", "Delay", "DropReply", "Fault", "Happened", "Injected", "InjectedError", "Kill", "Point", "Raise",
    "Stop", "draw", "inject",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("Happened", "Injected", "inject"):
        return getattr(importlib.import_module("raygrad.chaos.injection"), name)
    raise AttributeError(f"module 'raygrad.chaos' has no attribute '{name}'; there are: {', '.join(__all__)}")
