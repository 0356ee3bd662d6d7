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


def test_a_signature_with_arguments_by_position_only_is_kept() -> None:
    def by_position(a: int, b: int = 2, /, c: int = 3, *, d: int) -> tuple[int, ...]:
        return a, b, c, d

    made = compile_wrapper(by_position, "    return _function({plain})\n", {}, "here")
    assert inspect.signature(made) == inspect.signature(by_position)
    assert made(1, d=4) == (1, 2, 3, 4)
    with pytest.raises(TypeError, match="positional-only"):
        made(a=1, d=4)


def test_functions_of_one_signature_keep_what_their_bodies_read() -> None:
    def first(a: int) -> int:
        return a

    def second(a: int) -> int:
        return -a

    made = [
        compile_wrapper(function, "    return _scale * _function({plain})\n", {"_scale": scale}, "here")
        for function, scale in ((first, 10), (second, 100))
    ]
    assert [one(1) for one in made] == [10, -100]
