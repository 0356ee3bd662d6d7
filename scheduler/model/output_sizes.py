"""Predicted bytes of the values that a program leaves behind: the objects that it returns, and the values that it pins.

The simulator accounts for memory with them.
"""

from __future__ import annotations

from raygrad.proto.ir.program import Program

from .costs import Costs


def export_bytes(program: Program, costs: Costs) -> tuple[int, ...]:
    """Return the predicted bytes of each object that a program returns."""
    size = _made_bytes(program, costs)
    return tuple(sum(size[slot] for slot in slots) for slots in program.exports)


def pin_bytes(program: Program, costs: Costs) -> list[tuple[int, int]]:
    """Return (value id, predicted bytes) of each value that a program leaves pinned."""
    if not program.pins:
        return []
    size = _made_bytes(program, costs)
    return [(value, size[slot]) for slot, value in program.pins]


def _made_bytes(program: Program, costs: Costs) -> dict[int, int]:
    """Return, by slot, the predicted bytes of what the steps of a program make and its end still needs."""
    wanted = {slot for slots in program.exports for slot in slots}
    wanted.update(slot for slot, _ in program.pins)
    return {
        slot: costs.value_bytes(program.specs[spec])
        for step in program.steps
        for slot, spec in zip(step.outputs, step.node.outputs, strict=True)
        if slot in wanted
    }
