"""Pickled exceptions: the same type, args and attributes where possible, else the name of the type (DR-09).

Workers pack the exception of a failed call; the client unpacks and raises it. Packing never fails, and unpacking always
returns an exception."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, NamedTuple, cast

from raygrad.errors import RemoteError

from .pickling import PROTOCOL, pickle_value
from .unpickling import unpickle_value

LINKS_KEPT: Final = 64
"""The most exceptions that are packed with one that refers to them: its causes, contexts, and those that it holds.
Members of groups do not count."""

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


class _Link(NamedTuple):
    """Stands for an exception in the arguments, fields and attributes of another that is packed with it."""

    place: int


class _Parts(NamedTuple):
    """What an exception is rebuilt from."""

    kind: type[BaseException]
    signature: tuple[Any, ...]
    """Constructor arguments."""
    args: tuple[Any, ...]
    fields: list[tuple[int, str, Any]]
    """What it has beside its `__dict__`: by position of the class in the `__mro__` and name."""
    state: dict[str, Any]


def pack_exception(error: BaseException, *, shares_process: bool = False) -> Any:
    """Return an exception as bytes for `unpack_exception`. Never fails: at worst only its type's name travels. In a
    process that `shares` it with the client, one that cannot be rebuilt is returned itself, without its frames."""
    links = _Links(error)
    chain = [_pack_one(one, links) for one in links]
    if shares_process and chain[0] is None:
        _release_frames(error)
        return error
    messages = [(type(one).__qualname__, message_of(one)) for one in links.errors]
    return pickle.dumps((messages, chain), PROTOCOL)


class _Links:
    """The exceptions that are packed together; iterating over them goes on to those that are added meanwhile."""

    def __init__(self, error: BaseException) -> None:
        self.errors = [error]
        self._places = {id(error): 0}

    def __iter__(self) -> Iterator[BaseException]:
        index = 0
        while index < len(self.errors):
            yield self.errors[index]
            index += 1

    def put_for(self, value: Any, *, member: bool = False) -> Any:
        """Return the link that stands for an exception, as long as there is room for it, and other values as they
        are."""
        if type(value) is list:
            members = cast("list[Any]", value)
            if members and all([isinstance(one, BaseException) for one in members]):
                return [self.put_for(one, member=True) for one in members]
            return members
        if not isinstance(value, BaseException):
            return value
        place = self._places.get(id(value))
        if place is None:
            if len(self.errors) >= LINKS_KEPT and not member:
                return None
            place = self._places[id(value)] = len(self.errors)
            self.errors.append(value)
        return _Link(place)


_BASE: Any = BaseException
_ARGS, _CAUSE, _CONTEXT = _BASE.args.__get__, _BASE.__cause__.__get__, _BASE.__context__.__get__
"""Readers of what all exceptions have, whatever a class makes of these names."""

_NOT_FIELDS: Final = frozenset(["__dict__", "__weakref__", "__traceback__", "args", "exceptions", "message", "obj"])
"""Fields of builtin classes that do not travel as such: those of a group are its arguments, and the object that an
AttributeError missed something of may be anything that a run holds."""


def _release_frames(error: BaseException) -> None:
    """Drop the frames of an exception and of those that it refers to, which hold the values of a run."""
    stack, seen = [error], set[int]()
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            BaseException.with_traceback(one, None)
            stack += [link for link in (_CAUSE(one), _CONTEXT(one)) if link is not None]


def _pack_one(error: BaseException, links: _Links) -> bytes | None:
    """Return one exception with all of its attributes and arguments, or with those that can be pickled; None if it
    cannot be rebuilt."""
    for attempt in _attempts(error, links):
        try:
            data = pickle_value(tuple(attempt))
            _made(_opened(data), lambda link: ValueError())
        except BaseException:  # whatever the user's class raises when it is taken apart or rebuilt: try with less
            continue
        return data
    return None


def _attempts(error: BaseException, links: _Links) -> Iterator[_Parts]:
    """Yield what an exception may be rebuilt from, the best first."""
    put = links.put_for
    own_args = _ARGS(error)
    args = tuple([put(one) for one in own_args])
    signature = tuple([put(one) for one in _signature(error, own_args)])
    state = {name: put(one) for name, one in object.__getattribute__(error, "__dict__").items()}
    fields = [(position, name, put(one)) for position, name, one in _fields_of(error)]
    parts = _Parts(type(error), signature, args, fields, state)
    yield parts
    parts = parts._replace(
        fields=[field for field in fields if _fits(field[2])],
        state={name: one for name, one in state.items() if _fits(one)},
    )
    yield parts
    yield parts._replace(signature=args)
    args = tuple([one if _fits(one) else _Described(one) for one in args])
    yield parts._replace(signature=args, args=args)


def _fields_of(error: BaseException) -> Iterator[tuple[int, str, Any]]:
    """Yield what an exception has beside `args` and its `__dict__`: its cause and context, the names of an
    AttributeError or ImportError, slots."""
    for kind in (GetSetDescriptorType, MemberDescriptorType):  # setting a cause changes `__suppress_context__`
        for position, base in enumerate(type(error).__mro__):
            builtin = base.__module__ == "builtins"
            for name, field in vars(base).items():
                if isinstance(field, kind) and not (name in _NOT_FIELDS and (builtin or name.startswith("__"))):
                    try:
                        value = field.__get__(error)
                    except AttributeError:  # a slot that is empty
                        continue
                    if value is not None or not builtin:  # an OSError without a second file name prints none
                        yield position, name, value


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


def _opened(data: bytes) -> _Parts:
    return _Parts(*cast("tuple[Any, Any, Any, Any, Any]", unpickle_value(data)))


def _made(parts: _Parts, linked: Callable[[_Link], BaseException]) -> BaseException:
    """Return an exception with its type and args; its `__init__` runs only if it takes these args."""
    kind, args = parts.kind, _resolved(parts.args, linked)
    error: BaseException | None
    try:
        error = kind(*_resolved(parts.signature, linked))
        if type(error) is not kind or _ARGS(error) != args:
            error = None
    except BaseException:  # its signature is its own affair, and so is how its arguments compare
        error = None
    if error is None:
        builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        error = builtin.__new__(kind, *args)
        _BASE.args.__set__(error, args)
    return error


def _resolved(values: tuple[Any, ...], linked: Callable[[_Link], BaseException]) -> tuple[Any, ...]:
    """Return values with the exceptions that links among them stand for."""
    return tuple([_value_of(value, linked) for value in values])


def _value_of(value: Any, linked: Callable[[_Link], BaseException]) -> Any:
    if type(value) is list:
        members = cast("list[Any]", value)
        return [linked(one) for one in members] if members and type(members[0]) is _Link else members
    return linked(value) if type(value) is _Link else value


class _Rebuilding:
    """The exceptions of a pack that have been rebuilt."""

    def __init__(self, messages: list[tuple[str, str]], chain: list[bytes | None]) -> None:
        self._messages = messages
        self._chain = chain
        self._made: dict[int, BaseException] = {}

    def of(self, link: _Link) -> BaseException:
        """Return an exception of the same type, args and attributes; a RemoteError if it cannot be rebuilt here."""
        index = link.place
        if index in self._made:
            return self._made[index]
        type_name, message = self._messages[index]
        self._made[index] = stand_in = RemoteError(f"{type_name}: {message}", type_name)  # for itself in its arguments
        packed = self._chain[index]
        if packed is None:
            return stand_in
        try:
            parts = _opened(packed)
            error = self._made[index] = _made(parts, self.of)
            self._fill(error, parts)
        except BaseException:  # a module missing here, a class that refuses: the name and message must do
            self._made[index] = stand_in
            return stand_in
        return error

    def _fill(self, error: BaseException, parts: _Parts) -> None:
        if any(type(one) is _Link for one in parts.args):
            _BASE.args.__set__(error, _resolved(parts.args, self.of))
        bases = type(error).__mro__
        for position, name, value in parts.fields:
            try:
                vars(bases[position])[name].__set__(error, _value_of(value, self.of))
            except (AttributeError, TypeError):  # one that is read-only
                continue
        state = {name: _value_of(value, self.of) for name, value in parts.state.items()}
        if not isinstance(state.get("__notes__", []), list):
            del state["__notes__"]  # none can be added to what is no list
        object.__getattribute__(error, "__dict__").update(state)


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
    """Return the exception that `pack_exception` was given, of the same type, args and attributes, with the exceptions
    that it refers to; a RemoteError naming the type if it cannot be rebuilt here."""
    return data if isinstance(data, BaseException) else _Rebuilding(*pickle.loads(data)).of(_Link(0))
