"""The user's own line: which file and line of the program made a node."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import NamedTuple

_OURS = "raygrad"
_PREFIX = "raygrad."


class Site(NamedTuple):
    """A place in the user's program; the line is looked up only when somebody asks."""

    code: CodeType
    instruction: int

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.instruction < end and number is not None:
                line = number
        return f"{_short(self.code.co_filename)}:{line} in {self.code.co_name}"


def _short(filename: str) -> str:
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except ValueError:
        return filename


def user_site() -> Site:
    """Return the innermost place of the calling program that is not in this package."""
    frame = sys._getframe(2)
    while True:
        name = frame.f_globals.get("__name__", "")
        if (not name.startswith(_PREFIX) and name != _OURS) or frame.f_back is None:
            return Site(frame.f_code, frame.f_lasti)
        frame = frame.f_back
