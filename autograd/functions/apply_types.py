"""The type of `Function.apply` as type checkers see it: a call with forward's parameters, without ctx.

Nothing here runs: `function.py` imports it for type checkers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class NotWritten:
    """What the `setup_context` of the base class returns, by which it is told from one that a user wrote."""


class Separate(Protocol[P, R_co]):
    """A Function with a setup_context: its forward takes the arguments of apply."""

    @staticmethod
    def forward(*args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any, /) -> None: ...


class Combined(Protocol[P, R_co]):
    """A Function without: its forward takes a ctx, then the arguments of apply."""

    @staticmethod
    def forward(ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Apply:
    """The descriptor `apply`: its type is that of the class's forward."""

    @overload
    def __get__(self, instance: object, owner: type[Separate[P, R]]) -> Callable[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type[Combined[P, R]]) -> Callable[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, instance: object, owner: Any) -> Any: ...
