"""The suite is what it has to be: how many programs of each kind, and that each is of the kind it claims to be.

Claims are checked against the source of a program together with the helpers of the suite that it calls.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType

import pytest

from .programs import FAMILIES, PROGRAMS, Program

AT_LEAST = {"numpy": 25, "multi_output": 8, "create_graph": 6, "read_between": 6, "trains": 4}
READS = frozenset({"item", "numpy", "tolist"})
READERS = frozenset({"float", "int", "bool", "print"})
PASSES = frozenset({"backward", "grad"})
FAMILY_NAMES = [family.__name__.rpartition(".")[2] for family in FAMILIES]


def parsed(program: Program) -> list[ast.FunctionDef]:
    """The program, first, and each helper of the suite that it calls, as syntax."""
    seen: list[FunctionType] = []

    def visit(function: FunctionType) -> None:
        if function not in seen:
            seen.append(function)
            for name in function.__code__.co_names:
                helper = function.__globals__.get(name)
                if isinstance(helper, FunctionType) and helper.__module__.startswith(__package__ or ""):
                    visit(helper)

    assert isinstance(program.run, FunctionType)
    visit(program.run)
    return [ast.parse(textwrap.dedent(inspect.getsource(function))).body[0] for function in seen]  # type: ignore[misc]


def methods(program: Program, name: str) -> Iterator[ast.FunctionDef]:
    """The methods of that name of the Functions that a program defines or uses."""
    for tree in parsed(program):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                yield node


def calls(tree: ast.AST) -> Iterator[str]:
    """The names of what is called, methods by their last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node.func.id


def computes_in_numpy(program: Program) -> bool:
    return all(any("numpy" in calls(method) for method in methods(program, name)) for name in ("forward", "backward"))


def has_several_outputs(program: Program) -> bool:
    returned = [n.value for m in methods(program, "forward") for n in ast.walk(m) if isinstance(n, ast.Return)]
    return any(isinstance(value, ast.Tuple) and len(value.elts) > 1 for value in returned)


def uses_create_graph(program: Program) -> bool:
    keywords = [n for n in ast.walk(parsed(program)[0]) if isinstance(n, ast.keyword)]
    return any(
        k.arg == "create_graph" and isinstance(k.value, ast.Constant) and k.value.value is True for k in keywords
    )


def reads_between(program: Program) -> bool:
    """A read, outside Functions and hooks, on a line after an application and before a pass."""
    reads: list[int] = []
    passes: list[int] = []

    def walk(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                continue
            if isinstance(child, ast.Call):
                name = child.func.attr if isinstance(child.func, ast.Attribute) else getattr(child.func, "id", "")
                (reads if name in READS | READERS else passes if name in PASSES else []).append(child.lineno)
            walk(child)

    walk(parsed(program)[0])
    return bool(reads and passes) and min(reads) < max(passes)


def trains(program: Program) -> bool:
    tree = parsed(program)[0]
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    return "SGD" in calls(tree) and any({"backward", "step"} <= set(calls(loop)) for loop in loops)


def declares_its_outputs(program: Program) -> bool:
    return re.search(r"\b(infer|num_outputs)\b", inspect.getsource(program.run)) is not None


CHECKS: dict[str, Callable[[Program], bool]] = {
    "numpy": computes_in_numpy,
    "multi_output": has_several_outputs,
    "create_graph": uses_create_graph,
    "read_between": reads_between,
    "trains": trains,
    "infer": declares_its_outputs,
}


def test_there_are_at_least_sixty_programs():
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize("tag", AT_LEAST)
def test_there_are_enough_programs_of_each_kind(tag: str):
    assert sum(tag in program.tags for program in PROGRAMS.values()) >= AT_LEAST[tag]


@pytest.mark.parametrize("tag", CHECKS)
def test_programs_are_of_the_kind_that_they_claim(tag: str):
    wrong = [p.name for p in PROGRAMS.values() if tag in p.tags and not CHECKS[tag](p)]
    assert not wrong


def test_no_program_declares_its_outputs_unless_it_tests_that():
    assert not [p.name for p in PROGRAMS.values() if declares_its_outputs(p) and "infer" not in p.tags]


def test_each_program_says_what_it_would_catch():
    assert not [p.name for p in PROGRAMS.values() if not p.run.__doc__ or "\n" in p.run.__doc__ or not p.ids]


@pytest.mark.parametrize("family", FAMILIES, ids=FAMILY_NAMES)
def test_each_program_of_a_family_is_registered(family: object):
    takes_a_program = [
        f
        for f in vars(family).values()
        if isinstance(f, FunctionType) and [*inspect.signature(f).parameters] == ["T", "log"]
    ]
    assert takes_a_program
    assert all(PROGRAMS[f.__name__].run is f for f in takes_a_program)
