"""Comparison of results of both libraries by OpInfo's tolerances: structure, dtype, shape and numbers."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import raygrad as rg

from .translate import to_torch


class Disagreement(Exception):
    """Two results that differ, and in what."""


def flat(result: Any) -> list[Any]:
    """Return the tensors and other values of a result, containers opened."""
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in flat(item)]
    if isinstance(result, dict):
        return [leaf for item in result.values() for leaf in flat(item)]
    return [result]


EXACT = frozenset({"copysign", "frexp", "msort", "nextafter", "sort", "topk"})
"""Entries whose results (not gradients) no rounding touches: a neighbour of the right number is wrong."""


def tolerances(info: Any, dtype: torch.dtype) -> tuple[float, float] | None:
    """Return the widest (rtol, atol) that an entry states for a dtype, not below the default; None for the default."""
    default = {torch.float64: (1e-7, 1e-7), torch.complex128: (1e-7, 1e-7), torch.float32: (1.3e-6, 1e-5)}
    if dtype not in default:
        return None
    rtol, atol = default[dtype]
    for item in info.decorators or ():
        for decorator in getattr(item, "decorators", (item,)):
            if type(decorator).__name__ == "toleranceOverride":
                given = decorator.d.get(dtype)
                if given is not None:
                    rtol, atol = max(rtol, given.rtol), max(atol, given.atol)
    return rtol, atol


def same(
    expected: Any, got: Any, within: tuple[float, float] | None, drawn: bool = False, what: str = "result"
) -> None:
    """Compare a result of torch's with raygrad's.

    Args:
        expected, got: tensors, numbers, or containers of them.
        within: (rtol, atol), None for the default of the dtype.
        drawn: the numbers are random, and only dtype and shape are compared.
        what: what is compared, for the message.

    Raises:
        Disagreement: they differ.
    """
    wanted, made = flat(expected), flat(got)
    if len(wanted) != len(made):
        raise Disagreement(f"{what}: {len(wanted)} values, got {len(made)}")
    for position, (one, other) in enumerate(zip(wanted, made, strict=True)):
        _same_leaf(one, other, within, drawn, f"{what} {position}" if len(wanted) > 1 else what)


def _same_leaf(one: Any, other: Any, within: tuple[float, float] | None, drawn: bool, what: str) -> None:
    if not isinstance(one, torch.Tensor):
        if isinstance(other, rg.Tensor) or (one != other and not (one != one and other != other)):
            raise Disagreement(f"{what}: {one!r}, got {other!r}")
        return
    if not isinstance(other, rg.Tensor):
        raise Disagreement(f"{what}: a tensor, got {type(other).__name__}")
    one, other = one.detach(), to_torch(other)
    if tuple(one.shape) != tuple(other.shape):
        raise Disagreement(f"{what}: shape {tuple(one.shape)}, got {tuple(other.shape)}")
    if one.dtype != other.dtype:
        raise Disagreement(f"{what}: dtype {one.dtype}, got {other.dtype}")
    if drawn:
        return
    options: dict[str, Any] = {} if within is None or one.dtype.itemsize < 4 else {"rtol": within[0], "atol": within[1]}
    try:
        torch.testing.assert_close(other, one, equal_nan=True, **options)
    except AssertionError as error:
        raise Disagreement(f"{what}: {' '.join(str(error).split())[:200]}") from None


def same_gradients(expected: Sequence[Any], got: Sequence[Any], within: Any, what: str) -> None:
    """Compare gradients; one that is undefined agrees with zeros.

    Raises:
        Disagreement: they differ.
    """
    for position, (one, other) in enumerate(zip(expected, got, strict=True)):
        where = f"{what} {position}"
        if one is None and other is None:
            continue
        if one is None or other is None:
            there: Any = one if other is None else to_torch(other)
            if there.count_nonzero():
                raise Disagreement(f"{where}: {'undefined' if one is None else 'defined'}, got the contrary")
            continue
        same(one, other, within, what=where)
