"""Programs in which arguments of one call hold an object in common, and what forward and backward see of that."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np

import raygrad as rg


def first(one: Any) -> Any:
    """Return the object that may be shared: the first in a holder."""
    return next(iter(one.values())) if isinstance(one, dict) else one.part if hasattr(one, "part") else one[0]


class Same(rg.autograd.Function):
    """Tells by its output, and by its gradient, whether two arguments are one object, and whether they hold one."""

    @staticmethod
    def forward(ctx: Any, x: Any, a: Any, b: Any, *, c: Any = None) -> Any:
        ctx.a, ctx.b = a, b
        held = 0.0 if isinstance(a, np.ndarray) or len(a) > 3 else float(first(a) is first(b))
        return x * (1.0 + (a is b) + 2.0 * held + 4.0 * (c is a))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        held = 0.0 if isinstance(ctx.a, np.ndarray) or len(ctx.a) > 3 else float(first(ctx.a) is first(ctx.b))
        return grad * (1.0 + (ctx.a is ctx.b) + 2.0 * held), None, None


class Sums(rg.autograd.Function):
    """Adds the tensors in two holders of one list; the gradient reaches each once per holder."""

    @staticmethod
    def forward(ctx: Any, x: Any, a: Any, b: Any) -> Any:
        same = float(a["parts"] is b[0])
        return x * same + sum(a["parts"]) + sum(b[0])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None, None


class Sized:
    """A holder with a length."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __len__(self) -> int:
        return 1


def arguments() -> list[tuple[tuple[Any, Any], dict[str, Any]]]:
    """Return pairs of arguments: of one object, holders of one, and equal ones without anything in common."""
    numbers, words, array = [1, 2], ["a"], np.arange(5.0)
    many, queue, space = [0] * 9, deque([[1], 2]), SimpleNamespace(part=[1])
    sized = Sized(numbers)
    return [
        ((numbers, numbers), {}),
        (([1, 2], [1, 2]), {}),
        ((words, words), {"c": words}),
        ((words, ["a"]), {"c": words}),
        (([numbers], [numbers]), {}),
        (([[1, 2]], [[1, 2]]), {}),
        (([numbers], {"key": numbers}), {}),
        (((words, 1), [words, 2]), {"c": None}),
        ((array, array), {}),
        ((array, array.copy()), {}),
        ((many, many), {}),
        ((queue, [queue[0]]), {}),
        ((sized, [numbers]), {}),
        ((sized, Sized(space)), {}),
        (([words], [words]), {"c": [words]}),
    ]


def values() -> list[Any]:
    """Return what the programs give, twice each: the second time, what the first has shown is known."""
    found: list[Any] = []
    given = arguments()
    for (a, b), named in [*given, *given]:
        x = rg.tensor(1.0, requires_grad=True)
        y = Same.apply(x, a, b, **named)
        found.append((y.item(), rg.autograd.grad(y, x)[0].item()))
    parts = [rg.tensor(2.0), rg.tensor(3.0)]
    for a, b in (({"parts": parts}, [parts]), ({"parts": parts}, [list(parts)])):
        x = rg.tensor(1.0, requires_grad=True)
        y = Sums.apply(x, a, b)
        found.append((y.item(), rg.autograd.grad(y, x)[0].item()))
    x = parts[0].clone().requires_grad_()
    inside = [x, 1.0]
    found.append(Sums.apply(x, {"parts": inside}, [inside]).item())
    return found
