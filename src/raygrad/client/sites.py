"""The user's own line: which file and line of the program made a node."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

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


_our_globals: set[int] = set()
"""Ids of the globals of this package's modules, which are never unloaded: a frame is told by them in a third of the
time of its module's name."""

_site: Any = partial(tuple.__new__, Site)  # pyright: ignore[reportUnknownMemberType]


def user_site() -> Site:
    """Return the innermost place of the calling program that is not in this package."""
    frame: Any = sys._getframe(2)
    while True:
        space = frame.f_globals
        if id(space) not in _our_globals:
            name = space.get("__name__", "")
            module = sys.modules.get(name)
            if not name.startswith(_PREFIX) and name != _OURS:
                return _site((frame.f_code, frame.f_lasti))
            if module is not None and vars(module) is space:
                _our_globals.add(id(space))
        if frame.f_back is None:
            return _site((frame.f_code, frame.f_lasti))
        frame = frame.f_back
