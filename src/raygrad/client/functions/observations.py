"""Observations: what runs of user code have shown a session so far.

Filled in by the run listener as records of runs arrive; recording user Functions and their backwards goes by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raygrad.proto.ir.nodes import ObservedGradients

    from .observed_signature import FunctionSignature


class Observations:
    """The tables of one session."""

    def __init__(self) -> None:
        self.signatures: dict[Any, FunctionSignature] = {}
        """By key of a call, the signature of the Function (H3)."""
        self.gradients: dict[Any, ObservedGradients] = {}
        """By key of a vjp, which gradients proved undefined, and which require grad (H5, H7)."""
        self.leaf_effects: dict[str, int] = {}
        """By code fingerprint, what user code might do with the `.grad` of leaves."""
        self.backward_effects: dict[str, int] = {}
        """By user Function, what its backward does with its context (CX-11, DR-05)."""
        self.generation = 0
        """Incremented whenever a run shows something new of the backward of a user Function."""
        self.first_runs: dict[str, tuple[int, float]] = {}
        """By user Function without an `infer`, how often and for how many seconds recording waited for a run (H3)."""
        self.client_hooks: dict[str, int] = {}
        """By hook that passes called in this process (`client=True`), how often (DR-06)."""
