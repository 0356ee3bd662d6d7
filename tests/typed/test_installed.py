"""What type checkers say of a program with raygrad, where the wheel is installed: pyright, and `mypy --strict`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("misuse.py")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".make", "shared", "build", "dist", "tests", "__pycache__", "*cache", "*_cache"
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path, may_fail: bool = False) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, timeout=500)
    assert may_fail or not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "sources", symlinks=True, ignore=LEFT_OUT)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    name = run(sys.executable, "-c", build, cwd=folder / "sources").split()[-1]
    return folder / name


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and this one's packages behind it; its folder."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    shutil.copy(PROGRAM, folder)
    return folder


def marked(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if "# error" in line and "`# error`" not in line]


def test_the_wheel_has_the_stubs_and_says_that_it_is_typed(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    stubs = {f"raygrad/stubs/{path.name}" for path in (ROOT / "src/raygrad/stubs").iterdir()}
    assert {"raygrad/py.typed", *stubs} <= names


def test_pyright_reports_the_mistakes_and_nothing_else(fresh: Path) -> None:
    (fresh / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    python = fresh / "env" / "bin" / "python"
    command = (sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", python, PROGRAM.name)
    said = json.loads(run(*command, cwd=fresh, may_fail=True))["generalDiagnostics"]
    found = sorted({one["range"]["start"]["line"] + 1 for one in said if one["severity"] == "error"})
    assert found == marked(PROGRAM.read_text()), said


def test_strict_mypy_reports_the_mistakes_and_nothing_else(fresh: Path) -> None:
    python = fresh / "env" / "bin" / "python"
    command = (sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-executable", python)
    said = run(*command, PROGRAM.name, cwd=fresh, may_fail=True)
    found = sorted({int(line) for line in re.findall(rf"^{PROGRAM.name}:(\d+): error", said, re.M)})
    assert found == marked(PROGRAM.read_text()), said
