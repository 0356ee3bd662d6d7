"""The catalogue of built-in ops, as the layers below it call it: the one lazy door of the room.

Ops are made by dispatch, and dispatch works on tensors; yet what dispatch, derivatives and accumulators do on the way
are ops in turn: a conversion, a transfer, a sum. They call these through `ops`, which `assembly` fills once the
catalogue is complete, before anything is computed. Layers above the ops import them from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

ops: Any = SimpleNamespace()
"""The functions of `raygrad.autograd.ops` by name."""


def fill(functions: Mapping[str, Any]) -> None:
    """Make the functions of the catalogue known to the layers below it."""
    ops.__dict__.update(functions)
