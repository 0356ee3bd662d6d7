"""raygrad's errors are its own and the builtins that PyTorch raises, and survive pickling."""

from __future__ import annotations

import pickle

import pytest

from raygrad import errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.AutogradError("a"), RuntimeError),
        (errors.MissingDerivative("a"), NotImplementedError),
        (errors.ShapeError("a"), RuntimeError),
        (errors.DtypeError("a"), TypeError),
        (errors.ProtocolError("a"), ValueError),
        (errors.PlanError("a"), ValueError),
        (errors.InvalidTransition("key", "state", "event", ("first",)), RuntimeError),
        (errors.RemoteError("a", "b.C", "trace"), RuntimeError),
        (errors.WorkerLost("a", "worker 3"), RuntimeError),
        (errors.WaitTimeout("a"), TimeoutError),
        (errors.NotShippable("a"), TypeError),
        (errors.BackendUnavailable("a"), ImportError),
        (errors.SaveError("a", ("b", 3)), TypeError),
        (errors.LoadError("a"), RuntimeError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_ours_and_the_builtin_and_survives_pickling(error: Exception, builtin: type[Exception]) -> None:
    assert isinstance(error, errors.RaygradError)
    assert isinstance(error, builtin)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)


def test_fields_are_kept() -> None:
    assert errors.WorkerLost("gone", "worker 3").worker == "worker 3"
    lost = pickle.loads(pickle.dumps(errors.RemoteError("a", "b.C", "trace")))
    assert (lost.type_name, lost.remote_traceback) == ("b.C", "trace")
    assert "first" in str(errors.InvalidTransition("key", "state", "event", ("first",)))
