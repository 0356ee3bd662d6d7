"""The import graph of the package, imports inside functions counted: no cycle, and no import in a function.

An import of a submodule leads to what it names, not to the packages on the way; imports for type checkers lead nowhere.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import raygrad

PACKAGE = Path(raygrad.__file__).parent

LARGEST_CYCLE = 3
"""Modules that may import each other: a pair that is one concept in two files, and no more."""

LAZY: dict[tuple[str, str], str] = {
    # (module, what it imports inside of a function): the reason
    ("raygrad.autograd.devices.backends.cuda", "cupy"): "is optional",
    ("raygrad.client.session.backends", "raygrad.service.client.opening"): "is optional",
    ("raygrad.autograd.devices", "raygrad.autograd.devices"): "is loaded where a device of it is asked for",
    ("raygrad.autograd.methods.conversions", "asyncio"): "takes long to load, and who awaits a tensor has it",
    ("raygrad.client", "raygrad.workers.executors.ray"): "needs Ray, which is optional",
    ("raygrad.client", "raygrad.report"): "is loaded where a report is asked for",
    ("raygrad.report", "raygrad.report.draw"): "is loaded where something is drawn",
    ("raygrad.report", "jinja2"): "takes long to load",
    ("raygrad.report", "rich"): "takes long to load",
}


class Import(NamedTuple):
    """One name that a module imports.

    Attributes:
        target: the module that it comes from, or that it is.
        function: the function that the statement stands in, "" for none.
    """

    target: str
    function: str
    line: int


def modules() -> dict[str, Path]:
    """The package's modules by name; a package's `__init__` goes by the name of the package."""
    found: dict[str, Path] = {}
    for folder, _, files in os.walk(PACKAGE, followlinks=True):  # rooms are symlinks
        for file in files:
            path = Path(folder, file)
            if path.suffix == ".py":
                parts = path.relative_to(PACKAGE).with_suffix("").parts
                found[".".join(("raygrad", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


MODULES = modules()


def imports_of(name: str, source: str, package: bool) -> Iterator[Import]:
    """Yield what a module imports at runtime, at any level."""

    def visit(node: ast.AST, function: str) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            children: list[ast.AST] = list(node.orelse)
        else:
            children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        elif isinstance(node, ast.Import):
            yield from (Import(alias.name, function, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield Import(whole if whole in MODULES else base, function, node.lineno)
        for child in children:
            yield from visit(child, function)

    def absolute(node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = name.split(".")
        above = parts[: len(parts) - node.level + package]
        return ".".join((*above, node.module) if node.module else above)

    return visit(ast.parse(source), "")


IMPORTS = {name: list(imports_of(name, path.read_text(), path.name == "__init__.py")) for name, path in MODULES.items()}


def components(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of a graph, the largest first (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def search(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in edges[node]:
            if other not in number:
                search(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in edges:
        if node not in number:
            search(node)
    return sorted(found, key=len, reverse=True)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_lazy(module: str, target: str) -> bool:
    return any(is_within(module, one) and is_within(target, other) for one, other in LAZY)


def test_components_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert components(graph) == [["a", "b", "c"], ["d", "e"], ["f"]]


def test_imports_are_found_at_any_level():
    source = """
from typing import TYPE_CHECKING
import numpy.linalg
from . import autograd
if TYPE_CHECKING:
    from .client import session
else:
    from .client.session import Session
def f():
    class Inner:
        def g(self):
            from . import errors
"""
    found = list(imports_of("raygrad", source, True))
    assert [(one.target, one.function) for one in found] == [
        ("typing", ""),
        ("numpy.linalg", ""),
        ("raygrad.autograd", ""),
        ("raygrad.client.session", ""),
        ("raygrad.errors", "g"),
    ]
    assert [one.target for one in imports_of("raygrad.func", "from .autograd.tensor.tensor import Tensor", False)] == [
        "raygrad.autograd.tensor.tensor"
    ]


def test_no_cycle_of_imports_is_large():
    edges = {name: {one.target for one in IMPORTS[name]} & (MODULES.keys() - {name}) for name in MODULES}
    cycles = [found for found in components(edges) if len(found) > 1]
    print("\n".join(f"{len(found)} {' '.join(found)}" for found in cycles))
    assert all(len(found) <= LARGEST_CYCLE for found in cycles), cycles


def test_functions_import_nothing():
    inside = [
        f"{name}:{one.line} {one.function} imports {one.target}"
        for name in MODULES
        for one in IMPORTS[name]
        if one.function and not is_lazy(name, one.target)
    ]
    assert not inside, "\n".join(inside)


def test_each_exception_is_still_one():
    used = {
        pair
        for pair in LAZY
        for name in MODULES
        for one in IMPORTS[name]
        if one.function and is_within(name, pair[0]) and is_within(one.target, pair[1])
    }
    assert used == LAZY.keys()
    assert len(LAZY) <= 9  # with one seed and one class name that is used twice: eleven exceptions in all
