"""The README's example runs as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (said,) = re.findall(r"# waits; prints (.*)", block)
    script = tmp_path / "example.py"
    script.write_text(block)
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60
    )
    assert ran.stdout.strip() == said.strip()


def test_the_example_is_short() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
