"""Pickled exceptions: the same type, args and attributes where possible, else the name of the type (DR-09).

Workers pack the exception of a failed call; the client unpacks and raises it. Packing never fails, and unpacking always
returns an exception."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any, Final, cast

from raygrad.errors import NotShippable, RemoteError

from .pickling import PROTOCOL, pickle_value
from .unpickling import unpickle_value

CAUSES_KEPT: Final = 8
"""The most links of a `__cause__` chain that are packed with an exception."""


def pack_exception(error: BaseException) -> bytes:
    """Return an exception as bytes for `unpack_exception`. Never fails: at worst only its type's name travels."""
    chain: list[bytes | None] = []
    link: BaseException | None = error
    while link is not None and len(chain) < CAUSES_KEPT:
        chain.append(_pack_one(link))
        link = link.__cause__
    return pickle.dumps((type(error).__qualname__, _message(error), chain), PROTOCOL)


def _pack_one(error: BaseException) -> bytes | None:
    """Return one exception with all of its attributes, or those that can be pickled; None if it cannot be rebuilt."""
    for state in (dict(error.__dict__), {name: one for name, one in error.__dict__.items() if _fits(one)}):
        try:
            data = pickle_value((type(error), _signature(error), error.args, state))
            _rebuilt(data)
        except Exception:  # whatever the user's class raises when it is taken apart or rebuilt: try with less
            continue
        return data
    return None


def _signature(error: BaseException) -> tuple[Any, ...]:
    """Return the constructor arguments of an exception, by its `__reduce__`: OSError keeps file names out of `args`."""
    reduced = error.__reduce__()
    return reduced[1] if isinstance(reduced, tuple) and reduced[0] is type(error) else error.args


def _fits(value: Any) -> bool:
    try:
        pickle_value(value)
    except NotShippable:
        return False
    return True


def _rebuilt(data: bytes) -> BaseException:
    """Return an exception from its type, args and attributes; its `__init__` runs only if it takes these args."""
    kind, signature, args, state = cast("tuple[type[BaseException], Any, Any, dict[str, Any]]", unpickle_value(data))
    error: BaseException | None
    try:
        error = kind(*signature)
    except Exception:  # its signature is its own affair
        error = None
    if error is None or type(error) is not kind or error.args != args:
        error = kind.__new__(kind, *args)
        error.args = args
    error.__dict__.update(state)
    return error


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # a broken __str__ must not hide the error itself
        return f"(its message could not be made: {type(second).__name__})"


def unpack_exception(data: bytes) -> BaseException:
    """Return the exception that `pack_exception` was given, of the same type, args and attributes, with its causes;
    a RemoteError naming the type if it cannot be rebuilt here."""
    type_name, message, chain = pickle.loads(data)
    errors: list[BaseException] = []
    for packed in chain:
        try:
            if packed is None:
                break
            errors.append(_rebuilt(packed))
        except Exception:  # a module missing here, a class that refuses: the name and message must do
            break
    if not errors:
        return RemoteError(f"{type_name}: {message}", type_name)
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]
