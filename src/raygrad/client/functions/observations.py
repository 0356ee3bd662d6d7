"""Observations: what runs of user code have shown a session so far.

Filled in by the run listener as records of runs arrive; recording user Functions and their backwards goes by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .deferred_signature import is_structure
from .numeric_arguments import NumericArguments, NumericRun, agree

if TYPE_CHECKING:
    from raygrad.proto.ir.nodes import ObservedGradients

    from .observed_signature import FunctionSignature


KEPT: Final = 1024
"""Entries of a table: code that captures what changes at each step has another key each time."""

K = TypeVar("K")
V = TypeVar("V")


class RecentTable(dict[K, V]):
    """A dict that forgets the entries which were made first once it has `KEPT`: calls that need one run first again."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > KEPT:
            del self[next(iter(self))]


class Observations:
    """The tables of one session."""

    def __init__(self) -> None:
        self.signatures: dict[Any, FunctionSignature] = RecentTable()
        """By key of a call, the signature of the Function (H3)."""
        self.numbers: dict[Any, NumericArguments] = RecentTable()
        """By key of a call without the values of its numbers, what runs with several of these have shown."""
        self.structures: dict[Any, FunctionSignature | None] = RecentTable()
        """By key of a structure (`structure_key`), a signature of calls that all return as many tensors; None if some
        have not."""
        self.gradients: dict[Any, ObservedGradients] = RecentTable()
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

    def waited(self, name: str, seconds: float) -> None:
        """Take note that recording waited for a run of a Function."""
        waits, before = self.first_runs.get(name, (0, 0.0))
        self.first_runs[name] = (waits + 1, before + seconds)

    def enter(
        self, where: Any, signature: FunctionSignature, general: Any, numbers: Sequence[Any], structure: Any = None
    ) -> None:
        """Enter what a run of a Function showed.

        Args:
            where: the key of the call.
            signature: what it showed.
            general: the key without the values of its numbers.
            numbers: these values.
            structure: the key of what the number of its outputs depends on, if other calls may go by that.
        """
        if structure is not None:
            known = self.structures.get(structure, signature)
            same = known is not None and is_structure(known) and is_structure(signature, like=known)
            self.structures[structure] = signature if same else None
        if numbers:
            others = self.numbers.get(general)
            if others is None:
                others = self.numbers[general] = NumericArguments(numbers)
            signature = others.observe(NumericRun(tuple(numbers), signature, where)).signature
        known = self.signatures.get(where)
        self.signatures[where] = known if known is not None and agree(known, signature) else signature
