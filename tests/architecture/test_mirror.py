"""Tests mirror the sub-rooms: what stands in `scheduler/memory/` is tested in `tests/scheduler/memory/`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("autograd", "scheduler", "workers", "proto")
FACADE = ROOT / "src" / "raygrad"


def rooms() -> dict[Path, Path]:
    """The folder of tests of each folder of sources."""
    found: dict[Path, Path] = {}
    for room in ROOMS:
        found |= {path.parent: Path("tests", path.parent.relative_to(ROOT)) for path in (ROOT / room).rglob("*.py")}
    for path in FACADE.rglob("*.py"):
        inside = path.relative_to(FACADE)
        if inside.parts[0] not in ROOMS:  # a symlink, seen above; rglob follows symlinks up to Python 3.12
            found[path.parent] = Path("tests", inside.parent)
    return {folder: tests for folder, tests in found.items() if has_modules(folder)}


def has_modules(folder: Path) -> bool:
    return any(path.name != "__init__.py" for path in folder.glob("*.py"))


def test_each_room_has_its_folder_of_tests():
    missing = [f"{folder.relative_to(ROOT)}: {tests}" for folder, tests in rooms().items() if not has_tests(tests)]
    assert not missing, "\n".join(sorted(missing))


def test_each_folder_of_tests_of_a_room_is_that_of_a_room_that_is_still_there():
    mirrors = {*rooms().values(), *(Path("tests", room) for room in (*ROOMS, "client"))}
    inside = {path.parent.relative_to(ROOT) for room in (*ROOMS, "client") for path in files_of_tests(room)}
    assert not inside - mirrors


def test_each_room_of_several_files_says_in_its_head_what_it_is():
    for folder in rooms():
        head = (folder / "__init__.py").read_text()
        assert head.startswith('"""'), folder
        assert "TODO" not in head, folder


def has_tests(tests: Path) -> bool:
    return any((ROOT / tests).glob("test_*.py"))


def files_of_tests(room: str) -> list[Path]:
    return list((ROOT / "tests" / room).rglob("test_*.py"))
