"""Objects whose `__getattr__` raises something else than AttributeError: sessions ask them for nothing in vain."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg


class Items(dict[str, Any]):
    """A dict whose items are attributes, as configurations often are: what it lacks is a KeyError."""

    __getattr__ = dict.__getitem__


class Times(Items):
    def __call__(self, grad: Any) -> Any:
        return grad * self.factor


class Scaled(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, items: Any) -> Any:
        ctx.items = items[0] if isinstance(items, list) else items
        ctx.own = Items(factor=3.0)
        return x * ctx.items.factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.items.factor * ctx.own.factor, None


GLOBAL = Items(factor=2.0)


class Captures(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = GLOBAL.factor
        return x * GLOBAL.factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * GLOBAL.factor * ctx.factor


def hooked(x: Any) -> Any:
    x.register_hook(Times(factor=5.0))
    return x * 2.0


PROGRAMS: dict[str, Any] = {
    "argument": lambda x: Scaled.apply(x, Items(factor=2.0)),
    "in a list": lambda x: Scaled.apply(x, [Items(factor=2.0)]),
    "captured": Captures.apply,
    "hook": hooked,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_object_may_raise_what_it_likes_for_attributes_that_it_lacks(session: Any, name: str) -> None:
    def program() -> list[Any]:
        x: Any = rg.tensor([1.0], requires_grad=True)
        for _ in range(3):
            PROGRAMS[name](x).sum().backward()
        return x.grad.tolist()

    expected = program()
    with session:
        assert program() == expected
