"""Bytecode analysis: the names that a code object loads and stores, inner functions included.

The walk over user code and the search for effects read it. No user code runs."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple, cast

CODES_KEPT: Final = 8192
"""Size of the caches of names by code object; a full cache is cleared, since names are found again in microseconds."""

MUTATORS: Final = frozenset(
    "add append appendleft clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
"""Methods that change a container."""

ARRAY_MUTATORS: Final = frozenset({"fill", "itemset", "partition", "put", "resize", "sort"})
"""Methods that change an array."""

BY_TEXT: Final = frozenset(("eval", "exec", "globals"))
"""Functions that look up names, which often stand in the code's strings."""
_LOOKUPS: Final = BY_TEXT | {"__import__"}
_REFLECTING: Final = frozenset(("__globals__", "__subclasses__"))
IMPORT_CALL: Final = "import_module"
_NAME: Final = re.compile(r"[^\W\d]\w*")
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
    imports: tuple[str, ...] = ()
    """Modules that the code imports, inner functions included; relative ones begin with dots."""
    imports_by_call: tuple[str, ...] = ()
    """What the code gives to `import_module`, inner functions included; "" where that is no constant name."""
    lookups: tuple[str, ...] = ()
    """Names of functions and attributes by which the code may find objects that it does not name."""
    texts: tuple[str, ...] = ()
    """The names in the code's strings, if it may look such names up."""


_names: dict[int, Names] = {}


def names_in(code: CodeType) -> Names:
    """Return the names in a code object."""
    known = _names.get(id(code))
    if known is None:
        found = dict.fromkeys(str(one.argval) for one in dis.get_instructions(code) if one.opname in _GLOBAL_OPS)
        names = dict.fromkeys(code.co_names)
        imports = dict.fromkeys(_imports_in(code))
        called = dict.fromkeys(_imports_by_call(code))
        lookups = dict.fromkeys([*(_LOOKUPS & found.keys()), *(_REFLECTING & names.keys())])
        if "modules" in names and ("sys" in names or "sys" in imports):
            lookups["sys.modules"] = None
        texts = dict.fromkeys(_names_in_strings(code) if BY_TEXT & lookups.keys() else ())
        found.update(texts)
        for inner in map(names_in, inner_codes(code)):
            lookups.update(dict.fromkeys(inner.lookups))
            texts.update(dict.fromkeys(inner.texts))
            found.update(dict.fromkeys(inner.globals))
            names.update(dict.fromkeys(inner.all))
            imports.update(dict.fromkeys(inner.imports))
            called.update(dict.fromkeys(inner.imports_by_call))
        if len(_names) >= CODES_KEPT:
            _names.clear()
        arguments = code.co_varnames[: code.co_argcount]
        known = _names[id(code)] = Names(
            code,
            arguments,
            code.co_freevars,
            tuple(found),
            tuple(names),
            tuple(imports),
            tuple(called),
            tuple(lookups),
            tuple(texts),
        )
    return known


def _names_in_strings(code: CodeType) -> Iterator[str]:
    """Yield the names in the strings that code loads: globals()["RATE"], eval("2 * RATE")."""
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_CONST" and type(one.argval) is str:
            yield from _NAME.findall(one.argval)


def _imports_in(code: CodeType) -> Iterator[str]:
    """Yield the modules that code imports, inner functions excluded."""
    before: list[Any] = []
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            level: Any = before[-2]  # then come the names that are imported from it
            yield "." * (level if type(level) is int else 0) + str(one.argval)
        if one.opname not in _NO_EFFECT:
            before.append(one.argval)


def _imports_by_call(code: CodeType) -> Iterator[str]:
    """Yield the modules that code imports by `import_module("name")`, inner functions excluded; "" for each use of
    `import_module` that gives no such name."""
    if IMPORT_CALL not in code.co_names + code.co_freevars + code.co_varnames:
        return
    skipped = _NO_EFFECT | {"PUSH_NULL", "LOAD_CLOSURE"}
    instructions = [one for one in dis.get_instructions(code) if one.opname not in skipped]
    for one, given, call in zip(instructions, instructions[1:], [*instructions[2:], None], strict=False):
        if one.argval != IMPORT_CALL or not one.opname.startswith(("LOAD_", "IMPORT_FROM")):
            continue
        if one.opname == "IMPORT_FROM":
            if given.argval != IMPORT_CALL:  # under another name
                yield ""
        else:
            called = given.opname == "LOAD_CONST" and call is not None and call.opname == "CALL" and call.arg == 1
            yield given.argval if called and type(given.argval) is str else ""


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


_READERS: Final = frozenset("len sum min max any all sorted list tuple dict set float int bool str repr".split())
"""Built-in functions that leave a container as it is."""
_READS: Final = frozenset(
    "BINARY_SUBSCR LOAD_ATTR LOAD_METHOD GET_ITER CONTAINS_OP COMPARE_OP IS_OP BINARY_SLICE BINARY_OP".split()
)


def passes_on(code: CodeType, name: str) -> bool:
    """Tell whether code might give the object that a variable stands for to others, which could change it: unless it
    only reads items, attributes and facts of it."""
    found = list(dis.get_instructions(code))
    instructions = [one for one in found if one.opname not in _NO_EFFECT]
    for position, one in enumerate(instructions):
        if one.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF") and one.argval == name:
            user, _ = _user_of(instructions, position)
            if user is None:
                return True
            if instructions[user].opname in _READS:
                continue
            before = instructions[position - 1] if position else None
            if user == position + 1 and instructions[user].opname == "CALL" and instructions[user].arg == 1:
                if before is not None and before.opname == "LOAD_GLOBAL" and before.argval in _READERS:
                    continue
            return True
    return any(passes_on(inner, name) for inner in inner_codes(code))


def contents_changed(code: CodeType, name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield how code changes the contents of what a variable stands for, inner functions included: the path to what is
    changed ("[]" for an item), and the method, `OUT` for `out=` of a call, or "" for an item that is stored or
    deleted."""
    instructions = [one for one in dis.get_instructions(code) if one.opname not in _NO_EFFECT]
    keywords = _keywords_of_calls(code)
    for position, one in enumerate(instructions):
        if one.opname not in ("LOAD_GLOBAL", "LOAD_DEREF") or one.argval != name:
            continue
        path: tuple[str, ...] = ()
        user, depth = _user_of(instructions, position)
        while user is not None:
            taker = instructions[user]
            if taker.offset in keywords:
                names = keywords[taker.offset]
                place = depth - (taker.opname == "CALL_KW")  # which has the names on top
                if 1 <= place <= len(names) and names[-place] == "out":
                    yield path, OUT
            elif taker.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
                added_to = instructions[user - 1].opname == "SWAP"  # `a[i] += 1` brings `a` into its place at the end
                if depth == (3 if added_to else 2):  # the container, neither the value nor the index
                    yield path, ""
            elif taker.opname in _ATTRIBUTE_LOADS:
                if taker.argval in MUTATORS or taker.argval in ARRAY_MUTATORS:
                    yield path, str(taker.argval)
                path = (*path, str(taker.argval))
            elif taker.opname == "BINARY_SUBSCR":
                path = (*path, "[]")
            if taker.opname not in _ATTRIBUTE_LOADS and taker.opname != "BINARY_SUBSCR":
                break
            user, depth = _user_of(instructions, user)
    for inner in inner_codes(code):
        yield from contents_changed(inner, name)


OUT: Final = "out="
"""How code changes an array that it passes on to be written to."""


def _keywords_of_calls(code: CodeType) -> dict[int, tuple[str, ...]]:
    """Return, by the offset of each call with keyword arguments, their names."""
    found: dict[int, tuple[str, ...]] = {}
    if not any(["out" in cast("tuple[Any, ...]", const) for const in code.co_consts if type(const) is tuple]):
        return found
    names: Any = None
    for one in dis.get_instructions(code):
        if one.opname == "KW_NAMES" or one.opname == "LOAD_CONST":  # from Python 3.13 on a constant before the call
            names = code.co_consts[one.arg or 0], one.opname == "KW_NAMES"
        elif names is not None and one.opname == ("CALL" if names[1] else "CALL_KW"):
            found[one.offset] = names[0]
        if one.opname not in ("KW_NAMES", "LOAD_CONST", "PRECALL", "CACHE"):
            names = None
    return found


def _user_of(instructions: list[dis.Instruction], position: int) -> tuple[int | None, int]:
    """Return which instruction takes what one has loaded from the stack, None if it is not sure, and at what depth in
    the stack it is then."""
    depth = 1
    for number in range(position + 1, len(instructions)):
        one = instructions[number]
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            return None, 0
        taken = _TAKEN.get(one.opname)
        if one.opname == "CALL":  # Python 3.11 counts what it takes at the instruction before
            given = one.arg or 0
            if depth <= given + 2:
                return number, depth
            depth -= given + 1
        elif taken is None:
            effect = dis.stack_effect(one.opcode, one.arg if one.opcode >= dis.HAVE_ARGUMENT else None)
            if depth + effect < 1:
                return number, depth
            depth += effect
        elif depth <= taken:
            return number, depth
        else:
            depth += dis.stack_effect(one.opcode, one.arg if one.opcode >= dis.HAVE_ARGUMENT else None)
    return None, 0


_TAKEN: Final = {"BINARY_SUBSCR": 2, "LOAD_ATTR": 1, "LOAD_METHOD": 1, "GET_ITER": 1, "CONTAINS_OP": 2, "COMPARE_OP": 2}
"""How many values these take from the top of the stack: more than they take away."""


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
