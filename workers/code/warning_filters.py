"""Filters of `warnings` under which user code was recorded: numbered at the client, and put in force where it runs.

In the client's process the filters themselves are in force around user code. A worker of its own process captures all
warnings for the client to filter (`warning_capture`), and so needs only those filters that make an error of one: user
code may catch it, and else fails by it.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any, cast

from raygrad.errors import NotShippable
from raygrad.proto.ir.program import Program
from raygrad.tracebacks import attribute_of, block

from .pickling import pickle_value
from .unpickling import unpickle_value

Filters = Sequence[Any]
"""As `warnings.filters` has them: (action, pattern of the text or None, category, pattern of the module or None, line),
the first that matches decides."""

_numbers: dict[tuple[Any, ...], int] = {}
_numbered: list[tuple[Any, ...]] = []


def filters_in_force() -> Filters:
    """Return the filters of this process as they are now."""
    return tuple(warnings.filters)


def number_of(filters: Filters) -> int:
    """Return the number that stands for filters in this process; equal ones have one number."""
    key = tuple(filters)
    number = _numbers.setdefault(key, len(_numbers))
    if number == len(_numbered):
        _numbered.append(key)
    return number


def numbered_filters(number: int) -> Filters:
    """Return the filters that have a number in this process."""
    return _numbered[number]


def make_errors(filters: Filters) -> bool:
    """Tell whether one of the filters makes errors of warnings."""
    return any(one[0] == "error" for one in filters)


def pack_filters(filters: Filters) -> bytes:
    """Return filters for a worker that captures warnings; b"" if none makes an error."""
    if not make_errors(filters):
        return b""
    packed: list[tuple[Any, ...]] = []
    for action, text, category, module, line in filters:
        try:
            kind = pickle_value(category)
        except NotShippable:  # what it matches is captured, and filtered at the client
            continue
        packed.append((action == "error", _pattern(text), kind, _pattern(module), line))
    return pickle_value(packed)


@lru_cache(maxsize=64)
def unpack_filters(packed: bytes) -> Filters:
    """Return filters of `pack_filters`, without those of categories that cannot be imported here."""
    filters: list[Any] = []
    for is_error, text, kind, module, line in unpickle_value(packed):
        try:
            category = unpickle_value(kind)
        except (ImportError, AttributeError):
            continue
        filters.append(("error" if is_error else "always", _compiled(text), category, _compiled(module), line))
    return (*filters, ("always", None, Warning, None, 0))


def _pattern(filtered: Any) -> tuple[str, int] | None:
    """Return a pattern as plain data: Python's own filters have texts, which are compared."""
    if filtered is None:
        return None
    return (re.escape(filtered) + r"\Z", 0) if isinstance(filtered, str) else (filtered.pattern, filtered.flags)


def _compiled(pattern: tuple[str, int] | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(*pattern)


def has_default_filters(program: Program) -> bool:
    """Tell whether a program runs user code that was recorded under the filters with which its session began. To put
    filters in force has Python forget which warnings it has shown."""
    nodes = {step.index: step.node for step in program.steps}
    for index, _ in program.user_code:
        settings: Any = attribute_of(nodes[index], "settings") or ()
        if all(entry[0] != "warnings" for entry in settings):
            return True
    return False


@block
def filtered_by(filters: Filters, *, of_program: bool = True) -> Generator[None]:
    """Put filters in force in a block. They belong to the process: in that `of_program` only its main thread changes
    them, since it is then in no block of the program's own; on other threads those in force stay."""
    if of_program and (threading.current_thread() is not threading.main_thread() or list(filters) == warnings.filters):
        yield
        return
    with warnings.catch_warnings():
        warnings.resetwarnings()  # which tells the interpreter that they change
        cast("list[Any]", warnings.filters).extend(filters)
        yield
