"""What the tables of cases are made with: families, inputs, shapes, and how a function is called by its name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .check import Case

_rng = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    """Numbers around zero, none of them near zero, near another, or near a half."""
    count = math.prod(shape)
    spaced = np.linspace(-1.9, 2.1, max(count, 2))[:count] + 0.037
    return _rng.permutation(spaced).reshape(shape)


def positive(*shape: int) -> np.ndarray:
    return np.abs(real(*shape)) + 0.2


def unit(*shape: int) -> np.ndarray:
    return real(*shape) * 0.4


def above_one(*shape: int) -> np.ndarray:
    return positive(*shape) + 1.1


def complex_(*shape: int) -> np.ndarray:
    return real(*shape) + 1j * positive(*shape)


def ints(high: int, *shape: int) -> np.ndarray:
    return _rng.integers(0, high, shape)


def mask(*shape: int) -> np.ndarray:
    out = _rng.random(shape) > 0.5
    if out.size > 1:
        out.flat[0], out.flat[1] = True, False
    return out


FAMILIES: dict[str, list[Case]] = {}


def family(name: str) -> Any:
    cases: list[Case] = FAMILIES.setdefault(name, [])

    def add(label: str, run: Any, *inputs: np.ndarray, **options: Any) -> None:
        cases.append(Case(label, run, tuple([np.asarray(i) for i in inputs]), **options))

    return add


SHAPES = [(), (3,), (2, 3), (0, 2)]
PAIRS = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((2, 0), (1, 1))]
DIMS = [((), {}), ((3,), {}), ((2, 3), {}), ((2, 3), {"dim": 0}), ((2, 3), {"dim": -1, "keepdim": True})]
SEVERAL = [
    *DIMS,
    ((2, 3, 2), {"dim": (0, 2)}),
    ((2, 3, 2), {"dim": (-1, 0), "keepdim": True}),
    ((2, 3), {"dim": (0, 1)}),
]


def one(name: str) -> Any:
    """The function of that name, of one tensor."""
    return lambda T, x: getattr(T, name)(x)


def two(name: str) -> Any:
    """The function of that name, of two tensors."""
    return lambda T, a, b: getattr(T, name)(a, b)


def over(name: str, options: dict[str, Any]) -> Any:
    """The function of that name, of one tensor, with options."""
    return lambda T, x: getattr(T, name)(x, **options)
