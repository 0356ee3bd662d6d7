"""Settings of user code: what a program sets for the code that it runs, captured at one moment and restored at another
(DR-10).

They are the modes of autograd that user code can ask for (casting, device, default dtype, anomaly detection, inference
mode, multithreading) and NumPy's (handling of floating-point errors, print options). A session captures them when it
records user code, and workers restore them around it. Gradient mode is not among them, since forward, backward and
hooks set it themselves.
"""

from __future__ import annotations

import contextvars
import importlib
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any, Final, cast

import numpy as np

from raygrad.tracebacks import block

from ..core import dtypes
from ..core.modes import state
from ..core.session_threads import SEGMENTS
from ..nodes.anomaly import AnomalyMode
from .autocast import capture_modes, restored_modes

Settings = tuple[tuple[Any, ...], ...]
"""Entries (name, *values) for what is not as a program finds it at its start, in the order of `capture_settings`: plain
data, but for the functions in entries of the names `LIVE`."""

ERROR_HANDLER: Final = "error handler"
FORMATTER: Final = "formatter"
LIVE: Final = frozenset((ERROR_HANDLER, FORMATTER))
"""The entries whose last value is an object of the user's: what `np.errstate(call=...)` calls, and what prints elements
of arrays."""


def _options_of_numpy() -> dict[str, Any]:
    return dict(cast("dict[str, Any]", np.get_printoptions()))


class _Options:
    """NumPy's print options where NumPy does not keep them in a context variable."""

    def get(self) -> dict[str, Any]:
        """Return the options that hold now."""
        return _options_of_numpy()

    def set(self, options: dict[str, Any]) -> dict[str, Any]:
        """Set options; return those before, for `reset`."""
        before = self.get()
        np.set_printoptions(**options)
        return before

    def reset(self, before: dict[str, Any]) -> None:
        """Set options back."""
        np.set_printoptions(**before)


class _Errors:
    """NumPy's handling of floating-point errors where the variable in which NumPy keeps it is not found."""

    def get(self) -> Any:
        """Return how errors are handled now."""
        return (*np.geterr().values(), np.getbufsize(), np.geterrcall())

    def set(self, errors: Any) -> Any:
        """Set how errors are handled; return how they were, for `reset`."""
        before = self.get()
        divide, over, under, invalid, size, handler = errors
        np.seterr(divide=divide, over=over, under=under, invalid=invalid)
        np.setbufsize(size)
        np.seterrcall(handler)
        return before

    def reset(self, before: Any) -> None:
        """Set it back."""
        self.set(before)


def _variable_of_numpy(module: str, name: str, instead: Any) -> Any:
    """Return a context variable of NumPy's, or `instead` where it is not found: none of them is public."""
    try:
        return getattr(importlib.import_module(module), name, instead)
    except ImportError:
        return instead


_errors = _variable_of_numpy("numpy._core.umath", "_extobj_contextvar", _Errors())
_options = _variable_of_numpy("numpy._core.printoptions", "format_options", _Options())
errors_now, options_now = _errors.get, _options.get
_fresh = contextvars.Context()
ERRORS: Final[Any] = _fresh.run(_errors.get)
OPTIONS: Final[Any] = _fresh.run(_options.get)
"""What `errors_now` and `options_now` return as long as nobody sets anything: the same objects each time."""


def _plain_errors() -> tuple[Any, ...]:
    errors = np.geterr()
    return (errors["divide"], errors["over"], errors["under"], errors["invalid"], np.getbufsize())


_PLAIN_ERRORS: Final = _fresh.run(_plain_errors)
_PLAIN_OPTIONS: Final[dict[str, Any]] = _fresh.run(_options_of_numpy)
_FLOAT32: Final = dtypes.float32


# ---- captured --------------------------------------------------------------------------------------------------------


def capture_settings() -> Settings:
    """Return the settings of this thread; () if all are as a program finds them at its start."""
    here = state.here
    found: list[tuple[Any, ...]] = []
    modes = capture_modes()
    if modes:
        found.append(("casting", *modes))
    dtype = dtypes.get_default_dtype()
    if dtype != _FLOAT32:
        found.append(("default dtype", dtype.name))
    if here.anomaly is not None:
        found.append(("anomaly", int(here.anomaly.check_nan)))
    if here.inference:
        found.append(("inference",))
    if not here.engine_threads:
        found.append(("one thread",))
    if _errors.get() is not ERRORS:
        errors, handler = _plain_errors(), np.geterrcall()
        if errors != _PLAIN_ERRORS:
            found.append(("errors", *errors))
        if handler is not None:
            found.append((ERROR_HANDLER, handler))
    options = _options.get()
    if options is not OPTIONS:
        found.extend(_captured_options())
    return tuple(found)


def _captured_options() -> Generator[tuple[Any, ...]]:
    for name, value in _options_of_numpy().items():
        if name == "formatter":
            for kind, function in sorted(cast("dict[str, Any]", value or {}).items()):
                yield (FORMATTER, kind, function)
        elif name == "override_repr":
            if value is not None:
                yield (FORMATTER, "", value)
        elif value != _PLAIN_OPTIONS.get(name):
            yield ("print", name, value if isinstance(value, str) else _plain_number(value))


def _plain_number(value: Any) -> int | float:
    return float(value) if np.asarray(value).dtype.kind == "f" else int(value)


# ---- restored --------------------------------------------------------------------------------------------------------


@block
def restored_settings(recorded: Settings) -> Generator[None]:
    """Restore captured settings in a block, and all others to what a program finds at its start. What code in the block
    sets ends with it."""
    given = {entry[0]: entry[1:] for entry in recorded}
    here = state.here
    modes = here.anomaly, here.inference, here.engine_threads, here.default_dtype
    errors, options = _errors.set(ERRORS), _options.set(OPTIONS)
    SEGMENTS.append(None)
    try:
        casting = given.get("casting", ())
        cast = casting or here.casting is not None or here.device is not None
        with restored_modes(casting) if cast else nullcontext():
            _set_errors(given)
            _set_options(recorded)
            here.anomaly = AnomalyMode(bool(given["anomaly"][0])) if "anomaly" in given else None
            here.inference, here.engine_threads = "inference" in given, "one thread" not in given
            here.default_dtype = np.dtype(given["default dtype"][0]) if "default dtype" in given else _FLOAT32
            here.changed()
            yield
    finally:
        SEGMENTS.pop()
        _options.reset(options)
        _errors.reset(errors)
        here.anomaly, here.inference, here.engine_threads, here.default_dtype = modes
        here.changed()


def _set_errors(given: dict[str, tuple[Any, ...]]) -> None:
    if "errors" in given:
        divide, over, under, invalid, size = given["errors"]
        np.seterr(divide=divide, over=over, under=under, invalid=invalid)
        np.setbufsize(size)
    if ERROR_HANDLER in given:
        np.seterrcall(given[ERROR_HANDLER][0])


def _set_options(recorded: Settings) -> None:
    options: dict[str, Any] = {entry[1]: entry[2] for entry in recorded if entry[0] == "print"}
    formatters = {entry[1]: entry[2] for entry in recorded if entry[0] == FORMATTER}
    if "" in formatters:
        options["override_repr"] = formatters.pop("")
    if formatters:
        options["formatter"] = formatters
    if options:
        np.set_printoptions(**options)


# ---- the default ones ------------------------------------------------------------------------------------------------

IGNORING: Final[Any] = _fresh.run(lambda: (np.seterr(all="ignore"), _errors.get())[1])
"""NumPy's handling of floating-point errors around built-in ops: they are ignored."""

DEFAULT_DTYPE: Final = _FLOAT32
"""The default dtype that a program finds at its start."""

set_errors, reset_errors = _errors.set, _errors.reset
set_options, reset_options = _options.set, _options.reset
"""Put `ERRORS` or `IGNORING`, and `OPTIONS`, in force, which returns a token; and back what was in force before."""
