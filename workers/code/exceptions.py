"""Pickled exceptions: the same type, args and attributes where possible, else the name of the type (DR-09).

Workers pack the exception of a failed call; the client unpacks and raises it. Packing never fails, and unpacking always
returns an exception."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, cast

from raygrad.errors import RemoteError

from .pickling import PROTOCOL, pickle_value
from .unpickling import unpickle_value

CAUSES_KEPT: Final = 8
"""The most links of a `__cause__` chain that are packed with an exception."""


TEXT_KEPT: Final = 256 * 1024
"""The most characters of a message or a traceback that errors quote. An exception itself travels with all that it has.
"""


class _Described:
    """Stands in the arguments of an exception for one that cannot be pickled, and prints as it did."""

    def __init__(self, value: Any) -> None:
        self._texts = _text_of(value, repr), _text_of(value, str)

    def __repr__(self) -> str:
        return self._texts[0]

    def __str__(self) -> str:
        return self._texts[1]


def pack_exception(error: BaseException, *, shares_process: bool = False) -> Any:
    """Return an exception as bytes for `unpack_exception`. Never fails: at worst only its type's name travels. In a
    process that `shares` it with the client, one that cannot be rebuilt is returned itself, without its frames."""
    chain: list[bytes | None] = []
    link: BaseException | None = error
    while link is not None and len(chain) < CAUSES_KEPT:
        chain.append(_pack_one(link))
        link = _CAUSE(link)
    if shares_process and chain[0] is None:
        _release_frames(error)
        return error
    return pickle.dumps((type(error).__qualname__, message_of(error), chain), PROTOCOL)


_BASE: Any = BaseException
_ARGS, _CAUSE, _CONTEXT = _BASE.args.__get__, _BASE.__cause__.__get__, _BASE.__context__.__get__
"""Readers of what all exceptions have, whatever a class makes of these names."""


def _release_frames(error: BaseException) -> None:
    """Drop the frames of an exception and of those that it refers to, which hold the values of a run."""
    stack, seen = [error], set[int]()
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            BaseException.with_traceback(one, None)
            stack += [link for link in (_CAUSE(one), _CONTEXT(one)) if link is not None]


def _pack_one(error: BaseException) -> bytes | None:
    """Return one exception with all of its attributes and arguments, or with those that can be pickled; None if it
    cannot be rebuilt."""
    for attempt in _attempts(error):
        try:
            data = pickle_value((type(error), *attempt))
            _rebuilt(data)
        except BaseException:  # whatever the user's class raises when it is taken apart or rebuilt: try with less
            continue
        return data
    return None


def _attempts(error: BaseException) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]]:
    """Yield constructor arguments, `args` and attributes with which an exception may be rebuilt, the best first."""
    state: dict[str, Any] = dict(object.__getattribute__(error, "__dict__"))
    args = _ARGS(error)
    signature = _signature(error, args)
    yield signature, args, state
    state = {name: one for name, one in state.items() if _fits(one)}
    yield signature, args, state
    yield args, args, state
    args = tuple([one if _fits(one) else _Described(one) for one in args])
    yield args, args, state


def _signature(error: BaseException, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the constructor arguments of an exception, by its `__reduce__`: OSError keeps file names out of `args`."""
    try:
        reduced = error.__reduce__()
    except BaseException:  # its `__reduce__` is its own affair
        return args
    return reduced[1] if isinstance(reduced, tuple) and reduced[0] is type(error) else args


def _fits(value: Any) -> bool:
    try:
        pickle_value(value)
    except BaseException:  # whatever a class raises when it is taken apart
        return False
    return True


def _rebuilt(data: bytes) -> BaseException:
    """Return an exception from its type, args and attributes; its `__init__` runs only if it takes these args."""
    kind, signature, args, state = cast("tuple[type[BaseException], Any, Any, dict[str, Any]]", unpickle_value(data))
    error: BaseException | None
    try:
        error = kind(*signature)
        if type(error) is not kind or _ARGS(error) != args:
            error = None
    except BaseException:  # its signature is its own affair, and so is how its arguments compare
        error = None
    if error is None:
        builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        error = builtin.__new__(kind, *args)
        _BASE.args.__set__(error, args)
    if not isinstance(state.get("__notes__", []), list):
        del state["__notes__"]  # none can be added to what is no list
    object.__getattribute__(error, "__dict__").update(state)
    return error


def message_of(error: BaseException) -> str:
    """Return the message of an exception, cut if it is long. Never fails."""
    return _text_of(error, str)


def _text_of(value: Any, convert: Callable[[Any], str]) -> str:
    """Return a text of an object of the user's; what it raises must not hide the error that it is about."""
    try:
        return cut(convert(value))
    except BaseException as second:
        return f"({type(value).__name__}.__{convert.__name__}__ raised {type(second).__name__})"


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception as Python prints it, cut if it is long. Never fails."""
    try:
        return cut("".join(traceback.format_exception(error)))
    except BaseException as second:  # a class may make anything of the names that are read for it
        return f"{type(error).__qualname__} (its traceback could not be made: {type(second).__name__})"


def cut(text: str) -> str:
    """Return a text, or the beginning of a long one, saying so."""
    if len(text) <= TEXT_KEPT:
        return text
    return f"{text[:TEXT_KEPT]}... ({len(text) - TEXT_KEPT:,} more characters)"


def unpack_exception(data: Any) -> BaseException:
    """Return the exception that `pack_exception` was given, of the same type, args and attributes, with its causes;
    a RemoteError naming the type if it cannot be rebuilt here."""
    if isinstance(data, BaseException):
        return data
    type_name, message, chain = pickle.loads(data)
    errors: list[BaseException] = []
    for packed in chain:
        try:
            if packed is None:
                break
            errors.append(_rebuilt(packed))
        except BaseException:  # a module missing here, a class that refuses: the name and message must do
            break
    if not errors:
        return RemoteError(f"{type_name}: {message}", type_name)
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]
