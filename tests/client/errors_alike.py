"""Exceptions of user code that are hard to carry, and Functions that raise them: for tests of each kind of session."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
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


class UnprintableValue(ValueError):
    __str__ = Unprintable.__str__


class Slotted(Exception):
    __slots__ = ("code", "never")

    def __init__(self, code: int) -> None:
        super().__init__("slotted")
        self.code = code


@dataclass(frozen=True)
class Frozen(Exception):
    """Takes no notes and no cause by assignment."""

    code: int


class Outer(Exception):
    """Refers to others."""

    def __init__(self, inner: BaseException, several: list[BaseException]) -> None:
        super().__init__("outer")
        self.inner, self.several = inner, several


def raised_in_handling() -> Any:
    """Return an error with a context, whose own cause has a context."""
    try:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                _ = 1 / 0
        except ZeroDivisionError as error:
            raise TypeError("second") from error
    except TypeError:
        try:
            raise ValueError("last")
        except ValueError as error:
            return error
    raise AssertionError


def raised_from_none() -> BaseException:
    error = raised_in_handling()
    error.__suppress_context__ = True
    return error


def raised_by(program: Callable[[], Any]) -> BaseException:
    try:
        program()
    except Exception as error:
        return error
    raise AssertionError


def about_itself() -> BaseException:
    error = ValueError("a")
    error.args = ("a", error)
    error.__dict__["me"] = error
    return error


def with_note(error: BaseException, note: Any) -> BaseException:
    error.__notes__ = note
    return error


def with_cause(error: BaseException, cause: BaseException) -> Any:
    set_cause: Any = BaseException.__cause__
    set_cause.__set__(error, cause)
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
    "unprintable value": lambda: UnprintableValue("a"),
    "slotted": lambda: Slotted(7),
    "frozen": lambda: Frozen(7),
    "frozen with a cause": lambda: with_cause(Frozen(7), ValueError("a")),
    "context": raised_in_handling,
    "suppressed context": raised_from_none,
    "a group with causes": lambda: ExceptionGroup(
        "g", [with_cause(ValueError("a"), KeyError("b")), ExceptionGroup("h", [raised_in_handling()])]
    ),
    "others": lambda: Outer(with_cause(Slotted(1), KeyError("b")), [Frozen(2), raised_in_handling()]),
    "attribute": lambda: raised_by(lambda: "".nothing),  # type: ignore[attr-defined]
    "name": lambda: raised_by(lambda: nothing),  # type: ignore[name-defined] # noqa: F821
    "import": lambda: raised_by(lambda: importlib.import_module("nothing_at_all.x")),
    "itself": about_itself,
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
    return type(error), message, [repr(arg) for arg in args.__get__(error)], _linked(error, [])


FIELDS: Final = ("code", "name", "path", "msg", "filename", "lineno", "value", "__suppress_context__")
LINKS: Final = ("__cause__", "__context__", "inner", "me")


def _linked(error: BaseException, seen: list[BaseException]) -> Any:
    """Return the other exceptions that an exception refers to, with their fields, as they print."""
    if any(one is error for one in seen):
        return [one is error for one in seen]
    seen.append(error)
    found: list[Any] = [type(error), *[repr(object_field(error, name)) for name in FIELDS]]
    others = [object_field(error, name) for name in LINKS]
    for several in ("several", "exceptions"):
        others += object_field(error, several) or []
    return [*found, *[_linked(other, seen) if isinstance(other, BaseException) else None for other in others]]


def object_field(error: BaseException, name: str) -> Any:
    """Return an attribute, whatever the class makes of it."""
    try:
        return object.__getattribute__(error, name)
    except AttributeError:
        return None
