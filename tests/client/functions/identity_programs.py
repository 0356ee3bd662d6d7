"""Programs that compare objects with `is`: run by tests in every mode, and as `__main__` in a process of their own."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import raygrad as rg

MISSING: Any = object()


class Absent:
    """A sentinel with a class of its own."""


ABSENT = Absent()


class Tag:
    def __init__(self, name: str, rank: int) -> None:
        self.name, self.rank = name, rank

    def above(self, other: Tag) -> bool:
        return self.rank > other.rank


LOW, HIGH = Tag("low", 1), Tag("high", 2)
LEVELS = {LOW: 1.0, HIGH: 2.0}


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


def relu(x: Any) -> Any:
    return x.clamp(0.0)


def double(x: Any) -> Any:
    return x * 2


SLOPES = {relu: 1.0, double: 2.0}


class Refused(Exception):
    """An error that carries what it refuses."""


WEIGHT = np.arange(3.0)

CHECKS: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "a sentinel": (MISSING, lambda it: it is MISSING),
    "a sentinel with a class": (ABSENT, lambda it: it is ABSENT and isinstance(it, Absent)),
    "a named constant": (LOW, lambda it: it is LOW and LEVELS[it] == 1.0 and HIGH.above(it)),
    "constants in containers": (
        [{LOW: MISSING}, (HIGH,)],
        lambda it: it[0][LOW] is MISSING and it[1][0] is HIGH,
    ),
    "a sentinel as a key": ({MISSING: 1}, lambda it: it[MISSING] == 1),
    "a member of an enumeration": (Colour.RED, lambda it: it is Colour.RED),
    "members in a dict": ({Colour.RED: [Colour.BLUE]}, lambda it: it[Colour.RED][0] is Colour.BLUE),
    "flags": (Access.READ | Access.WRITE, lambda it: it is (Access.READ | Access.WRITE)),
    "a function": (relu, lambda it: it is relu and SLOPES[it] == 1.0),
    "functions in a list": ([double, relu], lambda it: it[0] is double and it[1] is relu),
    "a class": (Tag, lambda it: it is Tag),
    "an instance of a class": (Tag("own", 5), lambda it: type(it) is Tag and it.above(LOW)),
    "a constant of an installed module": (dataclasses.MISSING, lambda it: it is dataclasses.MISSING),
    "a class of an installed module": (inspect.Parameter.empty, lambda it: it is inspect.Parameter.empty),
    "a dtype": (rg.float32, lambda it: it is rg.float32 and it is np.dtype("float32")),
    "None": (None, lambda it: it is None),
    "Ellipsis": ([..., NotImplemented], lambda it: it[0] is Ellipsis and it[1] is NotImplemented),
}


class Checks(rg.autograd.Function):
    """1 where an argument is what it is at the client, in forward, and in backward as an attribute of ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any, name: str, value: Any, default: Any = MISSING, *, keyword: Any = ABSENT) -> Any:
        ctx.name, ctx.value, ctx.default = name, value, default
        ctx.table = {MISSING: keyword}
        rg.emit("seen", (name, value, default))
        return x * float(CHECKS[name][1](value) and default is MISSING and keyword is ABSENT)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        held = CHECKS[ctx.name][1](ctx.value) and ctx.default is MISSING and ctx.table[MISSING] is ABSENT
        return grad * float(held), None, None


class ChecksBesideArrays(Checks):
    """The same in code that goes by value in process, too, since it captures an array."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Any, name: str, value: Any
    ) -> Any:
        return Checks.forward(ctx, x * float(WEIGHT[1]), name, value)


class Returns(rg.autograd.Function):
    """What is not a tensor comes back as the client's own."""

    @staticmethod
    def forward(ctx: Any, x: Any, value: Any) -> Any:
        return x * 2, value, MISSING, Colour.BLUE

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2, None


class Refuses(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, value: Any) -> Any:
        raise Refused(value, MISSING, LOW, Tag)


def wrong_checks(function: Any) -> list[str]:
    """Return the names of the checks that fail in this mode."""
    wrong: list[str] = []
    for name, (value, _) in CHECKS.items():
        x: Any = rg.ones(2, requires_grad=True)
        for phase in ("first", "again"):
            x.grad = None
            y = function.apply(x, name, value)
            y.sum().backward()
            found = y.tolist(), x.grad.tolist()  # pyright: ignore[reportAttributeAccessIssue]
            if found != ([1, 1], [1, 1]):
                wrong.append(f"{name} ({phase}): {found[0]}, {found[1]}")
    return wrong


def wrong_returns() -> list[str]:
    """Return the names of the values that do not come back as themselves."""
    wrong: list[str] = []
    for name, (value, check) in CHECKS.items():
        _, back, missing, blue = Returns.apply(rg.ones(2, requires_grad=True), value)
        if not check(back) or missing is not MISSING or blue is not Colour.BLUE:
            wrong.append(name)
    try:
        _ = Refuses.apply(rg.ones(2), LOW)
        wrong.append("no error")
    except Refused as error:
        if [one is other for one, other in zip(error.args, (LOW, MISSING, LOW, Tag), strict=True)] != [True] * 4:
            wrong.append("an error")
    return wrong


def wrong_in(session: Any) -> list[str]:
    """Return what is wrong in an open session, emits included."""
    seen: list[Any] = []
    if session is not None:
        session.on("seen", seen.append)
    wrong = wrong_checks(Checks) + wrong_checks(ChecksBesideArrays) + wrong_returns()
    for name, value, default in seen:
        if default is not MISSING or not CHECKS[name][1](value):
            wrong.append(f"{name} (emitted)")
    return wrong


if __name__ == "__main__":
    assert wrong_checks(Checks) == [], "eager"
    with rg.Session(strict=sys.argv[1] == "strict") as opened:
        sys.exit("\n".join(wrong_in(opened)) or 0)
