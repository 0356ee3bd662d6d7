"""What begins with an underscore is its room's own: others read and set what `autograd.interface` lists, and no more.

A name belongs to the rooms that define it: as an attribute, a slot, a method, or a variable, function or class of a
module. A room that defines a name itself is taken to mean its own, except on `self` where no class of it does.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import raygrad
from raygrad.autograd.interface import INTERFACE, READABLE, SETTABLE

PACKAGE = Path(raygrad.__file__).parent

CLASSES_OF_ONE_NAME: frozenset[str] = frozenset({"Node"})  # the base class, and PyTorch's `autograd.graph.Node`
"""Names that two classes of the package bear, and may keep."""


class Access(NamedTuple):
    """One use of a name with an underscore.

    Attributes:
        on_self: it is an attribute of `self` or `cls`.
        by_text: it is a string or a keyword, which may name something else.
        sets: it sets or deletes it.
    """

    name: str
    line: int
    on_self: bool = False
    by_text: bool = False
    sets: bool = False


class Names(NamedTuple):
    """The names with an underscore that a source file defines: those of its modules and functions, and of classes."""

    outside: set[str]
    of_classes: set[str]


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and name.strip("_") != "" and name[0] == "_" != name[1]


def sources() -> Iterator[tuple[str, Path]]:
    """Yield each source file with its room; a module that stands in no room is one by itself."""
    for folder, _, files in os.walk(PACKAGE, followlinks=True):  # rooms are symlinks
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder, file)
                yield path.relative_to(PACKAGE).with_suffix("").parts[0], path


TREES = [(room, path, ast.parse(path.read_text())) for room, path in sources()]


def variables(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what statements of a module or a class assign to."""
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from variables([*node.body, *getattr(node, "orelse", [])])


def slots(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__slots__" for one in node.targets
        ):
            yield from (str(one.value) for one in ast.walk(node.value) if isinstance(one, ast.Constant))


def defined(tree: ast.Module) -> Names:
    """Return what a source file defines."""
    names = Names(set(variables(tree.body)), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
            names.of_classes.update(methods, variables(node.body), slots(node.body))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.outside.add(node.name)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            names.of_classes.add(node.attr)
    return Names({name for name in names.outside if is_private(name)}, {n for n in names.of_classes if is_private(n)})


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def accesses(tree: ast.Module) -> Iterator[Access]:
    """Yield the uses of names with an underscore: as attributes, by `getattr`, as keys of what becomes a `__dict__`."""
    keys: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=value, ctx=ctx) if is_private(name):
                yield Access(name, node.lineno, is_self(value), sets=not isinstance(ctx, ast.Load))
            case ast.Dict():
                keys.update(id(key) for key in node.keys)
            case ast.Subscript(slice=key, ctx=ctx) if not isinstance(ctx, ast.Load):
                keys.add(id(key))
            case ast.keyword(arg=name) if is_private(name):
                yield Access(str(name), node.lineno, by_text=True, sets=True)
            case ast.Constant(value=name) if is_private(name):
                yield Access(str(name), node.lineno, by_text=True, sets=id(node) in keys)
            case _:
                pass


def imported(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield (module, name, line) of what is imported by a full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.module or "", alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)


def names_by_room() -> dict[str, Names]:
    found: dict[str, Names] = defaultdict(lambda: Names(set(), set()))
    for room, _, tree in TREES:
        names = defined(tree)
        found[room].outside.update(names.outside)
        found[room].of_classes.update(names.of_classes)
    return found


NAMES = names_by_room()


def owners(room: str, one: Access) -> list[str]:
    """Return the rooms that a name which `room` uses belongs to; none where it is its own, or nobody's here."""
    own = NAMES[room]
    if one.name in own.of_classes or (one.name in own.outside and not one.on_self):
        return []
    if one.by_text:
        return ["autograd"] if one.name in NAMES["autograd"].of_classes else []
    return [other for other, names in NAMES.items() if one.name in names.of_classes or one.name in names.outside]


def across() -> Iterator[tuple[Path, Access, list[str]]]:
    """Yield the uses of what is another room's."""
    for room, path, tree in TREES:
        for one in accesses(tree):
            if found := owners(room, one):
                yield path, one, found


ACROSS = list(across())


def test_uses_of_names_are_found():
    tree = ast.parse(
        "class A:\n __slots__ = ('_a',)\n def _b(self): self._c = other._d\n"
        "other._e = getattr(other, '_f')\nother.__dict__.update(_g=1)\nmembers = {'_h': 1}\nmembers['_i'] = 2\n"
        "_j, x = 1, 2"
    )
    assert defined(tree) == Names({"_b", "_j"}, {"_a", "_b", "_c"})
    found = [(one.name, one.sets, one.by_text, one.on_self) for one in accesses(tree)]
    assert sorted(found) == [
        ("_a", False, True, False),
        ("_c", True, False, True),
        ("_d", False, False, False),
        ("_e", True, False, False),
        ("_f", False, True, False),
        ("_g", True, True, False),
        ("_h", True, True, False),
        ("_i", True, True, False),
    ]
    assert not any(map(is_private, ("_", "__", "__slots__", "__all__", "plain", "_ two words", 3)))


def test_a_name_is_of_the_room_that_defines_it():
    assert owners("workers", Access("_data", 1)) == ["autograd"]
    assert owners("workers", Access("_data", 1, by_text=True)) == ["autograd"]
    assert owners("autograd", Access("_data", 1)) == []
    assert owners("workers", Access("_getframe", 1)) == []  # Python's


def test_other_rooms_use_what_the_interface_lists_and_no_more():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{one.line}: {'sets' if one.sets else 'reads'} {one.name} of {', '.join(rooms)}"
        for path, one, rooms in ACROSS
        if "autograd" not in rooms or one.name not in (SETTABLE if one.sets else READABLE | SETTABLE)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_the_interface_lists_is_used():
    used = {one.name for _, one, _ in ACROSS}
    were_set = {one.name for _, one, _ in ACROSS if one.sets}
    assert READABLE | SETTABLE <= used, sorted((READABLE | SETTABLE) - used)
    assert were_set >= SETTABLE, sorted(SETTABLE - were_set)


@pytest.mark.parametrize("opened", INTERFACE, ids=lambda opened: opened.of)
def test_the_interface_lists_what_there_is(opened):
    module, _, name = opened.of.rpartition(".")
    cls = getattr(importlib.import_module(f"raygrad.autograd.{module}"), name)
    annotated = {one for base in cls.__mro__ for one in vars(base).get("__annotations__", ())}
    for attribute in opened.attributes:
        assert hasattr(cls, attribute.name) or attribute.name in annotated, attribute.name
        assert is_private(attribute.name), "what is public need not be listed"
        assert attribute.why.endswith("."), attribute.name


def test_no_room_imports_what_is_private_to_another():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {name or module}"
        for room, path, tree in TREES
        for module, name, line in imported(tree)
        if module.split(".")[0] == "raygrad" and [*module.split("."), room][1] != room
        if any(map(is_private, [*module.split("."), name]))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_classes_bear_one_name():
    found: dict[str, list[str]] = defaultdict(list)
    for _, path, tree in TREES:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    double = {name: places for name, places in found.items() if len(places) > 1}
    wrong = {name: places for name, places in double.items() if name not in CLASSES_OF_ONE_NAME}
    assert not wrong, wrong
    assert double.keys() >= CLASSES_OF_ONE_NAME, "an exception that is none any more"
    assert len(CLASSES_OF_ONE_NAME) <= 5


def test_the_package_shows_what_is_public():
    code = "import raygrad; print(*dir(raygrad))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    names = found.stdout.split()
    assert {name for name in names if name[0] == "_"} <= vars(raygrad).keys()
    assert not [name for name in names if name[0] == "_" and not (name.startswith("__") and name.endswith("__"))]
    assert not {"annotations", "importlib", "Any", "TYPE_CHECKING"} & set(names)
    assert {*raygrad.__all__, "sum", "matmul"} <= set(names)
