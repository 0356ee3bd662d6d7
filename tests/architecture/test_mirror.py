"""Each source file has its test file: `proto/graph.py` has `tests/proto/test_graph.py`. Families of ops share one,
and so do optimisers.
"""

from __future__ import annotations

from pathlib import Path

from ..autograd.ops.cases import FAMILIES
from ..optim.rules import RULES

ROOT = Path(__file__).parents[2]
ROOMS = ("autograd", "scheduler", "workers", "proto")

WITHOUT_TEST_FILE: dict[str, str] = {
    # source file: the reason, and which test covers it instead
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
    if path.parent == Path("autograd", "ops") and path.stem in FAMILIES:
        return Path("tests", path.parent, "test_families.py")
    if path.parent == Path("optim") and path.stem in map(str.lower, RULES):
        return Path("tests", path.parent, "test_optimizers.py")
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
