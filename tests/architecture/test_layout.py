"""The rooms are folders of the root, one package ties them together, and none of them is found under its bare name."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("autograd", "scheduler", "workers", "proto")


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_a_relative_symlink_of_the_package(room: str):
    link = ROOT / "src" / "raygrad" / room
    assert link.is_symlink()
    assert link.readlink() == Path("../..", room)
    assert link.resolve() == ROOT / room


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_imported_as_part_of_raygrad(room: str):
    module = importlib.import_module(f"raygrad.{room}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / room / "__init__.py"


@pytest.mark.parametrize("room", ROOMS)
def test_bare_room_import_from_the_root_says_the_right_name(room: str):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {room}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert f"use `import raygrad.{room}`" in done.stderr


@pytest.mark.parametrize("name", ["conftest.py", "__init__.py", "setup.py"])
def test_root_holds_no_module_that_would_put_it_on_the_path(name: str):
    assert not (ROOT / name).exists()


def test_package_is_marked_as_typed():
    assert (ROOT / "src" / "raygrad" / "py.typed").exists()


ORDER = {"proto": 0, "autograd": 0, "scheduler": 1, "workers": 2, "report": 3}
"""The rooms from the lowest up; all others are above these."""


@pytest.mark.parametrize("room", ["proto", "autograd", "scheduler", "workers"])
def test_imports_of_types_alone_go_downwards_too(room: str):
    """import-linter is told to pass over them, since inside a room they may go either way. The generated stubs are
    declarations of what is in the rooms, and of no room themselves."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / room).rglob("*.py")
        for name in imported_rooms(path)
        if name not in ("errors", "tracebacks", "stubs", room) and ORDER.get(name, 9) >= ORDER[room]
    ]
    assert not wrong, wrong


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from by their full names, types included."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {node.module.split(".")[1] for node in nodes if (node.module or "").startswith("raygrad.") and node.module}
