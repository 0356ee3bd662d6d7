"""A count of the statements of the product, for each room and in total, now and at an earlier revision.

    python benchmarks/count_statements.py                     the working tree
    python benchmarks/count_statements.py --against REV       the tree of a revision beside it, and the difference

A statement is one `ast.stmt` node: a block counts one, and so does each statement in it. Docstrings, strings that
describe a constant, and comments do not count. Symlinks are not followed: each room is read once.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("autograd", "proto", "scheduler", "workers", "src/raygrad")
PROGRAMS = ("benchmarks", "examples", "deploy")

Source = tuple[str, str]
"""A path relative to the root of the repository, and the text there."""


def statements(source: str) -> int:
    """Return how many statements a source holds, leaving out strings that stand alone, as docstrings do."""
    return sum(isinstance(node, ast.stmt) and not is_description(node) for node in ast.walk(ast.parse(source)))


def is_description(node: ast.stmt) -> bool:
    """Return whether a statement is a string that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def room_of(path: str) -> str:
    """Return the room that a path belongs to: the first of `PRODUCT` and `PROGRAMS` that holds it, or ""."""
    return next((room for room in PRODUCT + PROGRAMS if path.startswith(room + "/")), "")


def of_tree(root: Path) -> Iterator[Source]:
    """Yield the sources of a working tree, those behind symlinks left out."""
    for room in PRODUCT + PROGRAMS:
        for path in sorted((root / room).rglob("*.py")):
            inside = path.relative_to(root)
            if not any((root / parent).is_symlink() for parent in (inside, *inside.parents)):
                yield inside.as_posix(), path.read_text(encoding="utf-8")


def of_revision(root: Path, revision: str) -> Iterator[Source]:
    """Yield the sources of a git revision; git lists a symlink as a blob without the ending of a source."""
    listed = git(root, "ls-tree", "-r", "--name-only", "--full-tree", revision).splitlines()
    for path in listed:
        if path.endswith(".py") and room_of(path):
            yield path, git(root, "show", f"{revision}:{path}")


def git(root: Path, *arguments: str) -> str:
    """Return what a git command writes; raises `subprocess.CalledProcessError` where git refuses."""
    return subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True, encoding="utf-8").stdout


def count(sources: Iterable[Source]) -> Counter[str]:
    """Return the number of statements of each room."""
    found: Counter[str] = Counter()
    for path, source in sources:
        found[room_of(path)] += statements(source)
    return found


def table(now: Counter[str], before: Counter[str] | None = None) -> str:
    """Return a table of rooms, their sum and the programs around them; beside an earlier count, if there is one."""
    sums = [Counter({**found, "product": sum(found[room] for room in PRODUCT)}) for found in (now, before or Counter())]
    return "\n".join(
        f"{name:<12}{sums[0][name]:>8,}{compared(sums[0][name], None if before is None else sums[1][name])}"
        for name in (*PRODUCT, "product", *PROGRAMS)
    )


def compared(now: int, before: int | None) -> str:
    """Return the columns of an earlier count and of the change since, or "" without an earlier count."""
    if before is None:
        return ""
    return f"{before:>8,}{now - before:>+8,}" + (f"{(now - before) / before:>+8.1%}" if before else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--against", metavar="REV", help="a git revision to compare with")
    options = parser.parse_args()
    before = None if options.against is None else count(of_revision(ROOT, options.against))
    sys.stdout.write(table(count(of_tree(ROOT)), before) + "\n")


if __name__ == "__main__":
    main()
