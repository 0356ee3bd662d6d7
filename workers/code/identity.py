"""Identity across processes: objects that programs compare with `is`, and the tokens by which they stay themselves.

Sentinels, tags and other constants are nothing but their identity, which pickling loses. Those of installed modules go
by import name. Others go by a token of the process that made them: opened twice in one process they are one object, and
the process that made them gets its own object back. What else has state goes by value.
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections import OrderedDict
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias, cast

from raygrad.autograd.core.size import Size

from .guard import ABSENT
from .importable import imports_alike
from .visitor import slot_names

Token: TypeAlias = tuple[bytes, int]
"""The process that made an object, and a number there."""

State: TypeAlias = tuple[tuple[str, Any], ...]
"""The attributes of an object, which are plain values."""

KEPT: Final = 65_536
"""Objects without weak references that are kept alive per table: a bound for programs that make them without end."""

_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
_PLAIN_BASES: Final = frozenset({"abc", "typing"})
_OWN_PICKLING: Final = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__")
_HERE: Final = os.urandom(8)
_serial = itertools.count()


class _Table:
    """Objects by a key, held weakly where they can be."""

    def __init__(self) -> None:
        self._weak: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._strong: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any) -> Any:
        """Return the object of a key, None if there is none."""
        found = self._strong.get(key)
        return self._weak.get(key) if found is None else found

    def put(self, key: Any, value: Any) -> None:
        """Let an object be that of a key."""
        try:
            self._weak[key] = value
        except TypeError:  # its class has no weak references
            self._strong[key] = value
            if len(self._strong) > KEPT:
                self._strong.popitem(last=False)


_made_here = _Table()
"""By token, objects of this process that were sent away."""
_opened_here = _Table()
"""By token, copies of objects of other processes."""
_by_id = _Table()
"""By id, the same as `_Entry` objects would hold them: to tell whether an id is still that object's."""
_tokens: dict[int, Token] = {}
"""By id, the tokens of all of them; true while `_by_id` has the object."""


def state_of(value: Any) -> State | None:
    """Return the attributes of an object that has an identity to keep; None if it has none, and goes by value.

    Such an object is an `object()`, or an instance of a class of the user's that leaves pickling to Python and either
    has no attributes, or plain ones and is a constant: bound in its module or class, or named by strings alone. What is
    called or has methods is taken for code, unless it is bound so.
    """
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls is object:
        return ()
    if not _is_plain(cls):
        return None
    state = _attributes(value, cls)
    if state is not None and _by_id.get(id(value)) is value:  # a copy is bound nowhere
        return state
    if state is None or (state and cls.__eq__ is not object.__eq__):
        return None
    tag = all(type(one) is str for _, one in state) and not callable(value) and not _has_methods(cls)
    return state if tag or _is_bound(value, cls) else None


def import_place(value: Any) -> tuple[str, str] | None:
    """Return (module, name) of a constant of an installed module, such as `dataclasses.MISSING`; else None."""
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls is object:
        place = _places_of_objects().get(id(value))
        return place if place is not None and imported(*place) is value else None
    if not imports_alike(cls.__module__) or _pickles_itself(cls):
        return None
    name = _name_in(sys.modules.get(cls.__module__), value)
    return None if name is None else (cls.__module__, name)


def token_of(value: Any) -> Token:
    """Return the token of an object, made now if it has none."""
    key = id(value)
    if _by_id.get(key) is not value:
        _tokens[key] = _HERE, next(_serial)
        _by_id.put(key, value)
        _made_here.put(_tokens[key], value)
        if len(_tokens) > 2 * KEPT:
            for gone in [one for one in _tokens if _by_id.get(one) is None]:
                del _tokens[gone]
    return _tokens[key]


def restored(token: Token, cls: type[Any], state: State, as_worker: bool) -> Any:
    """Return the object of a token as it was when it was sent: itself, or the copy of it that this process has; a new
    copy if it has none in that state."""
    table = _opened_here if as_worker or token[0] != _HERE else _made_here
    found = table.get(token)
    if found is not None and type(found) is cls and _attributes(found, cls) == state:
        return found
    made = object.__new__(cls)
    for name, value in state:
        object.__setattr__(made, name, value)
    if table is _opened_here:
        table.put(token, made)
        _by_id.put(id(made), made)
        _tokens[id(made)] = token
    return made


def imported(module: str, name: str) -> Any:
    """Return what a name of an installed module stands for."""
    __import__(module)
    return getattr(sys.modules[module], name)


def _is_plain(cls: type[Any]) -> bool:
    """Tell whether the classes that an object consists of are the user's, and leave pickling to Python."""
    for base in cls.__mro__[:-1]:
        if imports_alike(base.__module__) and base.__module__ not in _PLAIN_BASES:
            return False
    return not _pickles_itself(cls)


def _pickles_itself(cls: type[Any]) -> bool:
    return any(name in base.__dict__ for base in cls.__mro__[:-1] for name in _OWN_PICKLING)


def _has_methods(cls: type[Any]) -> bool:
    kinds = (FunctionType, staticmethod, classmethod)
    return any(
        isinstance(member, kinds) and not name.startswith("__")
        for base in cls.__mro__[:-1]
        for name, member in base.__dict__.items()
        if base.__module__ not in _PLAIN_BASES
    )


def _attributes(value: Any, cls: type[Any]) -> State | None:
    """Return the attributes of an object; None if one is no plain value."""
    found: list[tuple[str, Any]] = list(getattr(value, "__dict__", {}).items())
    for name in slot_names(cls):
        held = getattr(value, name, ABSENT)
        if held is not ABSENT:
            found.append((name, held))
    return tuple(found) if all(is_plain_value(one) for _, one in found) else None


def is_plain_value(value: Any) -> bool:
    """Tell whether an object is a number, string or the like, or a tuple of such: one that cannot change."""
    if type(value) in (tuple, Size):
        return all(map(is_plain_value, cast("tuple[Any, ...]", value)))
    return type(value) in _ATOMS


def _is_bound(value: Any, cls: type[Any]) -> bool:
    """Tell whether an object is a constant of its class, or of the module of that."""
    if any(member is value for member in cls.__dict__.values()):
        return True
    return _name_in(sys.modules.get(cls.__module__), value) is not None


def _name_in(module: ModuleType | None, value: Any) -> str | None:
    if module is None:
        return None
    return next((name for name, held in list(vars(module).items()) if held is value), None)


_found: tuple[int, dict[int, tuple[str, str]]] = (-1, {})


def _places_of_objects() -> dict[int, tuple[str, str]]:
    """Return, by id, where the `object()` constants of installed modules are bound."""
    global _found
    if _found[0] != len(sys.modules):
        places: dict[int, tuple[str, str]] = {}
        for name, module in list(sys.modules.items()):
            if type(module) is not ModuleType or not imports_alike(name):
                continue
            for key, held in list(vars(module).items()):
                if type(held) is object:
                    places.setdefault(id(held), (name, key))
        _found = len(sys.modules), places
    return _found[1]
