"""Observed signatures: outputs, aliases and saved values of a Function's run, which later runs have to match (H3).

The client records by the signature of the first run; a worker compares each later run with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

SAME: Final = "same"
"""An output is an argument, unchanged."""

DIRTY: Final = "dirty"
"""An output is an argument, changed in place."""

VIEW: Final = "view"
"""An output is a view of an argument."""

CAPTURED: Final = "captured"
"""An output is a tensor that requires grad and that the Function captured (OU-27)."""

Origin: TypeAlias = tuple[Any, ...]
"""The origin of an output: () if forward made it, else (SAME, DIRTY, VIEW or CAPTURED, the argument's position or -1
for a tensor that only forward knows). A view then has its place in the argument, () if there is none (OU-12)."""


class ObservedArray(NamedTuple):
    """An output that is a tensor."""

    shape: tuple[int, ...]
    dtype: str
    differentiable: bool
    twin: int
    """An earlier output that is the same tensor, or -1 (OU-08)."""
    origin: Origin
    device: str


class ObservedObject(NamedTuple):
    """An output that is no tensor."""


class ObservedFixed(NamedTuple):
    """An output that is no tensor and equal in each run: the description of a nesting of tensors."""

    pickled: bytes


ObservedOutput: TypeAlias = ObservedArray | ObservedObject | ObservedFixed


class ObservedSignature(NamedTuple):
    """The observed signature of a Function. Two are equal if the runs behaved alike."""

    outputs: tuple[ObservedOutput, ...]
    saved_inputs: tuple[int, ...]
    """Positions of the saved arguments, ascending."""
    saved_outputs: tuple[int, ...]
    as_tuple: bool
    """Whether forward returned a tuple."""
    saves: bool
    """Whether forward saved tensors."""

    @property
    def changed(self) -> frozenset[int]:
        """The arguments that forward changed in place."""
        origins = [output.origin for output in self.outputs if isinstance(output, ObservedArray)]
        return frozenset([origin[1] for origin in origins if origin[:1] == (DIRTY,)])

    def diff(self, other: ObservedSignature) -> str:
        """Return the first difference of a later run's signature `other`, in words: "output 0 is float32[1], and was
        float32[2]"."""
        if len(self.outputs) != len(other.outputs):
            return f"it returned {_count(len(other.outputs), 'output')}, and {len(self.outputs)} then"
        for number, (before, after) in enumerate(zip(self.outputs, other.outputs, strict=True)):
            if before != after:
                return f"output {number} {_difference(before, after)}"
        for what, before, after in (
            ("arguments", self.saved_inputs, other.saved_inputs),
            ("outputs", self.saved_outputs, other.saved_outputs),
        ):
            if before != after:
                return f"of its {what} it saved {_numbers(after)}, and {_numbers(before)} then"
        if other.as_tuple != self.as_tuple:
            returned, then = ("a tuple", "none") if other.as_tuple else ("no tuple", "one")
            return f"it returned {returned}, and {then}"
        return f"it saved {_something(other.saves)}, and {_something(self.saves)} then"


def array_text(shape: Sequence[int], dtype: str) -> str:
    """Return an array in words: "float32[2, 3]"."""
    return f"{dtype}[{', '.join(str(extent) for extent in shape)}]"


def _difference(before: ObservedOutput, after: ObservedOutput) -> str:
    one, other = _text(after), _text(before)
    if one == other:
        if not isinstance(before, ObservedArray) or not isinstance(after, ObservedArray):
            return "is another description of a nesting than it was"
        one, other = _sameness(after), _sameness(before)
    return f"is {one}, and was {other}"


def _text(output: ObservedOutput) -> str:
    """Return an output in words."""
    if isinstance(output, ObservedArray):
        return array_text(output.shape, output.dtype)
    fixed = isinstance(output, ObservedFixed)
    return "what describes a nesting of tensors" if fixed else "an object that is no tensor"


def _sameness(output: ObservedArray) -> str:
    """Return the origin and differentiability of an array in words."""
    flows = "" if output.differentiable else ", marked as non-differentiable"
    if output.twin >= 0:
        return f"the same tensor as output {output.twin}{flows}"
    if not output.origin:
        return f"a new tensor{flows}"
    relation, argument, *_ = output.origin
    what = {SAME: "itself", DIRTY: "changed in place", VIEW: "a view", CAPTURED: "a captured tensor"}[relation]
    if argument < 0:
        return f"{what}{flows}"
    return f"a view of argument {argument}{flows}" if relation == VIEW else f"argument {argument} {what}{flows}"


def _something(saves: bool) -> str:
    return "something" if saves else "nothing"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers) or "none"
