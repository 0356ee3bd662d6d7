"""Nodes of built-in ops: the call, and the vjp that reads its residuals.

The recorder makes calls, backward passes make vjps. The codec alone knows the places of their fields on the wire.
"""

from __future__ import annotations

from typing import NamedTuple

from .node_base import ROLE_OP, Ids, distinct


@distinct
class OpCall(NamedTuple):
    """A built-in op on its operands, in declared order."""

    inputs: Ids
    """Tensors and constants; UNDEFINED for an operand that is absent."""
    outputs: Ids
    """Spec index of each output; their value ids follow those of the node before."""
    pin: int
    """Index of the worker that the user asked for, or -1."""
    near: int
    """A value id: the node must run on the worker that makes (or holds) that value; UNDEFINED for none."""
    fn: str
    """The op's name."""
    params: tuple[object, ...]
    """Static parameters, passed after the operands."""

    role = ROLE_OP
    depth = 0


@distinct
class OpVjp(NamedTuple):
    """The vjp of a built-in op: reads the residuals that the op declares, in declared order, then one cotangent per
    output of the op; makes one gradient per wanted operand."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    params: tuple[object, ...]
    """Static parameters of the op."""
    wanted: tuple[int, ...]
    """Per operand, 1 if its gradient is wanted."""
    operand_specs: tuple[int, ...]
    """Per operand its spec index, -1 of what is no array."""
    result_specs: tuple[int, ...]
    """Spec index of each output of the op."""

    role = ROLE_OP
    depth = 1
