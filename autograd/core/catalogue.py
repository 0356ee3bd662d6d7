"""Lazy access to the catalogue of built-in ops, for the layers below it.

Dispatch, derivatives and accumulators apply ops themselves (a conversion, a transfer, a sum), though ops are built on
dispatch. They call them through `ops`, which `assembly` fills before anything is computed. Layers above the ops import
them from `ops/`.
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
