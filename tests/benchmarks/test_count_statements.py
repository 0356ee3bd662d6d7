"""The count of statements leaves out what is not one, and reads each source once."""

from __future__ import annotations

import importlib.util
import subprocess
from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "count_statements.py"
spec = importlib.util.spec_from_file_location("benchmark_count_statements", FILE)
assert spec is not None
assert spec.loader is not None
counting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counting)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ('"""Head."""\n# a comment\nA = 1\n"""What A is."""\n', 1),
        ('def f():\n    """Contract."""\n    return 1\n', 2),
        ('class C:\n    """Contract."""\n\n    def f(self):\n        if self:\n            pass\n', 4),
        ("a = 1; b = 2\n", 2),
        ("async def f(x):\n    async with x:\n        return [y for y in x]\n", 3),
    ],
)
def test_blocks_and_simple_statements_count_and_strings_that_stand_alone_do_not(source, expected):
    assert counting.statements(source) == expected


def test_sources_behind_symlinks_are_left_out(tmp_path):
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto" / "a.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "src" / "raygrad").mkdir(parents=True)
    (tmp_path / "src" / "raygrad" / "b.py").write_text("a = 1\n")
    (tmp_path / "src" / "raygrad" / "proto").symlink_to("../../proto")
    assert counting.count(counting.of_tree(tmp_path)) == {"proto": 2, "src/raygrad": 1}


def test_a_revision_is_read_from_git_and_not_from_the_working_tree(tmp_path):
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto" / "a.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("a = 1\n")
    name = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for command in (("init", "-q"), ("add", "."), (*name, "commit", "-q", "-m", "Begin")):
        subprocess.run(("git", *command), cwd=tmp_path, check=True)
    (tmp_path / "proto" / "a.py").write_text("a = 1\n")
    assert counting.count(counting.of_revision(tmp_path, "HEAD")) == {"proto": 2}
    assert counting.count(counting.of_tree(tmp_path)) == {"proto": 1}


def test_a_table_has_the_sum_of_the_rooms_and_the_change_since():
    rows = counting.table(Counter(autograd=9, proto=1, examples=5), Counter(autograd=19, proto=1)).splitlines()
    assert next(row for row in rows if row.startswith("product")).split() == ["product", "10", "20", "-10", "-50.0%"]
    assert next(row for row in rows if row.startswith("examples")).split() == ["examples", "5", "0", "+5"]
    assert counting.table(Counter(proto=1)).splitlines()[1].split() == ["proto", "1"]
