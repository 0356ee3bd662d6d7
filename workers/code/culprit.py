"""The path to an unpicklable part of an object: variables, elements and attributes on the way, for error messages.

`pickling` names it in the message of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .visitor import DEPTH, named_parts


def path_to_unpicklable(obj: Any, fits: Callable[[Any], bool]) -> str:
    """Return the path to the part of `obj` for which `fits` is False: "'lock' (a _thread.lock)", "'state' ['file'] (a
    ...)"; empty if no part alone is at fault."""
    path, leaf = _search(obj, fits, {id(obj)}, DEPTH)
    return f"{' '.join(filter(None, path))} (a {type(leaf).__name__})" if path else ""


def _search(obj: Any, fits: Callable[[Any], bool], seen: set[int], depth: int) -> tuple[list[str], Any]:
    if depth:
        for name, value in named_parts(obj):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if not fits(value):
                path, leaf = _search(value, fits, seen, depth - 1)
                return [name, *path], leaf
    return [], obj
