"""The visitor of user code: the parts of a function, class, instance, container or module, and the walk along them.

Every observer of user code (fingerprints, guards, captured state, effects, error messages) follows the parts that are
listed here. An observer decides where it stops and what it does with an object. No user code runs."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import resolve_name
from itertools import count, repeat
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, ClassVar, Final, cast

from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.functions.function_class_api import MADE_BY_METACLASS

from .bytecode import BY_TEXT, IMPORT_CALL, names_in
from .guard import ABSENT, MADE_BY_PYTHON, Guard, Part
from .importable import imports_alike, is_well_known

PLAIN: Final = frozenset((int, float, bool, str, bytes, complex, type(None)))
"""Types of values that consist of nothing else."""

TRANSPARENT: Final = frozenset({"function", "method", "accessor", "base"})
"""Roles that do not count as a step: the function of a method, the base of a class."""

DEPTH: Final = 8
"""The depth of searches whose misses only make a message worse."""

_SLOTS_OF_CLASSES: Final = (GetSetDescriptorType, MemberDescriptorType)
_MADE_IN_FUNCTIONS: Final = MADE_BY_PYTHON | MADE_BY_METACLASS


class Visitor:
    """The walk, depth first, in the order of parts. An observer derives from it: its methods visit one object each, and
    return the parts to visit next."""

    looks: ClassVar[Mapping[type[Any], Callable[[Any, Any], Sequence[Part]]]]
    """By type, the method that visits an object of exactly this type."""

    atoms: ClassVar[frozenset[type[Any]]]
    """Types of values without parts, which are not visited."""

    def walk(self, roots: Iterable[Any]) -> None:
        """Visit each root, and then its parts as far as the observer returns them."""
        looks, atoms, other = self.looks, self.atoms, type(self).other
        waiting = [root for root in roots if type(root) not in atoms]
        waiting.reverse()
        while waiting:
            value = waiting.pop()
            kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
            held = looks.get(kind, other)(self, value)
            if held:
                waiting += [part[3] for part in reversed(held) if type(part[3]) not in atoms]

    def other(self, value: Any) -> Sequence[Part]:
        """Visit an object of any other type."""
        raise NotImplementedError


def reachable(root: Any, follows: Callable[[Any], bool], omit: str = "", depth: int = DEPTH) -> Iterator[Any]:
    """Yield an object and its parts, depth first, each once: those that the caller `follows`, no more than `depth`
    steps away. Plain values and parts of the role `omit` are left out."""
    seen: dict[int, Any] = {}
    waiting: list[tuple[int, Any]] = [(depth, root)]
    while waiting:
        left, value = waiting.pop()
        if not left or id(value) in seen or not follows(value):
            continue
        seen[id(value)] = value
        yield value
        for role, _, _, part in reversed(parts(value)):
            if type(part) not in PLAIN and role != omit:
                waiting.append((left - (role not in TRANSPARENT), part))


def named_parts(value: Any, omit: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (name, part) of an object's parts as its author names them: variables first, since a default may be one,
    too."""
    for part in sorted(parts(value), key=lambda part: part[0] in ("default", "keyword default")):
        if part[0] == omit:
            continue
        if part[0] in TRANSPARENT:
            yield from named_parts(part[3], omit)
        else:
            yield label(part), part[3]


def label(part: Part) -> str:
    """Return how a message names a part; empty for one that has no name of its own."""
    role, name, holder, _ = part
    if role in _VARIABLES:
        return f"'{name}'"
    if role in _WRITTEN:
        return _WRITTEN[role].format(name)
    if role == "member":
        return f"'{holder.__name__}.{name}'"
    return f"'{type(holder).__name__}.{name}'" if role in ("attribute", "slot") else ""


_VARIABLES: Final = frozenset({"cell", "global", "self"})
_WRITTEN: Final = {
    "default": "default of '{}'",
    "keyword default": "default of '{}'",
    "through module": "'{}'",
    "argument": "argument {}",
    "keyword": "argument '{}'",
    "value": "[{!r}]",
    "key": "a key",
    "item": "[{}]",
}


# ---- what each kind of object consists of ---------------------------------------------------------------------------


def parts(value: Any) -> list[Part]:
    """Return all parts of an object of any kind."""
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    listed = _LISTED.get(kind)
    if listed is not None:
        return listed(value)
    if isinstance(value, type):
        return class_parts(value)
    if isinstance(value, dict):
        return dict_parts(cast("dict[Any, Any]", value)) + instance_parts(value)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return item_parts(cast("Collection[Any]", value)) + instance_parts(value)
    return instance_parts(value)


def function_parts(function: FunctionType, of_library: bool = False) -> list[Part]:
    """Return the defaults, variables of enclosing functions, attributes and named globals of a function.

    Args:
        of_library: leave out attributes and globals, which are the library's own; what it closes over may be the
            user's, as in a decorator.
    """
    _, arguments, free, global_names, *_ = names_in(function.__code__)
    if function.__code__ is DISPATCHES:
        return dispatch_parts(function)
    found: list[Part] = []
    add = found.append
    defaults, keywords, closure = function.__defaults__, function.__kwdefaults__, function.__closure__
    if defaults:
        first = len(arguments) - len(defaults)
        if first < 0:  # more than there are arguments, which Python allows
            arguments, first = ("?",) * len(defaults), 0
        for number, value in enumerate(defaults, first):
            add(("default", arguments[number], function, value))
    if keywords:
        for name, value in keywords.items():
            add(("keyword default", name, keywords, value))
    if closure:
        for name, cell in zip(free, closure):  # noqa: B905 (of one length, and this is a hot loop)
            try:
                add(("cell", name, cell, cell.cell_contents))
            except ValueError:  # not bound yet
                continue
    if of_library:
        return found
    attributes = function.__dict__
    if attributes:
        for name, value in list(attributes.items()):
            add(("attribute", name, function, value))
    if global_names:
        space = function.__globals__
        for name in global_names:
            if name in space:
                add(("global", name, space, space[name]))
    return found


def through_modules(function: FunctionType, held: Sequence[Part]) -> list[Part]:
    """Return the attributes of user modules that a function may read: those modules among its parts, by its code's
    names."""
    wanted = names_in(function.__code__)
    modules: list[Any] = [part[3] for part in held if isinstance(part[3], ModuleType)]
    modules += imported_inside(function).values()
    found: list[Part] = []
    for module in modules:  # which grows: a.b.RATE
        if is_well_known(module):
            continue
        space = cast("dict[str, Any]", vars(module))
        for name in (*wanted.all, "__getattr__"):
            if name in space:
                value = space[name]
                found.append(("through module", name, space, value))
                if isinstance(value, ModuleType) and not any([value is one for one in modules]):
                    modules.append(value)
    return found


def imported_inside(function: FunctionType) -> dict[str, ModuleType]:
    """Return the modules that a function's code imports when it runs, and that are loaded, by name: packages, too."""
    found: dict[str, ModuleType] = {}
    for name in names_in(function.__code__).imports:
        if name.startswith("."):
            try:
                name = resolve_name(name, function.__globals__.get("__package__"))
            except ImportError:  # in no package: the import will say so
                continue
        path = name.split(".")
        for length in range(1, len(path) + 1):
            module = sys.modules.get(".".join(path[:length]))
            if isinstance(module, ModuleType):
                found[module.__name__] = module
    return found


def looked_up(function: FunctionType) -> list[str]:
    """Return the globals that a function's code names in strings which it may look up or evaluate."""
    space = function.__globals__
    return [name for name in names_in(function.__code__).texts if name in space and not name.startswith("__")]


def unnamed_lookup(function: FunctionType) -> str:
    """Return by what a function's code finds objects that it does not name, as by `globals()[key]`; "" if by nothing
    of the kind."""
    names = names_in(function.__code__)
    space = function.__globals__
    for lookup in names.lookups:
        if lookup in space or (lookup in BY_TEXT and looked_up(function)):
            continue  # a function of the user's, or a lookup of what its strings name
        return lookup
    meant = space.get(IMPORT_CALL, import_module) is import_module
    if meant and not all([name and imports_alike(name) for name in names.imports_by_call]):
        return IMPORT_CALL
    return ""


def guard_function(guard: Guard, function: FunctionType, held: Sequence[Part]) -> None:
    """Guard a function of the user's: its definition, those of its parts that are variables, the modules of the user's
    that it imports, and what it reads by ways that no guard can compare."""
    guard.function(function, held)
    modules = imported_inside(function).items()
    guard.references([("global", name, sys.modules, one) for name, one in modules if not is_well_known(one)])
    guard.unseen = guard.unseen or unnamed_lookup(function)


DISPATCHES: Final = cast(Any, functools.singledispatch(len)).__code__
"""The code of every function that `functools.singledispatch` makes."""


def dispatch_parts(function: Any) -> list[Part]:
    """Return the classes for which implementations are registered with a single-dispatch function, and these."""
    found: list[Part] = []
    for number, (cls, implementation) in enumerate(function.registry.items()):
        found += (("key", number, function, cls), ("value", number, function, implementation))
    return found


def annotation_parts(function: FunctionType) -> list[Part]:
    """Return the annotations of a function: no variables, yet a part of its definition."""
    written = function.__annotations__
    return [("annotation", name, written, value) for name, value in written.items()] if written else []


def class_parts(cls: type) -> list[Part]:
    """Return the bases, members and metaclass of a class."""
    made = _MADE_IN_FUNCTIONS if isinstance(cls, FunctionMeta) else MADE_BY_PYTHON
    found: list[Part] = []
    add = found.append
    for base in cls.__bases__:
        if base is not object:
            add(("base", "", cls, base))
    for name, value in list(cls.__dict__.items()):
        if name not in made and type(value) not in _SLOTS_OF_CLASSES:
            add(("member", name, cls, value))
    metaclass = type(cls)
    if metaclass is not type and metaclass is not FunctionMeta and not imports_alike(metaclass.__module__):
        add(("metaclass", "", cls, metaclass))
    return found


def instance_parts(value: Any) -> list[Part]:
    """Return the attributes, slots and class of an instance of a class of the user's; of any other the attributes."""
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    found = attribute_parts(value)
    if not imports_alike(cls.__module__):
        slots = slot_names(cls)
        if slots:
            found += slot_parts(value, slots)
        found.append(("class", "", value, cls))
    return found


def attribute_parts(value: Any) -> list[Part]:
    """Return the attributes that an object has in its dict."""
    attributes: Any = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict):
        return []
    return [("attribute", name, value, held) for name, held in list(cast("dict[str, Any]", attributes).items())]


def slot_parts(value: Any, names: Iterable[str]) -> list[Part]:
    """Return the attributes of an object that are in slots of these names."""
    return [("slot", name, value, getattr(value, name, ABSENT)) for name in names]


def slot_names(cls: type[Any]) -> list[str]:
    """Return the names of the slots of a class and of what it inherits from, as Python mangles them."""
    found: list[str] = []
    for base in cls.__mro__:
        if "__slots__" in base.__dict__:
            found += [name for name, one in list(base.__dict__.items()) if type(one) is MemberDescriptorType]
    return found


def method_parts(method: MethodType) -> list[Part]:
    """Return the object and the function of a bound method."""
    return [("self", "self", method, method.__self__), ("method", "", method, method.__func__)]


def partial_parts(partial: functools.partial[Any]) -> list[Part]:
    """Return the function and the given arguments of a partial."""
    found: list[Part] = [("function", "", partial, partial.func)]
    found += zip(repeat("argument"), count(), repeat(partial), partial.args)
    found += [("keyword", name, partial, value) for name, value in partial.keywords.items()]
    return found + attribute_parts(partial)


def descriptor_parts(descriptor: Any) -> list[Part]:
    """Return the function of a staticmethod or classmethod."""
    function: Any = descriptor.__func__
    return [("method" if isinstance(descriptor, classmethod) else "function", "", cast(Any, descriptor), function)]


def property_parts(descriptor: property) -> list[Part]:
    """Return the functions of a property."""
    accessors = (descriptor.fget, descriptor.fset, descriptor.fdel)
    return [("accessor", "", descriptor, one) for one in accessors if one is not None]


def module_parts(module: ModuleType) -> list[Part]:
    """Return the attributes of a module, without dunder names."""
    return [part for part in attribute_parts(module) if not part[1].startswith("__")]


def is_data(value: Any) -> bool:
    """Tell whether an attribute of a module is no code."""
    return not isinstance(value, FunctionType | BuiltinFunctionType | type)


def dict_parts(mapping: dict[Any, Any]) -> list[Part]:
    """Return the keys and values of a dict."""
    plain: Any = dict
    items: list[tuple[Any, Any]] = list(plain.items(mapping))
    found: list[Part] = [("key", key, mapping, key) for key, _ in items]
    found += [("value", key, mapping, value) for key, value in items]
    return found


def item_parts(items: Collection[Any]) -> list[Part]:
    """Return the items of a list, tuple, set or deque."""
    return list(zip(repeat("item"), count(), repeat(items), list(items)))


def _every_part(function: FunctionType) -> list[Part]:
    found = function_parts(function)
    return found + through_modules(function, found)


_LISTED: Final[dict[type[Any], Callable[[Any], list[Part]]]] = {
    FunctionType: _every_part,
    MethodType: method_parts,
    staticmethod: descriptor_parts,
    classmethod: descriptor_parts,
    property: property_parts,
    functools.partial: partial_parts,
    type: class_parts,
    FunctionMeta: class_parts,
    ModuleType: module_parts,
    dict: dict_parts,
    **dict.fromkeys((list, tuple, set, frozenset, deque), item_parts),
    **dict.fromkeys(PLAIN, lambda value: []),
}
