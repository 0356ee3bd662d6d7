"""Bytecode analysis: the names that a code object loads and stores, inner functions included.

The walk over user code and the search for effects read it. No user code runs."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple, cast

CODES_KEPT: Final = 8192
"""Size of the caches of names by code object; a full cache is cleared, since names are found again in microseconds."""

MUTATORS: Final = frozenset(
    "add append appendleft clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
"""Methods that change a container."""

_ATTRIBUTE_LOADS: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_GLOBAL_OPS: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTE_STORES: Final = ("STORE_ATTR", "DELETE_ATTR")
_ITEM_STORES: Final = frozenset((dis.opmap["STORE_SUBSCR"], dis.opmap["DELETE_SUBSCR"]))
_NO_EFFECT: Final = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL"))


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of the functions, lambdas, comprehensions and classes that code defines."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const


class Names(NamedTuple):
    """The names in a code object by which its functions refer to objects."""

    code: CodeType
    arguments: tuple[str, ...]
    """Arguments that may have a default."""
    free: tuple[str, ...]
    """Variables of enclosing functions, in the order of the closure."""
    globals: tuple[str, ...]
    """Globals that the code reads or writes, inner functions included."""
    all: tuple[str, ...]
    """Globals and attributes, inner functions included."""


_names: dict[int, Names] = {}


def names_in(code: CodeType) -> Names:
    """Return the names in a code object."""
    known = _names.get(id(code))
    if known is None:
        found = dict.fromkeys(str(one.argval) for one in dis.get_instructions(code) if one.opname in _GLOBAL_OPS)
        names = dict.fromkeys(code.co_names)
        for inner in map(names_in, inner_codes(code)):
            found.update(dict.fromkeys(inner.globals))
            names.update(dict.fromkeys(inner.all))
        if len(_names) >= CODES_KEPT:
            _names.clear()
        arguments = code.co_varnames[: code.co_argcount]
        known = _names[id(code)] = Names(code, arguments, code.co_freevars, tuple(found), tuple(names))
    return known


def stores_attribute(code: CodeType, name: str) -> bool:
    """Tell whether code stores or deletes an attribute of this name, inner functions excluded."""
    return any([one.opname in _ATTRIBUTE_STORES and one.argval == name for one in dis.get_instructions(code)])


def paths_to(code: CodeType, name: str) -> Iterator[tuple[str, ...]]:
    """Yield how code names each global or attribute `name`, inner functions excluded: `a.b.name` as (a, b, name), `a` a
    global or a variable of an enclosing function; () where `name` is stored, imported, or an attribute of anything
    else."""
    path: tuple[str, ...] = ()
    one: dis.Instruction
    for one in dis.get_instructions(code):
        if one.opname in _NO_EFFECT:
            continue
        if one.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            path = (str(one.argval),)
        elif one.opname in _ATTRIBUTE_LOADS:
            path = path and (*path, str(one.argval))
        else:
            path = ()
        if one.argval == name and one.opname not in ("LOAD_CONST", "KW_NAMES", "LOAD_FAST", "STORE_FAST"):
            yield path


def writes_items(code: CodeType) -> bool:
    """Tell whether code might change a container: it stores an item, or names a method such as `append`."""
    if not MUTATORS.isdisjoint(code.co_names) or not _ITEM_STORES.isdisjoint(code.co_code[::2]):
        return True
    return any(writes_items(inner) for inner in inner_codes(code))


def stored_outside(code: CodeType, free: frozenset[str], bound: bool, leaves: frozenset[str]) -> str | None:
    """Return the name of a variable or attribute that code stores to and that outlives the call; None if none.

    Args:
        free: the variables of enclosing functions that were there before the call.
        bound: the first argument outlives the call.
        leaves: variables of which a stored `.grad` does not count.
    """
    before: list[dis.Instruction] = []
    for one in dis.get_instructions(code):
        if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return str(one.argval)
        if one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in free:
            return str(one.argval)
        if one.opname in _ATTRIBUTE_STORES and _outlives(_root(before), code, free, bound):
            if one.argval != "grad" or not before or _name_of(before[-1]) not in leaves:
                return str(one.argval)
        if one.opname not in _NO_EFFECT:
            before.append(one)
    for inner in inner_codes(code):
        found = stored_outside(inner, free, False, leaves)
        if found is not None:
            return found
    return None


def _root(before: list[dis.Instruction]) -> dis.Instruction | None:
    """Return the instruction that loaded the root object of an attribute store: `a` of `a.b.c = 1` and `a.b.c += 1`."""
    position = len(before) - 1
    if position >= 0 and before[position].opname == "SWAP":  # in `a.b += 1` the object was copied before it was read
        while position >= 0 and before[position].opname != "COPY":
            position -= 1
        position -= 1
    while position >= 0 and before[position].opname == "LOAD_ATTR":
        position -= 1
    return before[position] if position >= 0 else None


def _outlives(loaded: dis.Instruction | None, code: CodeType, free: frozenset[str], bound: bool) -> bool:
    if loaded is None:
        return True
    name = _name_of(loaded)
    is_first = bound and bool(code.co_varnames) and name == code.co_varnames[0]
    if loaded.opname.startswith("LOAD_FAST"):
        return is_first
    return is_first or name in free or loaded.opname not in ("LOAD_DEREF", "LOAD_CLASSDEREF")


def _name_of(loaded: dis.Instruction) -> str:
    """Return the variable that an instruction loads."""
    argval: Any = loaded.argval
    return str(cast("tuple[Any, ...]", argval)[-1] if type(argval) is tuple else argval)
