"""Settings and filters of warnings reach the workers of a Ray cluster (DR-10); in process, `test_recorded_settings`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .test_recorded_settings import SETTINGS, Logs, Makes, Tries, floats, ones, program, zeros

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def ray_session(ray_started: Any) -> Iterator[Any]:
    session = rg.Session("ray", workers=2)
    yield session
    session.close(discard=True)


@pytest.fixture
def recording(ray_session: Any) -> Iterator[Any]:
    """Make the module's session ambient for one test, and leave it open."""
    from raygrad.autograd.core.modes import state

    state.recorder = ray_session._recorder
    yield ray_session
    state.recorder = None


def test_dr_10_workers_see_the_settings_of_the_recording(ray_session: Any) -> None:
    from raygrad.autograd.core.modes import state

    names = [name for name in SETTINGS if name != "handler"]
    for name in names:
        expected = program(SETTINGS[name](), floats(rg.float16))
        state.recorder = ray_session._recorder
        found = program(SETTINGS[name](), floats(rg.float16))
        state.recorder = None
        assert found == expected, name


def test_dr_10_derivatives_go_by_the_settings_under_which_backward_ran(recording: Any) -> None:
    x = rg.tensor([1.0, 3.0], dtype=rg.float64, requires_grad=True)
    with floats(rg.float64):
        assert Makes.apply(x).tolist() == [0.1, 3.0 * 0.7]


def test_what_numpy_makes_an_error_of_fails_or_is_caught(recording: Any) -> None:
    Tries.apply(ones())
    with np.errstate(divide="raise"):
        caught, failed = Tries.apply(zeros()), Logs.apply(ones())
    assert caught.tolist() == [-1.0, 0.0]
    assert failed.tolist() == [0.0, 0.0]
    x = zeros()
    with np.errstate(divide="ignore"):
        loss = Logs.apply(x).sum()
    with np.errstate(divide="raise"):
        loss.backward()
    with pytest.raises(FloatingPointError):
        recording.last_run.wait()
    assert x.grad is None


class Loud(UserWarning):
    """A warning of this module's own."""


class Warns(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        warnings.warn("loud", Loud, stacklevel=1)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_warnings_are_filtered_as_when_their_node_was_recorded(recording: Any) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Tries.apply(ones())
        Warns.apply(ones()).tolist()
        assert [one.category for one in seen] == [Loud]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            caught = Tries.apply(zeros())
        assert caught.tolist() == [-1.0, 0.0]  # forward caught it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            silent = [Logs.apply(zeros()), Warns.apply(ones())]
        assert [one.tolist() for one in silent] == [[-np.inf, 0.0], [2.0, 2.0]]
        assert len(seen) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            failed = Logs.apply(zeros())
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            failed.tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("error", Loud)
            failed = Warns.apply(ones())
        with pytest.raises(UserWarning, match="loud"):
            failed.tolist()
        later = Logs.apply(zeros())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert later.tolist() == [-np.inf, 0.0]
        assert [one.category for one in seen[1:]] == [RuntimeWarning]


def test_a_handler_of_errors_runs_on_the_worker(recording: Any) -> None:
    def note(kind: str, flag: int) -> None:
        rg.emit("error", (kind, flag))

    called: list[Any] = []
    recording.on("error", called.append)
    with np.errstate(divide="call", call=note):
        assert Logs.apply(zeros()).tolist() == [-np.inf, 0.0]
    assert called == [("divide by zero", 1)]
