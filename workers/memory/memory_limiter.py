"""Keeping what values hold on a worker within its limits while a call runs, where the plan could not know of them.

Rules of this file: when something has to make way, and for how much; what that is, is decided in `parking`, and it is
put away by `making_way`. A plan goes by what Functions saved before, so nothing happens here for what has run. Of a
Function that was never run, or saves more than it did, what it makes is expected to be as much, for the bytes that it
reads, as it was here before. What a node needs by itself beyond the limit is an error: it is passed once, by
that node, before anybody can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from raygrad.errors import OverBudget
from raygrad.proto.ir.nodes import FunctionCall
from raygrad.proto.ir.program import Program, Step
from raygrad.proto.ir.specs import ArraySpec, ContextSpec, Spec, bytes_of

from ..values.memory_accounting import HOST, Scales, shares_of
from .eviction import MakingWay

GUESS: Final = 8
"""What a Function makes that was never run here is expected to be up to this many times the bytes that it reads."""
AT_ONCE: Final = 8
"""Whenever something has to make way, this part of the limit does besides, so that it does not happen at every step."""


class Expected(NamedTuple):
    """What a step makes, as far as it is known before."""

    bytes: tuple[tuple[str, int], ...]
    """Per memory."""
    unknown: str
    """The Function of which nobody knows what it makes or saves, if it is one."""


def expected_of(program: Program) -> list[Expected]:
    """Return what each step of a program is expected to make."""
    known: dict[int, list[tuple[str, int]]] = {}
    opening = len(program.steps) - 1 if program.open_base >= 0 else -1
    return [_expected(program, step, position == opening, known) for position, step in enumerate(program.steps)]


def _expected(program: Program, step: Step, opens: bool, known: dict[int, list[tuple[str, int]]]) -> Expected:
    node = step.node
    sizes: dict[str, int] = {}
    unknown = opens
    for spec, slot in zip(node.outputs, step.outputs, strict=True):
        found = known.get(spec)
        if found is None:
            found = known[spec] = _sizes(program.specs[spec])
        for device, size in found:
            if size > 0:
                sizes[device] = sizes.get(device, 0) + size
            unknown = unknown or (size < 0 and slot >= 0 and isinstance(node, FunctionCall))
    return Expected(tuple(sizes.items()), node.fn if unknown else "")


def _sizes(spec: Spec) -> list[tuple[str, int]]:
    """Return in which memories a value is, and its bytes there; -1 if they are not known."""
    if isinstance(spec, ArraySpec):
        return [(spec.device or HOST, bytes_of(spec))]
    if isinstance(spec, ContextSpec):
        held = spec.per_device
        return [(HOST, bytes_of(spec) - sum([size for _, size in held])), *held]
    return []


class Within:
    """Watches over one call.

    Args:
        limits: per memory that is limited, its bytes.
        program: what is run.
        slots: the values of it, as far as they are on the worker already.
        scales: counts what is held.
        seen: per Function that ran here, how many bytes it made at most for each that it read; kept by the worker.
        gives: has values wait on disk.
    """

    def __init__(
        self,
        limits: Sequence[tuple[str, int]],
        program: Program,
        slots: Sequence[Any],
        scales: Scales,
        seen: dict[str, float],
        gives: MakingWay,
    ) -> None:
        self._limits = limits
        self._steps = program.steps
        self._slots = slots
        self._scales = scales
        self._seen = seen
        self._gives = gives
        self._expected = expected_of(program)
        self._full: set[int] = set()
        """Slots that may hold memory."""
        self._stays: frozenset[int] = frozenset()
        """The owners of memory that nothing makes way of."""
        self._note_full()

    def _note_full(self) -> None:
        self._full.update([slot for slot, value in enumerate(self._slots) if value is not None])

    def welcome(self, sizes: Mapping[str, int]) -> None:
        """Make room for what the call brings, before it is taken in: bytes per memory."""
        self._have_room(0, sizes)

    def brought(self, values: Sequence[Any], slots: Iterable[int]) -> None:
        """Count what the call brought, and put into slots. It is there until the call ends."""
        self._scales.bring(values, [self._slots[slot] for slot in slots])
        self._stays = self._scales.brought
        self._note_full()

    def begin(self, position: int, away: Sequence[tuple[str, int]]) -> None:
        """Make room for what a step makes, and for what is brought from disk for it: per value, memory and bytes."""
        expected = self._expected[position]
        need = dict(expected.bytes)
        if expected.unknown:
            factor = self._seen.get(expected.unknown, GUESS)
            read: dict[str, int] = {}
            for device, size in self._read(position, away):
                read[device] = read.get(device, 0) + size
            for device, size in read.items():
                need[device] = max(need.get(device, 0), int(factor * size))
        for device, size in away:
            need[device] = need.get(device, 0) + size
        self._have_room(position, need)

    def weigh(self, position: int) -> None:
        """Count what a step has made, and let go of what it was the last to read.

        Raises:
            OverBudget: it does not fit, whatever else makes way.
        """
        scales, step = self._scales, self._steps[position]
        before = sum(scales.held.values())
        scales.made(step, self._slots)
        self._full.update([slot for slot in step.outputs if slot >= 0])
        name = self._expected[position].unknown
        if name:
            read = sum([size for _, size in self._read(position, ())])
            factor = (sum(scales.held.values()) - before) / max(read, 1)
            self._seen[name] = max(self._seen.get(name, 0.0), factor)
        over = [(device, limit) for device, limit in self._limits if scales.held.get(device, 0) > limit]
        for device, limit in over:
            made = frozenset(step.outputs) | frozenset(range(scales.opened_before, len(self._slots)))
            least = scales.held[device] - self._gives.spare(device, position, made, self._full)
            if least > limit:
                raise OverBudget(device, limit, least)
        scales.freed(step, self._slots)
        self._full.difference_update(step.frees)
        if over:
            self._have_room(position + 1, {})

    def _read(self, position: int, away: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return, per value that a step reads, its memory and its bytes."""
        values = [self._slots[slot] for slot in self._steps[position].node.inputs if slot >= 0]
        found = {(owner, device): size for value in values for owner, device, size in shares_of(value)}
        return [*[(device, size) for (_, device), size in found.items() if size], *away]

    def _have_room(self, position: int, need: Mapping[str, int]) -> None:
        """Have values make way that the step at a position does not read, until so many bytes have room per memory."""
        held, gives = self._scales.held, self._gives
        for device, limit in self._limits:
            target = limit - need.get(device, 0)
            want = held.get(device, 0) - target + limit // AT_ONCE
            while held.get(device, 0) > target:
                if not gives.leave(device, position, want, stays=self._stays, among=self._full):
                    if gives.failed is not None:
                        raise gives.failed
                    break
