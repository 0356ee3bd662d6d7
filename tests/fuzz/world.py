"""Guesses what the tensors of a random program are while it is made, so that most of its steps fit.

What is known of a tensor, and how one is drawn. One draw in `WILD` does not ask whether it fits. A
wrong guess costs nothing: the libraries say what a program means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

WILD = 25
NUMBERS = [2.0, 0.5, -1.0, 3.0, 2, 0.0]


class Sketch(NamedTuple):
    """What is guessed of a tensor.

    Attributes:
        needs: it requires grad.
        stuck: it is a leaf that requires grad, or a view of one: not to be changed in place with recording on.
    """

    shape: tuple[int, ...]
    dtype: str
    needs: bool
    leaf: bool
    stuck: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class NoneFits(Exception):
    """No tensor is there for the kind of step that was drawn: another is made."""


class World:
    """The tensors made so far, and what the draws are made with."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self.tensors: list[Sketch] = []
        self.grad = True
        self.depth = 0

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def below(self, n: int) -> int:
        return self._draw(_BELOW[n]) if n < len(_BELOW) else self._draw(st.integers(0, n - 1))

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def rarely(self, n: int) -> bool:
        """Say yes once in `n`."""
        return self.below(n) == n - 1

    def tensor(self, fits: Callable[[Sketch], bool] | None = None) -> int:
        """Return the number of a tensor that fits, the newest ones more often.

        Raises:
            NoneFits: there is none.
        """
        candidates: Sequence[int] = range(len(self.tensors))
        if self.below(3):
            candidates = [i for i in candidates if self.tensors[i].needs] or candidates
        if fits is not None and not self.rarely(WILD):
            candidates = [i for i in candidates if fits(self.tensors[i])] or [
                i for i, sketch in enumerate(self.tensors) if fits(sketch)
            ]
            if not candidates:
                raise NoneFits
        newest = candidates[-3:]
        return self.one(newest if self.below(3) else candidates)

    def dim(self, rank: int) -> int:
        if self.rarely(WILD):
            return rank
        return self.below(2 * rank) - rank if rank else 0

    def permutation(self, rank: int) -> tuple[int, ...]:
        left = list(range(rank))
        return tuple(left.pop(self.below(len(left))) for _ in range(rank))

    # ---- guessing ----------------------------------------------------------------------------------------------------

    def made(self, shape: tuple[int, ...], dtype: str, *sources: Sketch, stuck: bool = False) -> None:
        differentiable = dtype[0] in "fc"
        needs = self.grad and differentiable and any(source.needs for source in sources)
        self.tensors.append(Sketch(tuple(shape), dtype, needs, not needs, stuck))

    def like(self, shape: tuple[int, ...], *sources: Sketch) -> None:
        dtype = sources[0].dtype
        for source in sources[1:]:
            dtype = np.promote_types(dtype, source.dtype).name
        self.made(shape, dtype, *sources)


_BELOW = [st.just(0), *(st.integers(0, n - 1) for n in range(1, 64))]


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
