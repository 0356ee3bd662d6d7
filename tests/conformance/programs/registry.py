"""What a program is, and the registry of all of them.

A program is a plain function `(T, log)` that is run with `T = torch` and with `T = raygrad` and has to mean the same.
It returns tensors, None and Python values, nested as it likes. `log(name, value)` is called from Functions and hooks
only: they are the code that may run elsewhere. Its docstring says, in a line, what it would catch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

Log = Callable[[str, Any], None]
Run = Callable[[Any, Log], Any]

TAGS = frozenset({"numpy", "multi_output", "create_graph", "read_between", "trains", "infer"})
"""What a program is counted as; `test_coverage` checks each claim against the program's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program of the suite.

    Attributes:
        run: the function `(T, log)`.
        ids: the behaviours that it shows: ids of the semantics and of the design's hard cases.
        tags: what it is counted as, out of TAGS.
        torch: it is valid under torch, too.
        errors: the exception that it ends with, if it does.
        rtol: relative tolerance against torch by dtype; all else is compared exactly.
        eager_only: why it does not hold in a session; empty if it does. docs/compatibility.md shows the reason.
    """

    run: Run
    ids: tuple[str, ...]
    tags: frozenset[str]
    torch: bool
    errors: type[BaseException] | None
    rtol: dict[str, float]
    eager_only: str = ""

    @property
    def name(self) -> str:
        return self.run.__name__


PROGRAMS: dict[str, Program] = {}


def program(
    *ids: str,
    tags: Collection[str] = (),
    torch: bool = True,
    errors: type[BaseException] | None = None,
    rtol64: float = 1e-10,
    rtol32: float = 1e-5,
    rtol16: float = 2e-3,
    eager_only: str = "",
) -> Callable[[Run], Run]:
    """Register the decorated function as a program.

    Raises:
        ValueError: a tag is not one of TAGS, or two programs have one name.
    """
    if unknown := set(tags) - TAGS:
        raise ValueError(f"unknown tags: {sorted(unknown)}")

    def register(run: Run) -> Run:
        if run.__name__ in PROGRAMS:
            raise ValueError(f"two programs are called {run.__name__}")
        PROGRAMS[run.__name__] = Program(
            run=run,
            ids=ids,
            tags=frozenset(tags),
            torch=torch,
            errors=errors,
            rtol={"float64": rtol64, "float32": rtol32, "float16": rtol16},
            eager_only=eager_only,
        )
        return run

    return register


def values(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return an array of normal numbers, the same at each call."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def leaf(T: Any, *shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return `values` as a leaf that requires grad."""
    return T.tensor(values(*shape, seed=seed, dtype=dtype), requires_grad=True)


def constant(T: Any, *shape: int, seed: int = 100, dtype: str = "float64") -> Any:
    """Return `values` as a tensor that does not require grad."""
    return T.tensor(values(*shape, seed=seed, dtype=dtype))


@contextmanager
def raises(kind: type[BaseException], *keywords: str) -> Generator[list[BaseException]]:
    """Assert that the block ends with an exception of this kind whose message has each keyword; in a session, once
    what it recorded has run. Yields a list that then holds the exception."""
    caught: list[BaseException] = []
    try:
        yield caught
        settle()
    except kind as error:
        caught.append(error)
    if not caught:
        raise AssertionError(f"no {kind.__name__} was raised")
    missing = [word for word in keywords if word not in str(caught[0])]
    assert not missing, f"{missing} not in the message: {caught[0]}"


@contextmanager
def warns(kind: type[Warning], *keywords: str) -> Generator[None]:
    """Assert that the block warns with this category and a message that has each keyword, and let no warning out."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
        settle()
    texts = [str(w.message) for w in seen if issubclass(w.category, kind)]
    assert any(all(word in text for word in keywords) for text in texts), f"{keywords} in none of {texts}"


def settle() -> None:
    """Wait for all that the ambient session was given, raising what went wrong; without a session do nothing."""
    modes = sys.modules.get("raygrad.autograd.core.modes")
    recorder = None if modes is None else modes.state.recorder
    if recorder is not None:
        recorder.submit()
        recorder.execution.wait_for_everything()
