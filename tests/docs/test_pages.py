"""The examples on the pages of the manual run as printed, in the order of their page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

PAGES = (
    "functions",
    "amp",
    "registry",
    "grad_factor",
    "nested_io",
    "sessions",
    "saving",
    "compile",
    "explain",
    "costs",
    "interop",
)


NEEDS = {"interop": ("torch", "jax")}
"""What else a page's examples import."""


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    for framework in NEEDS.get(page, ()):
        pytest.importorskip(framework, reason=f"this page needs {framework}: pip install 'raygrad[{framework}]'")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL)
    said = re.findall(r"^ *print\(.*\) +# (.*)$", "".join(blocks), flags=re.MULTILINE)
    assert said
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks))
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == said
