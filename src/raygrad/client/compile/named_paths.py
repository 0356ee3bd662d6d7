"""Named paths: the dotted names by which code reads variables, imported modules and their attributes.

The closure guard resolves them to what they mean now. `m.inner.K` is the path (m, inner, K), whether `m` is a global, a
variable of an enclosing function, or imported by the code itself. No user code runs."""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from raygrad.workers.code.bytecode import inner_codes

CALLED: Final = "()"
"""The end of a path that is called without arguments."""

_GLOBALS: Final = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_CELLS: Final = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_ATTRIBUTES: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
_STORES: Final = frozenset(("STORE_FAST", "STORE_DEREF"))
_NO_EFFECT: Final = frozenset(
    ("CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL", "PUSH_NULL", "SWAP", "POP_TOP", "COPY")
)


class ImportedName(NamedTuple):
    """What an import statement in code refers to, as the root of a path."""

    level: int
    """The dots of a relative import."""
    module: str


NamedPath: TypeAlias = "tuple[str | ImportedName, ...]"


@lru_cache(maxsize=8192)
def paths_in(code: CodeType) -> tuple[NamedPath, ...]:
    """Return the paths that code reads, inner functions included. The root of a path of its own variables is "": that
    of `self.rate` is ("", rate)."""
    found: dict[NamedPath, None] = {}
    _collect(code, frozenset(code.co_freevars), {}, found)
    return tuple(found)


def _collect(
    code: CodeType, free: frozenset[str], imported: dict[str, NamedPath], found: dict[NamedPath, None]
) -> None:
    """Collect the paths of code.

    Args:
        free: variables that were there before the outermost function was called.
        imported: by variable of enclosing code, the path of what it has imported.
    """
    path: tuple[str | ImportedName, ...] = ()
    statement: tuple[str | ImportedName, ...] = ()
    before: tuple[Any, Any] = (None, None)
    one: dis.Instruction
    for one in dis.get_instructions(code):
        operation = one.opname
        name: Any = one.argval
        if operation in _NO_EFFECT:
            continue
        if operation in _ATTRIBUTES:
            path = (*(path or ("",)), str(name))
            continue
        if operation == "IMPORT_FROM":
            path = (*(path or statement), str(name))
            found[path] = None
            continue
        if operation in _STORES and path and type(path[0]) is ImportedName:
            imported[str(name)] = path
            path = ()
            continue
        if path and path != ("",):
            found[(*path, CALLED) if operation == "CALL" and not one.arg else path] = None
        path = ()
        if operation == "IMPORT_NAME":
            level, names = before
            module = str(name) if names or level else str(name).partition(".")[0]
            path = statement = (ImportedName(cast(int, level or 0), module),)
        elif operation in _GLOBALS:
            path = (str(name),)
        elif operation in _CELLS:
            path = imported.get(str(name), (str(name) if name in free else "",))
        elif operation.startswith("LOAD_FAST"):
            path = imported.get(str(cast("tuple[Any, ...]", name)[-1] if type(name) is tuple else name), ("",))
        before = (before[1], cast(Any, name))
    for inner in inner_codes(code):
        _collect(inner, free, dict(imported), found)
