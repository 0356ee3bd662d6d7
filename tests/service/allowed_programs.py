"""Functions and hooks of a module that a service is allowed to import, and programs over them: all without pickles."""

from __future__ import annotations

import enum
import functools
import os as os  # that a client may not reach by way of this module
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import raygrad as rg

from .other_programs import Elsewhere as Elsewhere


class Mode(enum.Enum):
    PLUS = 1
    TIMES = 2


class Broken(ValueError):
    """An error of this module, with a constructor and an attribute of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number} is broken")
        self.number = number


class Strange:
    """What no value without pickles is."""

    def __init__(self, held: Any = None) -> None:
        self.held = held


class Pair(NamedTuple):
    first: Any
    second: Any


class Scaled(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, options):
        ctx.save_for_backward(x)
        ctx.factor, ctx.options = factor, options
        ctx.seen = {"shape": tuple(x.shape), "sizes": [1, 2**70, 1 + 2j], "\ud800": {3, 4}}
        rg.emit("scaled", [float(x.sum()), options, np.float32(2)])
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert ctx.seen["sizes"][1] == 2**70
        assert ctx.seen["\ud800"] == {3, 4}
        return grad * ctx.factor + 0 * x, None, None


class Chosen(rg.autograd.Function):
    """Is given what goes by name: a member, a function, a class, a dtype."""

    @staticmethod
    def forward(ctx, x, mode, function, kind, dtype, part):
        ctx.part = part
        y = x[part] + 1 if mode is Mode.PLUS else x[part] * 2
        assert kind is Pair
        assert dtype == np.dtype("float32")
        return function(y)

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, None, None, None


class Holds(rg.autograd.Function):
    """Adds what two arguments hold, which may be one list."""

    @staticmethod
    def forward(ctx, x, held, holder):
        ctx.one, ctx.other = held, holder
        return x + sum(held) + sum(holder["held"])

    @staticmethod
    def backward(ctx, grad):
        return grad * len(ctx.one + ctx.other["held"]), None, None


def doubled(x: Any) -> Any:
    return x * 2


class Summed(rg.autograd.Function):
    """Is given tensors in containers."""

    @staticmethod
    def forward(ctx, many):
        ctx.count = len(many["terms"])
        return many["terms"][0] + many["terms"][1] * many["weight"]

    @staticmethod
    def backward(ctx, grad):
        return None


class Nested(rg.autograd.NestedIOFunction):
    """Takes and returns nested containers."""

    def forward_extended(self, given):
        self.save_for_backward(given["a"])
        return {"double": given["a"] * 2, "pair": Pair(given["b"], [given["a"] + given["b"]])}

    def backward_extended(self, grads):
        (a,) = self.saved_tensors
        both = grads["pair"].second[0]
        return {"a": grads["double"] * 2 + both + 0 * a, "b": grads["pair"].first + both}


class Refusing(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, number):
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Broken(number) from error

    @staticmethod
    def backward(ctx, grad):
        return None, None


class Warning_(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        warnings.warn("mind the step", RuntimeWarning, stacklevel=1)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


class EmitsStrange(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rg.emit("strange", Strange())
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


class EmitsMuchAndStrange(rg.autograd.Function):
    """Emits more than goes with a record, so that chunks are sent while it runs."""

    @staticmethod
    def forward(ctx, x):
        for number in range(40):
            rg.emit("much", np.zeros(50_000) + number)
        rg.emit("strange", Strange())
        for number in range(40):
            rg.emit("much", np.zeros(50_000) + number)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


class Sleeping(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.01)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class KeepsStrange(rg.autograd.Function):
    """Keeps on its context what stays on its workers: a pickle between those is no affair of the client's."""

    @staticmethod
    def forward(ctx, x):
        ctx.held = Strange(3.0)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.held.held


class ReturnsStrange(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1, Strange()

    @staticmethod
    def backward(ctx, grad, _):
        return grad


class HooksItself(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.register_prehook(tripled_all)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def tripled(grad: Any) -> Any:
    return grad * 3


def tripled_all(grads: Any) -> Any:
    return tuple([grad * 3 for grad in grads])


partly = functools.partial(doubled)


# ---- programs --------------------------------------------------------------------------------------------------------


def _leaf() -> Any:
    return rg.tensor(np.arange(4.0), requires_grad=True)


def scaled() -> list[Any]:
    x = _leaf()
    options = {"a": [1, (2.5, None)], "b": {True}, "c": np.arange(3), "d": b"\0\xff", "e": slice(1, None), "f": ...}
    y = Scaled.apply(x, 3.0, options)
    y.sum().backward()
    return [y.detach().numpy(), x.grad.numpy()]


def hooked() -> list[Any]:
    x = _leaf()
    y = Scaled.apply(x, 2.0, None)
    y.register_hook(tripled)
    y.grad_fn.register_hook(after_node)
    x.register_post_accumulate_grad_hook(noted)
    y.sum().backward()
    return [x.grad.numpy()]


def after_node(inputs: Any, outputs: Any) -> Any:
    rg.emit("node", [tuple(one.shape) for one in outputs])
    return tuple([None if one is None else one + 1 for one in inputs])


def noted(leaf: Any) -> None:
    rg.emit("leaf", leaf.grad)


def twice_differentiated() -> list[Any]:
    x = _leaf()
    y = (Scaled.apply(x, 2.0, None) ** 3).sum()
    (first,) = rg.autograd.grad(y, x, create_graph=True)
    (second,) = rg.autograd.grad(first.sum(), x)
    return [first.detach().numpy(), second.numpy()]


def kept_for_later() -> list[Any]:
    x = _leaf()
    y = KeepsStrange.apply(x)
    shown = y.detach().numpy()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return [shown, x.grad.numpy()]


def named_arguments() -> list[Any]:
    x = rg.tensor(np.arange(4.0, dtype="float32"))
    arguments = doubled, Pair, np.dtype("float32"), slice(1, 3)
    return [Chosen.apply(x, mode, *arguments).numpy() for mode in Mode]


def embedded() -> list[Any]:
    many = {"terms": [rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0])], "weight": 10}
    return [Summed.apply(many).numpy()]


def held_in_common() -> list[Any]:
    found: list[Any] = []
    for held in ([1, 2], [rg.tensor(1.5), 2.0]):
        x = _leaf()
        y: Any = Holds.apply(x, held, {"held": held})
        found.append(y.grad_fn.other)
        y.sum().backward()
        found += [y.detach().numpy(), x.grad.numpy()]
    return found


def nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(3):  # the first run shows the structure; later ones are compared with it
        a: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        b: Any = rg.tensor([3.0, 4.0], requires_grad=True)
        out = Nested.apply(OrderedDict(a=a, b=b))
        (out["double"].sum() + out["pair"].second[0].sum() + out["pair"].first.sum()).backward()
        found += [out["double"].detach().numpy(), a.grad.numpy(), b.grad.numpy()]
    return found


def array_arguments() -> list[Any]:
    wide = np.arange(24.0).reshape(4, 6)
    found = []
    for array in (wide[::2, ::-1], wide.T, wide[:, ::3], np.arange(3, dtype=">i4"), np.broadcast_to(wide[0], (2, 6))):
        y = Scaled.apply(rg.ones(2), 2.0, array)
        found.append(y.numpy())
    return found


def own_emits() -> list[Any]:
    x = rg.tensor([1.0, 2.0])
    rg.emit("mine", {"x": x * 2, "n": [1, x]})
    return [(x + 1).numpy()]


def read_contexts() -> list[Any]:
    x = _leaf()
    y: Any = Scaled.apply(x, 2.0, [1, (2,)])
    return [y.grad_fn.saved_tensors[0].detach().numpy(), y.grad_fn.options, y.grad_fn.seen["sizes"]]


def hooks_of_forward() -> list[Any]:
    x = _leaf()
    HooksItself.apply(x).sum().backward()
    return [x.grad.numpy()]


def warns() -> list[Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = Warning_.apply(rg.ones(2)).numpy()
    return [value, [(one.category.__name__, str(one.message)) for one in caught]]


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    program.__name__: program
    for program in (
        scaled, hooked, twice_differentiated, kept_for_later, named_arguments, embedded, held_in_common, nested,
        array_arguments, own_emits, read_contexts, hooks_of_forward, warns,
    )
}  # fmt: skip
