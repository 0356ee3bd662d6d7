"""Arithmetic on bools: refused where PyTorch refuses it, with its builtin type of error, and of its dtype elsewhere."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg

from .outcomes import ALONG, IN_PLACE, KINDS, ONE, OPERATORS, TWO, UNARY_IN_PLACE, alike, applied, outcome

PAIRS = [("bool", kind) for kind in ("bool", "number", "integer", "two", "half", "float")] + [
    ("integer", "bool"),
    ("number", "bool"),
    ("float", "bool"),
    ("two", "bool"),
]

MORE = {
    "maximum minimum fmax fmin atan2 copysign logaddexp logaddexp2 hypot nextafter fmod eq ne lt le gt ge rsub where "
    "logical_and logical_or logical_xor clamp_min clamp_max dist cdist addcdiv addcmul addmm lerp matmul mm mv dot "
    "outer kron tensordot": "numbers are operands, too",
    "addmm": "what differs in dtype meets",
}
"""Of pairs, functions that take more than PyTorch's do, and why."""


def takes_more(name: str, kinds: tuple[str, ...]) -> bool:
    numbers = {"number", "two", "half"} & set(kinds)
    met = set(kinds) & {"integer", "float"}
    return any(name in names.split() and (met if "meets" in why else numbers) for names, why in MORE.items())


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["eager", "session"])
@pytest.mark.parametrize("name", [*ONE, *ALONG, *TWO, *OPERATORS, *IN_PLACE, *UNARY_IN_PLACE])
def test_bools_are_taken_and_refused_as_in_torch(name: str, where: str) -> None:
    torch: Any = pytest.importorskip("torch")
    wrong: list[str] = []

    def compare(what: str, run: Callable[[Any], Any]) -> None:
        with rg.Session() if where == "session" else contextlib.nullcontext():
            mine = outcome(lambda: run(rg))
        theirs = outcome(lambda: run(torch))
        if not alike(mine, theirs):
            wrong.append(f"{what}: {mine}, in torch {theirs}")

    if name in ONE:
        compare(name, lambda T: applied(T, name, "bool"))
    elif name in ALONG:
        compare(name, lambda T: getattr(T, name)(KINDS["bool"](T), 0))
    elif name in UNARY_IN_PLACE:
        compare(name, lambda T: getattr(KINDS["bool"](T), name)())
    else:
        for kinds in PAIRS:
            if name in TWO:
                if not takes_more(name, kinds):
                    compare(f"{name}{kinds}", lambda T, kinds=kinds: applied(T, name, *kinds))
            elif name in OPERATORS:
                if name == "matmul" and kinds != ("bool", "bool"):
                    continue
                compare(f"{name}{kinds}", lambda T, kinds=kinds: getattr(operator, name)(*[KINDS[k](T) for k in kinds]))
            elif kinds[0] in ("bool", "integer"):
                first, second = kinds
                compare(f"{name}{kinds}", lambda T, a=first, b=second: getattr(KINDS[a](T), name)(KINDS[b](T)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["topk", "kthvalue"])
def test_elements_are_not_chosen_among_bools(name: str) -> None:
    with pytest.raises(RuntimeError, match="bool"):
        getattr(rg, name)(rg.tensor([True, False]), 1)


def test_an_error_says_what_to_do() -> None:
    mask = rg.tensor([True, False])
    for run, what in (
        (lambda: mask - 1.0, r"`\^`|`~`|logical_not"),
        (lambda: mask.abs(), r"not implemented for bool.*\.to\("),
        (lambda: mask @ mask, r"not implemented for bool.*\.to\("),
        (lambda: mask**mask, r"not implemented for bool"),
    ):
        with pytest.raises(RuntimeError, match=what):
            run()
