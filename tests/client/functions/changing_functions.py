"""Functions that are arguments and change variables of their own, and what programs with them return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import raygrad as rg

called = 0


class Calls(rg.autograd.Function):
    """Calls a function in forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, function: Any) -> Any:
        ctx.function = function
        return x * call(function)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * call(ctx.function), None


def call(function: Any) -> float:
    return function["call"]() if isinstance(function, dict) else function()


def of_a_closure() -> Any:
    count = 0

    def function() -> float:
        nonlocal count
        count += 1
        return float(count)

    return function


def of_a_global() -> Any:
    def function() -> float:
        global called
        called += 1
        return float(called)

    global called
    called = 0
    return function


def of_a_list() -> Any:
    held: list[float] = []

    def function() -> float:
        held.append(1.0)
        return float(len(held))

    return function


def of_a_default() -> Any:
    def function(held: list[float] = []) -> float:  # noqa: B006 (which is what it is about)
        held.append(1.0)
        return float(len(held))

    return function


def of_an_attribute() -> Any:
    def function() -> float:
        own.count += 1
        return float(own.count)

    own: Any = function
    own.count = 0
    return function


def of_a_decorator() -> Any:
    count = 0

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper() -> float:
            nonlocal count
            count += 1
            return function() * count

        return wrapper

    return counted(lambda: 2.0)


def in_a_dict() -> Any:
    return {"call": of_a_closure()}


def of_a_partial() -> Any:
    return functools.partial(of_a_closure())


KINDS: dict[str, Callable[[], Any]] = {
    one.__name__: one
    for one in (
        of_a_closure,
        of_a_global,
        of_a_list,
        of_a_default,
        of_an_attribute,
        of_a_decorator,
        in_a_dict,
        of_a_partial,
    )
}


def program(make: Callable[[], Any]) -> list[Any]:
    """Return what a program shows that calls such a function itself, and in forward and backward of Functions."""
    function = make()
    x = rg.ones(2, requires_grad=True)
    first, second = Calls.apply(x, function), Calls.apply(x, function)
    found: list[Any] = [call(function)]
    (first + second * 10.0).sum().backward()
    found.append(call(function))
    third = Calls.apply(x, function)
    assert x.grad is not None
    return [*found, call(function), first.tolist(), second.tolist(), third.tolist(), x.grad.tolist()]
