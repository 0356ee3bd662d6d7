"""What runs of user Functions showed, in words: for errors that compare it with something.

Rules of this file: texts only, of what `functions.describe` returns. What is compared with what is the callers'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def spec_told(shape: Sequence[int], dtype: str) -> str:
    """Return an array in words: "float32[2, 3]"."""
    return f"{dtype}[{', '.join(str(extent) for extent in shape)}]"


def difference(expected: Any, shown: Any) -> str:
    """Return in what a run differed from what `expected` says of the first one: "output 0 is float32[1], and was
    float32[2]". Both are as `functions.describe` returns them."""
    (was, *saved_before, tuple_before, saving_before), (now, *saved, is_tuple, saving) = expected, shown
    if len(was) != len(now):
        return f"it returned {_count(len(now), 'output')}, and {len(was)} then"
    for number, (before, after) in enumerate(zip(was, now, strict=True)):
        if before != after:
            one, other = _output(after), _output(before)
            if one == other:
                if after[0] != "array":
                    return f"output {number} is another description of a nesting than it was"
                one, other = _sameness(after), _sameness(before)
            return f"output {number} is {one}, and was {other}"
    for what, before, after in zip(("arguments", "outputs"), saved_before, saved, strict=True):
        if before != after:
            return f"of its {what} it saved {_numbers(after)}, and {_numbers(before)} then"
    if is_tuple != tuple_before:
        return f"it returned {'a tuple' if is_tuple else 'no tuple'}, and {'one' if tuple_before else 'none'}"
    return f"it saved {'something' if saving else 'nothing'}, and {'something' if saving_before else 'nothing'} then"


def _output(kind: Sequence[Any]) -> str:
    """Return what an output is."""
    if kind[0] == "array":
        return spec_told(kind[1], kind[2])
    return "an object that is no tensor" if kind[0] == "object" else "what describes a nesting of tensors"


def _sameness(kind: Sequence[Any]) -> str:
    """Return what an array is beside its shape and dtype."""
    _, _, _, differentiable, twin, origin, *_ = kind
    flows = "" if differentiable else ", marked as non-differentiable"
    if twin >= 0:
        return f"the same tensor as output {twin}{flows}"
    if not origin:
        return f"a new tensor{flows}"
    what = {"same": "itself", "dirty": "changed in place", "view": "a view", "captured": "a captured tensor"}[origin[0]]
    of = f"argument {origin[1]} " if origin[1] >= 0 and origin[0] != "view" else ""
    return f"{of}{what}{f' of argument {origin[1]}' if origin[0] == 'view' and origin[1] >= 0 else ''}{flows}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers) or "none"
