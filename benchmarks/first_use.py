"""What the first use of raygrad costs: its first attribute, in a fresh process, beside NumPy's own import."""

from __future__ import annotations

import subprocess
import sys

from measure import Result, Subject, compare, elsewhere

TIMED = """
import time
{before}
start = time.perf_counter()
{work}
print(time.perf_counter() - start)
"""


def fresh(work: str, before: str = "") -> float:
    """Return the seconds that `work` takes in a fresh process, after `before`."""
    code = TIMED.format(before=before, work=work)
    with elsewhere():
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    subjects = [
        Subject("import numpy", lambda: fresh("import numpy")),
        Subject("import raygrad", lambda: fresh("import raygrad", "import numpy")),
        Subject(
            "import raygrad; raygrad.tensor",
            lambda: fresh("import raygrad; raygrad.tensor", "import numpy"),
            "import numpy",
            "<= 60 ms",
        ),
        Subject(
            "... and a first gradient",
            lambda: fresh("import raygrad; raygrad.tensor([1.0], requires_grad=True).sum().backward()", "import numpy"),
            "import numpy",
        ),
        Subject("... and a Session", lambda: fresh("import raygrad; raygrad.Session", "import numpy"), "import numpy"),
    ]
    return compare("first use in a fresh process, beyond the lines before | process", subjects, 11 if quick else 31)
