"""Generators of NumPy and Python in user code: found by how code names them, without running it."""

from __future__ import annotations

import random
from functools import partial
from random import gauss
from typing import Any

import numpy as np
import pytest
from numpy.random import rand as numpy_rand

import raygrad as rg
from raygrad.workers.code.foreign_generators import foreign_generator_in

GENERATOR = np.random.default_rng(0)
SYSTEM = random.SystemRandom()


class Holder:
    """An object that holds a generator."""

    def __init__(self) -> None:
        self.generator = np.random.RandomState(0)

    def __call__(self) -> float:
        return self.generator.normal()


def imports_it() -> Any:
    import random

    return random.random()


def imports_from_it() -> Any:
    from numpy.random import randn

    return randn(2)


def helps() -> Any:
    return random.choice([1, 2])


DRAWS: dict[str, tuple[Any, str]] = {
    "numpy": (lambda: np.random.rand(3), "np.random.rand"),
    "python": (lambda: random.random(), "random.random"),
    "captured": (lambda: GENERATOR.random(), "a captured Generator"),
    "held": (Holder(), "a captured RandomState"),
    "method": (partial(GENERATOR.normal, 1.0), "a captured Generator"),
    "from numpy": (lambda: numpy_rand(2), "numpy_rand"),
    "inner": (lambda: [gauss(0, 1) for _ in range(3)], "gauss"),
    "helper": (lambda: helps(), "random.choice"),
    "imports": (imports_it, "random.random"),
    "imports from": (imports_from_it, "randn"),
}

DRAWS_NOT: dict[str, Any] = {
    "raygrad": lambda: rg.rand(3) + float(rg.generator().random()),
    "its own": lambda: np.random.default_rng(3).random() + np.random.Generator(np.random.PCG64(1)).random(),
    "system": lambda: SYSTEM.random(),
    "other names": lambda rand: rand.random() + np.ones(3).sum(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_code_that_draws_is_told_by_what_it_draws_from(name: str) -> None:
    code, expected = DRAWS[name]
    assert foreign_generator_in(code) == expected


@pytest.mark.oracle
def test_generators_of_torch_are_told() -> None:
    torch: Any = pytest.importorskip("torch")
    randn: Any = torch.randn
    own: Any = torch.Generator()
    assert foreign_generator_in(lambda: torch.rand(3)) == "torch.rand"
    assert foreign_generator_in(lambda: randn(3)) == "randn"
    assert foreign_generator_in(lambda: torch.nn.functional.dropout(torch.ones(3))) == "torch.nn.functional.dropout"
    assert foreign_generator_in(lambda: own.initial_seed()) == "a captured Generator"
    assert foreign_generator_in(lambda: torch.rand(3, generator=torch.Generator().manual_seed(3))) is None
    assert foreign_generator_in(lambda: torch.nn.functional.relu(torch.ones(3))) is None


@pytest.mark.parametrize("name", DRAWS_NOT)
def test_code_that_draws_what_it_may_is_not(name: str) -> None:
    assert foreign_generator_in(DRAWS_NOT[name]) is None
