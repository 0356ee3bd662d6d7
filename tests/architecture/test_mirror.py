"""Each source file has its test file: `proto/graph.py` has `tests/proto/test_graph.py`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("autograd", "scheduler", "workers", "proto")

WITHOUT_TEST_FILE: dict[str, str] = {
    # source file: the reason, and which test covers it instead
    "autograd/assembly.py": "fills slots of others: tests/autograd/test_dispatch.py, tests/autograd/test_methods.py",
    "autograd/catalogue.py": "a slot: tests/autograd/test_derive.py",
    "autograd/dispatch_table.py": "slots: tests/autograd/batching/test_apply.py, tests/autograd/test_tangents.py",
    "autograd/graph_methods.py": "methods of tensors: tests/autograd/test_tensor.py",
    "autograd/memory_layout.py": "what overlap is told by: tests/autograd/test_overlap.py",
    "autograd/replay.py": "views made again: tests/autograd/test_views.py, tests/autograd/test_places.py",
    "autograd/surface.py": "names alone: tests/autograd/test_methods.py",
    "autograd/devices/served.py": "a table: tests/autograd/devices/test_serving.py",
    "autograd/ops/vector_norms.py": "a reduction: tests/autograd/ops/test_reduce.py",
}


def sources() -> dict[str, Path]:
    """The test file that each source file should have, by source file."""
    expected: dict[str, Path] = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            expected[str(path.relative_to(ROOT))] = mirror(path.relative_to(ROOT))
    facade = ROOT / "src" / "raygrad"
    for path in facade.rglob("*.py"):
        inside = path.relative_to(facade)
        if inside.parts[0] not in ROOMS:  # a symlink, seen above; rglob follows symlinks up to Python 3.12
            expected[str(path.relative_to(ROOT))] = mirror(inside)
    return {source: test for source, test in expected.items() if not source.endswith("__init__.py")}


def mirror(path: Path) -> Path:
    return Path("tests", path.parent, f"test_{path.name.removeprefix('_')}")


def test_each_source_file_has_its_test_file():
    missing = [
        f"{source} has no {test}"
        for source, test in sources().items()
        if source not in WITHOUT_TEST_FILE and not (ROOT / test).exists()
    ]
    assert not missing, "\n".join(sorted(missing))


def test_each_exception_is_still_one():
    known = sources()
    stale = [source for source in WITHOUT_TEST_FILE if source not in known or (ROOT / known[source]).exists()]
    assert not stale
