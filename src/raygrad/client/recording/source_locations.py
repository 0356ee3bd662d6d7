"""Source locations: the user's file and line that recorded a node.

Recorders ask for the innermost frame outside of the package; errors, warnings and reports show it.
"""

from __future__ import annotations

import sys
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
"""Ids of the globals of this package's modules, which are never unloaded: they identify a frame in a third of the time
that its module's name takes."""

_MAX_CODES = 4_096
"""Users' functions that are remembered: a program that makes new ones again and again must not fill the memory."""

_users: dict[int, tuple[CodeType, dict[int, Site]]] = {}
"""By its id, code of the user's that has recorded, and its places: a loop records at the same ones again and again."""


def user_site(depth: int = 2) -> Site:
    """Return the innermost place of the calling program that is not in this package; the frames within `depth` are
    known to be."""
    frame: Any = sys._getframe(depth)
    while True:
        space = frame.f_globals
        if id(space) not in _our_globals:
            code = frame.f_code
            known = _users.get(id(code))
            if known is not None and known[0] is code:
                site = known[1].get(frame.f_lasti)
                return _new_place(known[1], code, frame.f_lasti) if site is None else site
            name = space.get("__name__", "")
            module = sys.modules.get(name)
            if not name.startswith(_PREFIX) and name != _OURS:
                break
            if module is not None and vars(module) is space:
                _our_globals.add(id(space))
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    code = frame.f_code
    if len(_users) >= _MAX_CODES:
        _users.clear()
    places: dict[int, Site] = {}
    _users[id(code)] = (code, places)
    return _new_place(places, code, frame.f_lasti)


def _new_place(places: dict[int, Site], code: CodeType, instruction: int) -> Site:
    place = places[instruction] = Site(code, instruction)
    return place
