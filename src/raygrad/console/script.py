"""Running of a script as `python script.py` would, on a backend that the command line names.

The script is the process's `__main__`, with its own arguments, folder and exit code. It runs after the command line has
been parsed, outside of typer, so that errors, `sys.exit` and Ctrl-C end the process as they end a script's. A script
that names no session records into a standby session.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from raygrad.client.session import session_defaults
from raygrad.client.session.explain import preview_submissions
from raygrad.client.session.standby import StandbySession
from raygrad.workers.process.default_session import (
    ADDRESS_VARIABLE,
    CA_VARIABLE,
    PICKLE_VARIABLE,
    WORKERS_VARIABLE,
)

if TYPE_CHECKING:
    from raygrad.client.session.session import Session
    from raygrad.report.explanation import Explanation


class PlanShown(SystemExit):
    """Ends a script whose plan has been shown, through its own `finally` blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script with its arguments, and where the sessions run that name no address."""

    path: Path
    arguments: tuple[str, ...] = ()
    address: str | None = None
    """None leaves what the environment says."""
    workers: int | None = None
    ca: Path | None = None
    allow_pickle: bool = False
    show: Callable[[Explanation], bool] | None = field(default=None, repr=False)
    """Called with the plan of each submission before it is sent; the script ends where it returns True."""


def compiled(path: Path) -> CodeType:
    """Return the code of a script.

    Raises:
        OSError: it cannot be read.
        SyntaxError: it is no Python.
    """
    source = path.read_bytes()
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except ValueError as error:  # null bytes
        raise SyntaxError(f"{path} is no Python source: {error}") from None


def run_script(script: Script) -> None:
    """Run a script as `__main__`; what it raises ends this process as it would end that of the script.

    Raises:
        Whatever the script raises, SystemExit and KeyboardInterrupt among it.
    """
    module = ModuleType("__main__")
    module.__file__ = str(script.path)
    vars(module)["__builtins__"] = builtins
    module.__loader__ = SourceFileLoader("__main__", str(script.path))
    sys.modules["__main__"] = module  # for good: what ends after the script still looks for its names there
    sys.argv[:] = [str(script.path), *script.arguments]
    sys.path[0] = str(script.path.resolve().parent)
    settings = {
        ADDRESS_VARIABLE: script.address,
        WORKERS_VARIABLE: script.workers,
        CA_VARIABLE: script.ca,
        PICKLE_VARIABLE: "1" if script.allow_pickle else None,
    }
    for variable, value in settings.items():
        if value is not None:
            os.environ[variable] = str(value)  # also for processes that the script starts
    hook = sys.excepthook

    def shortened(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        trace = from_script(trace, vars(module))
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = shortened
    code = compiled(script.path)
    standby = StandbySession()
    with _previewing(script.show):
        if not names_sessions(code):
            standby.enter()
        try:
            exec(code, vars(module))
        except SystemExit as error:
            standby.finish(discard=error.code not in (None, 0))
            raise
        except BaseException:
            standby.finish(discard=True)
            raise
        standby.finish(discard=False)


def names_sessions(code: CodeType) -> bool:
    """Tell whether code names `Session`: what it records outside of its own sessions is then computed eagerly, as it is
    without the console, since a graph that one session has recorded cannot be differentiated in another."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return "Session" in code.co_names or any(map(names_sessions, inner))


def from_script(trace: TracebackType | None, names: dict[str, Any]) -> TracebackType | None:
    """Return a traceback from the frame of the script on, whose globals `names` are: what `python` would show. None of
    an error that the script did not raise itself: a syntax error, or what a session had left to raise at its end."""
    while trace is not None and trace.tb_frame.f_globals is not names:
        trace = trace.tb_next
    return trace


@contextmanager
def _previewing(show: Callable[[Explanation], bool] | None) -> Generator[None]:
    """Show the plans of all sessions that open in a block."""
    if show is None:
        yield
        return

    def shown(explanation: Explanation) -> None:
        if show(explanation):
            raise PlanShown(0)

    def opened(session: Session) -> None:
        preview_submissions(session, shown)

    session_defaults.after_open.append(opened)
    try:
        yield
    finally:
        session_defaults.after_open.remove(opened)


def arguments_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the script's own arguments: those of the command line, without the "--" that may stand before them."""
    return tuple(words[1:] if words[:1] == ["--"] else words)
