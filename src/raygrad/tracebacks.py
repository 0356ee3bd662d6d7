"""Tracebacks that show the user's frames: those of raygrad are cut out where an error leaves the package.

A leaf, open to every room. Public functions call `leave` in an `except` clause around what they
do, followed by a bare `raise`: that adds no frame, so that their own is gone, too. Nothing runs unless there is an
error. `RAYGRAD_FULL_TRACEBACK=1` in the environment, or `set_full_tracebacks(True)`, shows all frames.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Generator
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeVar, cast

from raygrad.errors import RaygradError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
P = ParamSpec("P")

Site = tuple[CodeType, int]
"""The user's code that applied a Function, and its instruction."""

CALLED: Final = frozenset(
    "cloudpickle concurrent contextlib contextvars cupy functools importlib msgpack numpy ray threading weakref".split()
)
"""Modules whose frames go with those of raygrad that called them."""

BUGS: Final = (AssertionError, KeyError, NameError, AttributeError)
"""What raygrad does not raise on purpose: where one of its own frames raised this, a report needs all of them."""

_PACKAGE = os.path.join(os.path.dirname(__file__), "")

_BASE: Any = BaseException
_TRACE, _CAUSE, _CONTEXT = _BASE.__traceback__.__get__, _BASE.__cause__.__get__, _BASE.__context__.__get__
"""Readers of what all exceptions have, whatever a class makes of these names."""


_full = os.environ.get("RAYGRAD_FULL_TRACEBACK", "") not in ("", "0")


def set_full_tracebacks(full: bool) -> None:
    """Show all frames of errors from now on, also those inside raygrad, or only the program's own, as by default.

    Raises:
        TypeError: `full` is neither True nor False.
    """
    global _full
    if type(full) is not bool:
        raise TypeError(f"set_full_tracebacks takes True or False, got {full!r}")
    _full = full


def leave(error: BaseException) -> None:
    """Cut the frames of raygrad out of the tracebacks of an error that leaves the package, and of those that led to
    it. Call it in an `except` clause and go on with a bare `raise`."""
    if _full:
        return
    seen: set[int] = set()
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            BaseException.with_traceback(link, users_frames(_TRACE(link), link))
            links += [_CAUSE(link), _CONTEXT(link)]


def users_frames(trace: TracebackType | None, error: BaseException | None = None) -> TracebackType | None:
    """Return a traceback without the frames of raygrad; all of it if one of these raised what shows a bug. What was
    raised elsewhere, on a worker, has notes."""
    entries: list[TracebackType] = []
    ours, entry = False, trace
    while entry is not None:
        top = str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        ours = top == "raygrad" or (ours and top in CALLED)
        if not ours:
            entries.append(entry)
        entry = entry.tb_next
    if ours and isinstance(error, BUGS) and not isinstance(error, RaygradError) and not hasattr(error, "__notes__"):
        return trace
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def users_text(text: str, error: BaseException) -> str:
    """Return the traceback of an error that was printed on a worker, without the frames of raygrad; as it is if there
    are no others, and the error shows a bug."""
    short = _OUR_FRAMES.sub("", text)
    bug = isinstance(error, BUGS) and not isinstance(error, RaygradError)
    return text if _full or (bug and '  File "' not in short) else short


_OUR_FRAMES: Final = re.compile(
    r'^(?P<indent> *)File "[^"\n]*[/\\]raygrad[/\\]'
    r"(?:(?:autograd|client|console|interop|nn|optim|proto|report|scheduler|service|utils|workers)[/\\][^\"\n]*|\w+\.py)"
    r'", line .*\n(?:(?P=indent)  .*\n| *\[Previous line repeated .*\n)*',
    re.MULTILINE,
)


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error of any class, also one that refuses attributes, as frozen dataclasses do."""
    state = object.__getattribute__(error, "__dict__")
    notes = state.get("__notes__")
    state["__notes__"] = [*notes, note] if isinstance(notes, list) else [note]


def says(error: BaseException, text: str) -> bool:
    """Tell whether the message of an error holds a text; an error of the user's may have none that can be had."""
    try:
        return text in str(error)
    except BaseException:  # whatever its `__str__` raises must not take its place
        return False


def attribute_of(value: Any, name: str, instead: Any = None) -> Any:
    """Return an attribute of an object of the user's; its `__getattr__` may raise anything where there is none, as
    that of a dict whose items are attributes raises KeyError."""
    try:
        return getattr(value, name, instead)
    except BaseException:  # it was raygrad that asked, not the user
        return instead


# ---- where a Function was applied ------------------------------------------------------------------------------------


def users_site() -> Site | None:
    """Return the innermost place of the calling program that is not in raygrad."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "raygrad":
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def users_level() -> int:
    """Return the stack level, as `warnings.warn` counts it, of the first caller outside raygrad."""
    frame = sys._getframe(1)
    level = 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("raygrad."):
        frame = frame.f_back
        level += 1
    return level


_NEVER_RUN: Final = "def line(): yield"


def show_site(error: BaseException, site: Site, name: str) -> None:
    """Put the user's line that applied a Function in front of the frames of an error that its node, called `name`,
    raised in a pass."""
    code, instruction = site
    if code.co_filename.startswith(_PACKAGE):
        return
    line = next((n for start, end, n in code.co_lines() if start <= instruction < end and n), code.co_firstlineno)
    shown: Any = next(one for one in compile(_NEVER_RUN, code.co_filename, "exec").co_consts if type(one) is CodeType)
    lines = b"\xef\0" * (len(shown.co_code) // 16 + 1)  # eight instructions each, of the first line, without columns
    shown = shown.replace(co_name=f"{code.co_name} (recorded {name})", co_firstlineno=line, co_linetable=lines)
    frame = FunctionType(shown, {"__name__": "recorded"})().gi_frame  # that of a generator refers to no other frame
    BaseException.with_traceback(error, TracebackType(_TRACE(error), frame, 0, line))


# ---- blocks around user code -----------------------------------------------------------------------------------------


class UserCodeBlock(Generic[T]):
    """What `contextlib.contextmanager` makes, but that it sets no attribute of an exception: some classes refuse that,
    as frozen dataclasses do."""

    def __init__(self, generator: Generator[T]) -> None:
        self._generator = generator

    def __enter__(self) -> T:
        return next(self._generator)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            next(self._generator, None)
            return
        try:
            self._generator.throw(error)
        except BaseException as raised:  # of any kind: the block passes it on
            if raised is not error and _CAUSE(raised) is not error:  # of a StopIteration Python makes another error
                raise
            BaseException.with_traceback(error, trace)


def block(function: Callable[P, Generator[T]]) -> Callable[P, UserCodeBlock[T]]:
    """Return what opens a block around user code: `function` yields once, and does not swallow what the code raises."""

    @functools.wraps(function)
    def opened(*args: P.args, **named: P.kwargs) -> UserCodeBlock[T]:
        return UserCodeBlock(function(*args, **named))

    return opened


# ---- boundaries ------------------------------------------------------------------------------------------------------


def public(function: F) -> F:
    """Return a public function whose errors show the user's frames. It costs a call more: functions on hot paths have
    an `except` clause of their own."""

    @functools.wraps(function)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return cast(F, boundary)


class PublicMethods:
    """A base whose subclasses in raygrad have `public` methods: all that users call, and the constructor."""

    _called_within: ClassVar[frozenset[str]] = frozenset()
    """Methods that the others call, perhaps once for each parameter."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] != "raygrad":
            return
        for name, value in list(vars(cls).items()):
            called = name[0] != "_" or name in _CALLED_BY_USERS
            if called and type(value) is FunctionType and name not in cls._called_within:
                setattr(cls, name, public(value))


_CALLED_BY_USERS: Final = frozenset(("__call__", "__init__"))
