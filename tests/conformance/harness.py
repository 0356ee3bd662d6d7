"""Runs programs in each mode and compares what came of them.

What a run leaves is an `Outcome` of plain data (arrays, numbers, strings, None, lists), so that
modes can be compared byte for byte, and with torch to a tolerance. `raygrad` and `torch` are imported when first used.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .programs import Program

SESSIONS_IN_PROCESS: dict[str, dict[str, Any]] = {"inprocess": {}, "strict": {"strict": True}}
SESSIONS_ON_RAY: dict[str, dict[str, Any]] = {
    "ray1": {"address": "ray", "workers": 1},
    "ray3": {"address": "ray", "workers": 3},
}
"""The arguments of the session of each mode that has one; the others are "eager", "standin", "mixed" and "torch"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run of a program left.

    Attributes:
        value: what it returned, as plain data.
        log: what it logged, in the engine's order.
        error: the exception that it ended with, one that it declares.
    """

    value: Any
    log: list[tuple[str, Any]]
    error: BaseException | None


def plain(value: Any) -> Any:
    """Return `value` as plain data of its own: tensors as arrays, tuples as lists.

    Raises:
        TypeError: something in it is none of tensor, array, number, string, None, list, tuple, dict.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    if isinstance(value, tensor_types()):
        return np.array(value.detach().numpy())
    raise TypeError(f"a program returned or logged {type(value).__name__}")


def tensor_types() -> tuple[type, ...]:
    """Return the tensor types of what has been imported."""
    return tuple(sys.modules[name].Tensor for name in ("raygrad", "torch") if name in sys.modules)


def run_here(program: Program, library: str) -> Outcome:
    """Run a program eagerly, with the library of that name."""
    log: list[tuple[str, Any]] = []
    T = importlib.import_module(library)
    with warnings.catch_warnings():
        if library == "torch":
            warnings.simplefilter("ignore")  # it warns about `float(loss)`
        return _outcome(program, T, lambda name, value: log.append((name, plain(value))), lambda: log)


def run_in(program: Program, watched: Watched) -> Outcome:
    """Run a program in a session that is ambient."""
    rg = importlib.import_module("raygrad")
    watched.forget()
    return _outcome(program, rg, rg.emit, watched.log)


def _outcome(program: Program, T: Any, log: Callable[[str, Any], None], logged: Callable[[], Any]) -> Outcome:
    value = error = None
    try:
        value = plain(program.run(T, log))
        entries = logged()
    except Exception as raised:  # an exception that the program does not declare goes on
        if program.errors is None or not isinstance(raised, program.errors):
            raise
        error, entries = raised, []
    return Outcome(value=value, log=entries, error=error)


class Watched:
    """A session that is ambient on this thread, and what its runs emitted.

    All that the suite knows of the session's interface is here.
    """

    def __init__(self, **options: Any) -> None:
        rg = importlib.import_module("raygrad")
        runs: list[Any] = []

        session = rg.Session(**options)
        enter = session._runs.enter

        def entered(run: Any) -> None:
            enter(run)
            runs.append(run)

        session._runs.enter = entered
        self._runs = runs
        self._session = session.start()

    def forget(self) -> None:
        """Start a new log."""
        self._runs[:] = self._runs[-1:]
        self._skip = len(self._runs)

    def log(self) -> list[tuple[str, Any]]:
        """Wait for all that was submitted; return what was emitted since `forget`, by run and position in it (H20).

        Raises:
            An error of that work that was not raised before.
        """
        self._session._waiter.wait_for_everything()
        return [(name, plain(value)) for run in self._runs[self._skip :] for name, value in run.emits]

    def wait(self) -> None:
        """Submit what is left, and wait for all; errors that were not raised are the program's own."""
        with contextlib.suppress(Exception):
            self._session._submitter.submit()
        with contextlib.suppress(Exception):
            self._session._waiter.wait_for_everything()

    def listed(self) -> int:
        """Return how many transfers between devices the plans of the runs since `forget` list."""
        module = importlib.import_module("raygrad.scheduler.explain.device_transfers")
        price = importlib.import_module("raygrad.scheduler.model.priced_graph").PricedGraph
        costs = importlib.import_module("raygrad.scheduler.model.costs").Costs()
        graphs = [(run._graph, run.plan) for run in self._runs[self._skip :]]
        return sum(
            len(module.device_transfers(price(graph, costs), [-1] * len(graph.externals), plan))
            for graph, plan in graphs
        )

    def brought(self) -> int:
        """Return how many values that left devices the reports of the runs since `forget` list."""
        return sum(len(run.report().brought) for run in self._runs[self._skip :])

    def close(self, discard: bool = False) -> None:
        """Close the session."""
        self._session.close(discard=discard)


class Opener:
    """Opens the session of a mode when it is asked for: `once` for all programs, or one for each.

    After a failure the next program gets a new one, so that a failing program does not take others with it.
    """

    def __init__(self, *, once: bool, **options: Any) -> None:
        self._once, self._options = once, options
        self._watched: Watched | None = None

    def run(self, program: Program) -> Outcome:
        if self._watched is None:
            self._watched = Watched(**self._options)
        try:
            outcome = run_in(program, self._watched)
        except BaseException:
            self.close(discard=True)
            raise
        if not self._once:
            self.close()
        return outcome

    def close(self, discard: bool = False) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.close(discard)


# ---- comparing -----------------------------------------------------------------------------------------------------


def expected_of(program: Program, references: Mapping[str, Outcome | Exception]) -> Outcome:
    """Return what a program gives eagerly; assert that it could be run, and raises what it declares."""
    expected = references[program.name]
    if isinstance(expected, Exception):
        raise AssertionError(f"eagerly: {type(expected).__name__}: {expected}") from expected
    if program.errors is not None:
        assert expected.error is not None, f"eagerly no {program.errors.__name__} was raised"
    return expected


def assert_same(got: Outcome, expected: Outcome) -> None:
    """Assert that two outcomes are equal to the last bit, dtypes and shapes included."""
    assert_same_error(got, expected)
    _compare(got.value, expected.value, "value", _assert_equal_arrays)
    if expected.error is None:
        _compare([list(e) for e in got.log], [list(e) for e in expected.log], "log", _assert_equal_arrays)


def assert_close(got: Outcome, expected: Outcome, rtol: dict[str, float]) -> None:
    """Assert that two outcomes agree: numbers of floating dtype to a relative tolerance, all else exactly."""
    assert_same_error(got, expected)

    def close(a: Any, b: Any, where: str) -> None:
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{where}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        tolerance = rtol.get(a.dtype.name, 0.0)
        scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) if tolerance else 0.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=where)

    _compare(got.value, expected.value, "value", close)
    if expected.error is None:
        _compare([list(e) for e in got.log], [list(e) for e in expected.log], "log", close)


def assert_same_error(got: Outcome, expected: Outcome) -> None:
    """Assert that both or neither ended with an error, and that a user's own has the same args and attributes."""
    assert (got.error is None) == (expected.error is None), f"{got.error!r} instead of {expected.error!r}"
    if got.error is None or expected.error is None:
        return
    if type(expected.error).__module__.startswith(__package__ or ""):
        assert type(got.error) is type(expected.error)
        assert got.error.args == expected.error.args
        assert _attributes(got.error) == _attributes(expected.error)


def _attributes(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if not name.startswith("__")}


def _assert_equal_arrays(a: Any, b: Any, where: str) -> None:
    assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{where}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    assert a.tobytes() == b.tobytes(), f"{where}: {a}, not {b} to the last bit"


def _compare(a: Any, b: Any, where: str, arrays: Callable[[Any, Any, str], None]) -> None:
    """Walk two plain values of one structure."""
    assert type(a) is type(b), f"{where}: {a!r}, not {b!r}"
    if isinstance(a, np.ndarray):
        arrays(a, b, where)
    elif isinstance(a, float):
        arrays(np.asarray(a), np.asarray(b), where)
    elif isinstance(a, list):
        assert len(a) == len(b), f"{where}: {len(a)} instead of {len(b)}: {a!r}, not {b!r}"
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            _compare(one, other, f"{where}[{index}]", arrays)
    elif isinstance(a, dict):
        assert list(a) == list(b), f"{where}: {list(a)}, not {list(b)}"
        for name in a:
            _compare(a[name], b[name], f"{where}[{name!r}]", arrays)
    else:
        assert a == b, f"{where}: {a!r}, not {b!r}"
