"""Exceptions of user code that are hard to carry, and Functions that raise them: for tests of each kind of session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import raygrad as rg

LONG: Final = 33 << 20


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")

    __repr__ = __str__


class PrintsNoText(Exception):
    def __str__(self) -> Any:
        return 3


class ExitsWhenPrinted(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unreducible(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no parts")


class Unreadable(Exception):
    def __getattribute__(self, name: str) -> Any:
        if name in ("args", "__dict__", "__cause__"):
            raise RuntimeError(f"no {name}")
        return super().__getattribute__(name)


class Exits(Exception):
    """Is made once."""

    made = False

    def __init__(self) -> None:
        if Exits.made:
            raise SystemExit(4)


class Stop(BaseException):
    """No Exception."""


def with_note(error: BaseException, note: Any) -> BaseException:
    error.__notes__ = note
    return error


def with_cause(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


HARD: Final[dict[str, Callable[[], BaseException]]] = {
    "surrogates": lambda: ValueError("a\ud800b"),
    "surrogates in a note": lambda: with_note(ValueError("a"), ["\ud800"]),
    "surrogates in a cause": lambda: with_cause(ValueError("a"), Stop("\ud800")),
    "surrogates of a source": lambda: SyntaxError("bad", ("f\udc80.py", 1, 2, "t\ud800")),
    "surrogates of a file": lambda: FileNotFoundError(2, "none", "f\udc80"),
    "unprintable": lambda: Unprintable("a"),
    "prints no text": lambda: PrintsNoText("a"),
    "exits when printed": lambda: ExitsWhenPrinted("a"),
    "unreducible": lambda: Unreducible("a", 2),
    "unreadable": lambda: Unreadable("a"),
    "notes that are none": lambda: with_note(ValueError("a"), 5),
    "an array": lambda: ValueError("a", np.arange(3.0)),
    "a group": lambda: ExceptionGroup("g\ud800", [ValueError("a"), KeyError("b")]),
    "a group of interrupts": lambda: BaseExceptionGroup("g", [KeyboardInterrupt("a")]),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("a"),
    "GeneratorExit": lambda: GeneratorExit("a"),
    "CancelledError": lambda: asyncio.CancelledError("a"),
    "BaseException": lambda: Stop("a", 3),
    "StopIteration": lambda: StopIteration(3),
    "long": lambda: ValueError("x" * LONG),
}


class Raises(rg.autograd.Function):
    """Raises in its forward, its backward, or a hook."""

    @staticmethod
    def forward(ctx: Any, x: Any, name: str, where: str) -> Any:
        if where == "forward":
            raise HARD[name]()
        ctx.told = name, where
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        name, where = ctx.told
        if where == "backward":
            raise HARD[name]()
        return grad * 2.0, None, None


def raise_in(name: str, where: str) -> None:
    """Run a program that raises, and read what it would have made."""
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    if where == "hook":

        def hook(grad: Any) -> Any:
            raise HARD[name]()

        x.register_hook(hook)
    Raises.apply(x, name, where).sum().backward()
    x.grad.numpy()


def raised_in(name: str, where: str) -> BaseException:
    """Return what such a program raises."""
    try:
        raise_in(name, where)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def parts(error: BaseException) -> tuple[Any, ...]:
    """Return what a user sees of an exception, but for notes that raygrad adds."""
    args: Any = BaseException.args
    try:
        message = str(error)
    except BaseException as second:
        message = type(second).__name__
    return type(error), message, [repr(arg) for arg in args.__get__(error)]
