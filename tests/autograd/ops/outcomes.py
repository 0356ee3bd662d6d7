"""What functions make of operands of other kinds than real numbers, held against what PyTorch does.

No tests; what `test_bools` and `test_complex_numbers` share. Errors are alike that are of the same
builtin type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    "complex64": lambda T: T.tensor([[1 + 2j, 0.5 - 1j], [-2 + 0.25j, 1.5j]], dtype=T.complex64),
    "complex128": lambda T: T.tensor([[1 + 2j, 0.5 - 1j], [-2 + 0.25j, 1.5j]], dtype=T.complex128),
    "imaginary": lambda T: 1 + 2j,
}


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


def alike(mine: tuple[Any, ...], theirs: tuple[Any, ...], rtol: float = 1e-6, atol: float = 1e-8) -> bool:
    """Tell whether two outcomes agree."""
    if "error" in (mine[0], theirs[0]):
        return mine[0] == theirs[0] and issubclass(mine[1], theirs[1])
    return len(mine) == len(theirs) and all(
        a == b and x.shape == y.shape and np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
        for (a, x), (b, y) in zip(mine, theirs, strict=True)
    )
