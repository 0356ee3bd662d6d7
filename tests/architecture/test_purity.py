"""What `lint-imports` cannot see of the pure rooms: NumPy's randomness, imports by name, and tests that wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDED = {"scheduler/simulation/simulate.py": {"default_rng"}}
"""Beside the type of a generator that is passed in: `simulate` makes one of a seed."""


def chance(source: str) -> Iterator[str]:
    """What a source file takes of NumPy's randomness."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=name):
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("numpy"):
                for alias in names:
                    if module.startswith("numpy.random") or alias.name == "random":
                        yield f"import of {alias.name}"
            case ast.Import(names=names):
                yield from (f"import of {alias.name}" for alias in names if alias.name.startswith("numpy.random"))
            case _:
                pass


def called(source: str) -> Iterator[str]:
    """The names of functions that a source file calls."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                yield name
            case _:
                pass


def test_chance_and_calls_are_found():
    assert list(chance("import numpy as np\nnp.random.rand(3)")) == ["rand"]
    assert list(chance("def f():\n from numpy.random import default_rng")) == ["import of default_rng"]
    assert list(chance("from numpy import random")) == ["import of random"]
    assert list(called("import time\ntime.sleep(1)")) == ["sleep"]


@pytest.mark.parametrize("room", ["scheduler", "proto"])
def test_a_pure_room_takes_no_chance_but_what_it_is_given(room: str):
    for path in (ROOT / room).rglob("*.py"):
        name = str(path.relative_to(ROOT))
        assert set(chance(path.read_text())) <= {"Generator"} | SEEDED.get(name, set()), name


@pytest.mark.parametrize("room", ["scheduler", "proto"])
def test_a_pure_room_imports_nothing_by_name(room: str):
    for path in (ROOT / room).rglob("*.py"):
        assert not {"import_module", "__import__", "exec", "eval"} & set(called(path.read_text())), path


@pytest.mark.parametrize("room", ["scheduler", "proto", "report"])
def test_tests_of_a_pure_room_never_sleep(room: str):
    for path in (ROOT / "tests" / room).rglob("*.py"):
        assert not {"sleep", "wait_for", "perf_counter", "monotonic"} & set(called(path.read_text())), path
