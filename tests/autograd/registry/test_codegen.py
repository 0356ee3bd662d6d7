"""Functions that are made as text around others."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from raygrad.autograd.registry.codegen import compile_wrapper


def shown(a: int, b: int = 2, *rest: int, c: int, d: int = 4) -> tuple[Any, ...]:
    """Show what was given."""
    return a, b, rest, c, d


def test_it_has_the_signature_of_the_other_and_passes_everything_on() -> None:
    made = compile_wrapper(shown, "    return _before(_function({plain}))\n", {"_before": list}, "here")
    assert made(1, 5, 6, 7, c=3) == [1, 5, (6, 7), 3, 4]
    assert made(1, c=3) == [1, 2, (), 3, 4]
    assert inspect.signature(made) == inspect.signature(shown)
    assert (made.__name__, made.__doc__, made.__module__) == ("shown", "Show what was given.", "here")
    assert made.__globals__["__name__"] == "here"
    with pytest.raises(TypeError, match="missing"):
        made(1)


def test_the_body_has_the_arguments_as_a_tuple_and_a_dict() -> None:
    made = compile_wrapper(shown, "    return ({args}), {{{kwargs}}}\n", {}, "here")
    assert made(1, 2, 3, c=4) == ((1, 2, 3), {"c": 4, "d": 4})
