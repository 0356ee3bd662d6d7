"""Arithmetic on bools: refused where PyTorch refuses it, with its builtin type of error, and of its dtype elsewhere."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

ONE = """
    abs absolute acos acosh aminmax angle argmax argmin argsort asin atan ceil conj cos cosh count_nonzero deg2rad det
    diff digamma erf erfc exp exp2 expm1 fix flip floor frac isfinite isinf isnan lgamma log log10 log1p log2
    logical_not logit max mean median min msort nanmean nanmedian nansum neg negative positive prod rad2deg real
    reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sort sqrt square std sum tan tanh trace
    tril triu trunc var bitwise_not isneginf isposinf isreal
""".split()
TWO = """
    add addcdiv addcmul addmm allclose atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    clamp_max clamp_min copysign div dot einsum eq float_power floor_divide fmax fmin fmod ge gt hypot isclose kron
    le lerp logaddexp logaddexp2 logical_and logical_or logical_xor lt matmul maximum minimum mm mul mv ne nextafter
    outer pow remainder sub subtract tensordot true_divide where xlogy dist cdist rsub
""".split()
OPERATORS = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul".split()
ALONG = "cumsum cumprod cummax cummin logsumexp logcumsumexp softmax log_softmax amax amin all any".split()
IN_PLACE = """
    add_ sub_ mul_ div_ floor_divide_ remainder_ fmod_ pow_ bitwise_and_ bitwise_or_ bitwise_xor_
""".split()
UNARY_IN_PLACE = "neg_ abs_ sign_ square_ exp_ sqrt_ floor_ ceil_ trunc_ round_ relu_ sigmoid_ zero_".split()

KINDS: dict[str, Callable[[Any], Any]] = {
    "bool": lambda T: T.tensor([[True, False], [True, True]]),
    "number": lambda T: True,
    "integer": lambda T: T.tensor([[1, 2], [3, 4]]),
    "two": lambda T: 2,
    "half": lambda T: 0.5,
    "float": lambda T: T.tensor([[1.0, 2.0], [0.5, 4.0]]),
}
PAIRS = [("bool", kind) for kind in KINDS] + [
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


def applied(T: Any, name: str, *kinds: str) -> Any:
    """The function of a name, of operands of these kinds."""
    values = [KINDS[kind](T) for kind in kinds]
    if name in ("dot", "outer"):
        values = [v[0] for v in values]
    elif name == "mv":
        values[1] = values[1][0]
    elif name in ("addcdiv", "addcmul", "addmm"):
        values.append(values[1])
    elif name == "where":
        return T.where(KINDS["bool"](T), *values)
    elif name == "lerp":
        values.append(0.5)
    elif name == "tensordot":
        values.append(1)
    elif name == "einsum":
        return T.einsum("ij,jk->ik", *values)
    return getattr(T, name)(*values)


def outcome(run: Callable[[], Any]) -> tuple[Any, ...]:
    """What comes out: dtypes and values, or the builtin type of the error."""
    try:
        result = run()
        found: list[Any] = []
        for one in result if isinstance(result, tuple | list) else [result]:
            array = np.asarray(one.tolist() if hasattr(one, "tolist") else one)
            found.append((str(getattr(one, "dtype", type(one))).removeprefix("torch."), array))
    except Exception as error:
        return ("error", next(c for c in type(error).__mro__ if c.__module__ == "builtins"))
    return tuple(found)


def alike(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    if "error" in (mine[0], theirs[0]):
        return mine[0] == theirs[0] and issubclass(mine[1], theirs[1])
    return len(mine) == len(theirs) and all(
        a == b and np.allclose(x, y, rtol=1e-6, equal_nan=True) for (a, x), (b, y) in zip(mine, theirs, strict=True)
    )


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
