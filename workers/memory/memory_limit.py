"""The memory limiter of one call: reserves memory before each step, and counts what the step made.

Reserves what each step is expected to make, and has values evicted where that does not fit: for what was observed
before, plans leave memory, so that this is rare. A step whose Function was never observed is given the estimate for
those (`scheduler.model.unseen_function_bytes`) until it has run here. What a single step reads, makes and saves beyond
the limit is an error: that step passes the limit once, before anybody can know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from raygrad.errors import OverBudget
from raygrad.proto.ir.nodes import FunctionCall, Spill
from raygrad.proto.ir.program import Program, Step
from raygrad.proto.ir.specs import ArraySpec, ContextSpec, Spec, bytes_of
from raygrad.scheduler.model.memory_spaces import HOST
from raygrad.scheduler.model.unseen_function_bytes import UnseenFunctions

from ..values.placeholders import SpilledValue
from .accounting import MemoryAccount, shares_of


class MemoryReserver(Protocol):
    """The store, as far as a limiter asks it."""

    def reserve(self, nbytes: int, device: str, position: int, *, fixed: Collection[int], among: Iterable[int]) -> None:
        """Evict values until so many bytes fit."""

    def evictable(self, device: str, position: int, keep: Container[int], among: Iterable[int]) -> int:
        """Return the bytes that could be evicted."""
        ...


class ExpectedBytes(NamedTuple):
    """What a step makes, as far as it is known before it runs."""

    bytes: tuple[tuple[str, int], ...]
    """Per memory."""
    unseen: str
    """The name of its Function, if nobody knows what that makes or saves; else ""."""


def expected_bytes(program: Program) -> list[ExpectedBytes]:
    """Return what each step of a program is expected to make."""
    known: dict[int, list[tuple[str, int]]] = {}
    opening = len(program.steps) - 1 if program.open_base >= 0 else -1
    return [_expected(program, step, position == opening, known) for position, step in enumerate(program.steps)]


def _expected(program: Program, step: Step, opens: bool, known: dict[int, list[tuple[str, int]]]) -> ExpectedBytes:
    node = step.node
    sizes: dict[str, int] = {}
    unseen = opens
    for spec, slot in zip(node.outputs, step.outputs, strict=True):
        found = known.get(spec)
        if found is None:
            found = known[spec] = _sizes(program.specs[spec])
        for device, size in found:
            if size > 0:
                sizes[device] = sizes.get(device, 0) + size
            unseen = unseen or (size < 0 and slot >= 0 and isinstance(node, FunctionCall))
    return ExpectedBytes(tuple(sizes.items()), node.fn if unseen else "")


def _sizes(spec: Spec) -> list[tuple[str, int]]:
    """Return the bytes of a value per memory; -1 if they are not known."""
    if isinstance(spec, ArraySpec):
        return [(spec.device or HOST, bytes_of(spec))]
    if isinstance(spec, ContextSpec):
        held = spec.per_device
        return [(HOST, bytes_of(spec) - sum([size for _, size in held])), *held]
    return []


class MemoryLimiter:
    """Keeps one call within the limits.

    Args:
        limits: per limited memory, its bytes.
        program: what is run.
        slots: its values, as far as they are bound already.
        account: counts the bytes held.
        unseen: what Functions made here that were never observed before; kept by the worker.
        store: evicts values.
    """

    def __init__(
        self,
        limits: Sequence[tuple[str, int]],
        program: Program,
        slots: Sequence[Any],
        account: MemoryAccount,
        unseen: UnseenFunctions,
        store: MemoryReserver,
    ) -> None:
        self._limits = limits
        self._steps = program.steps
        self._slots = slots
        self._account = account
        self._unseen = unseen
        self._store = store
        self._expected = expected_bytes(program)
        self._filled: set[int] = set()
        """Slots that may hold memory."""
        self._note_filled()

    def _note_filled(self) -> None:
        self._filled.update([slot for slot, value in enumerate(self._slots) if value is not None])

    def before_inputs(self, sizes: Mapping[str, int]) -> None:
        """Reserve memory for what the call brings, before it is unpacked: bytes per memory."""
        self._reserve(0, sizes)

    def after_inputs(self, values: Sequence[Any], slots: Iterable[int]) -> None:
        """Count what the call brought, and bound to slots. It stays until the call ends."""
        self._account.add_inputs(values, [self._slots[slot] for slot in slots])
        self._note_filled()

    def before_step(self, position: int) -> None:
        """Reserve memory for what a step makes, and for what it reads that is on disk."""
        restored = self._restored(self._steps[position])
        expected = self._expected[position]
        need = dict(expected.bytes)
        if expected.unseen:
            read = Counter[str]()
            for device, size in (*self._read(position), *restored):
                read[device] += size
            for device, size in read.items():
                need[device] = max(need.get(device, 0), self._unseen.estimate(expected.unseen, size))
        for device, size in restored:
            need[device] = need.get(device, 0) + size
        self._reserve(position, need)

    def after_step(self, position: int) -> None:
        """Count what a step made, and no longer what it was the last to read.

        Raises:
            OverBudget: it does not fit, whatever else is evicted.
        """
        account, step = self._account, self._steps[position]
        before = sum(account.held.values())
        account.step_made(step, self._slots)
        self._filled.update([slot for slot in step.outputs if slot >= 0])
        name = self._expected[position].unseen
        if name:
            read = sum([size for _, size in self._read(position)])
            self._unseen.observe(name, read, sum(account.held.values()) - before)
        over = [(device, limit) for device, limit in self._limits if account.held.get(device, 0) > limit]
        for device, limit in over:
            made = frozenset(step.outputs) | frozenset(range(account.slots_before, len(self._slots)))
            least = account.held[device] - self._store.evictable(device, position, made, self._filled)
            if least > limit:
                raise OverBudget(device, limit, least)
        account.step_freed(step, self._slots)
        self._filled.difference_update(step.frees)
        if over:
            self._reserve(position + 1, {})

    def _read(self, position: int) -> list[tuple[str, int]]:
        """Return memory and bytes of each value in memory that a step reads."""
        values = [self._slots[slot] for slot in self._steps[position].node.inputs if slot >= 0]
        found = {(owner, device): size for value in values for owner, device, size in shares_of(value)}
        return [(device, size) for (_, device), size in found.items() if size]

    def _restored(self, step: Step) -> list[tuple[str, int]]:
        """Return memory and bytes of each value on disk that a step reads; one that spills it leaves it there."""
        if isinstance(step.node, Spill):
            return []
        values = [self._slots[slot] for slot in {*step.node.inputs} if slot >= 0]
        return [share for value in values if type(value) is SpilledValue for share in value.sizes]

    def _reserve(self, position: int, need: Mapping[str, int]) -> None:
        for device, _ in self._limits:
            self._store.reserve(need.get(device, 0), device, position, fixed=self._account.inputs, among=self._filled)
