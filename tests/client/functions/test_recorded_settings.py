"""User code of a session runs under the settings that held when it was recorded (DR-10), in each mode as eagerly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

import raygrad as rg

LEVELS = ("ignore", "warn", "raise", "call", "print", "log")


def facts() -> Any:
    """Return what user code sees of its settings, as numbers."""
    options = np.get_printoptions()
    return np.array(
        [
            rg.get_default_dtype().itemsize,
            rg.tensor([1.0]).dtype.itemsize,
            *[LEVELS.index(level) for level in np.geterr().values()],
            np.geterrcall() is not None,
            np.getbufsize(),
            options["precision"],
            options["suppress"],
            min(options["threshold"], 1e6),
            len(np.array2string(np.array([1.0, 2.5]))),
            rg.is_anomaly_enabled(),
            rg.is_anomaly_check_nan_enabled(),
            rg.is_autocast_enabled("cpu"),
            rg.is_inference_mode_enabled(),
            rg.is_grad_enabled(),
            rg.autograd.is_multithreading_enabled(),
        ],
        dtype=np.float64,
    )


class Sees(rg.autograd.Function):
    """Returns what forward sees, with what backward sees as its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(facts())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return rg.from_numpy(facts())


def sees(grad: Any) -> Any:
    return rg.from_numpy(facts())


@contextmanager
def floats(dtype: Any) -> Generator[None]:
    before = rg.get_default_dtype()
    rg.set_default_dtype(dtype)
    try:
        yield
    finally:
        rg.set_default_dtype(before)


@contextmanager
def buffers(size: int) -> Generator[None]:
    before = np.setbufsize(size)
    try:
        yield
    finally:
        np.setbufsize(before)


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "default dtype": lambda: floats(rg.float64),
    "half": lambda: floats(rg.float16),
    "errors": lambda: np.errstate(divide="ignore", over="raise", invalid="print"),
    "buffer": lambda: buffers(4096),
    "handler": lambda: np.errstate(over="call", call=print),
    "print": lambda: np.printoptions(precision=3, suppress=True, threshold=10**9),
    "threshold": lambda: np.printoptions(threshold=np.inf),  # pyright: ignore[reportArgumentType]
    "legacy": lambda: np.printoptions(legacy="1.13", sign=" "),
    "formatter": lambda: np.printoptions(formatter={"float": lambda x: f"<{x:09.3f}>"}),
    "anomaly": lambda: rg.autograd.set_detect_anomaly(True),
    "anomaly without NaN": lambda: rg.autograd.set_detect_anomaly(True, check_nan=False),
    "autocast": lambda: rg.autocast("cpu"),
    "one thread": lambda: rg.autograd.set_multithreading_enabled(False),
}


def program(forward: AbstractContextManager[Any], backward: AbstractContextManager[Any]) -> list[Any]:
    """Return what forward, backward and a hook see that are recorded under settings and run afterwards."""
    x: Any = rg.tensor(np.zeros(len(facts())), requires_grad=True)
    other: Any = rg.tensor(np.zeros(len(facts())), requires_grad=True)
    plain = Sees.apply(x)
    with forward:
        y = Sees.apply(other)
        z = Sees.apply(x)
    y.register_hook(sees)
    loss = (plain + y + z).sum()
    with backward:
        loss.backward()
    return [plain.tolist(), y.tolist(), z.tolist(), x.grad.tolist(), other.grad.tolist()]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("where", ["forward", "backward", "other"])
def test_dr_10_forward_sees_the_settings_of_its_application_and_backward_those_of_the_pass(
    session: Any, name: str, where: str
) -> None:
    def blocks() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        none = floats(rg.float32)
        other = np.errstate(under="warn") if where == "other" else none
        return (other, SETTINGS[name]()) if where != "forward" else (SETTINGS[name](), other)

    expected = program(*blocks())
    with session:
        assert program(*blocks()) == expected


def test_dr_10_inference_mode_is_seen(session: Any) -> None:
    with session, rg.inference_mode():
        y = Sees.apply(rg.tensor(np.zeros(len(facts()))))
    assert y.tolist() == [*Sees.apply(y).tolist()[:-3], 1.0, 0.0, 1.0]


class Logs(rg.autograd.Function):
    """Divides by zero with NumPy where it has to."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return rg.from_numpy(np.log(x.numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return rg.from_numpy(grad.numpy() / x.numpy())


class Tries(rg.autograd.Function):
    """Knows what to do where logarithms fail."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        try:
            return rg.from_numpy(np.log(x.numpy()))
        except (FloatingPointError, RuntimeWarning):
            return x - 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def zeros() -> Any:
    return rg.tensor([0.0, 1.0], requires_grad=True)


def ones() -> Any:
    return rg.tensor([1.0, 1.0], requires_grad=True)


def test_what_numpy_makes_an_error_of_fails_forward_or_is_caught_by_it(session: Any) -> None:
    with session:
        Logs.apply(ones())
        Tries.apply(ones())
        with np.errstate(divide="raise"):
            caught = Tries.apply(zeros())
        assert caught.tolist() == [-1.0, 0.0]
        with np.errstate(divide="raise"):
            failed = Logs.apply(zeros())
        with pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
            failed.tolist()


def test_what_numpy_makes_an_error_of_fails_backward_and_leaves_no_gradient(session: Any) -> None:
    x = zeros()
    with session:
        with np.errstate(divide="ignore"):
            loss = Logs.apply(x).sum()
        with np.errstate(divide="raise"):
            loss.backward()
        with pytest.raises(FloatingPointError):
            session.last_run.wait()
        assert x.grad is None


def test_warnings_of_numpy_are_issued_under_the_settings_and_filters_of_the_recording(session: Any) -> None:
    with session, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with np.errstate(divide="ignore"):
            silent = Logs.apply(zeros())
        assert silent.tolist() == [-np.inf, 0.0]
        assert not seen
        assert Logs.apply(zeros()).tolist() == [-np.inf, 0.0]
        assert [(one.category, one.filename) for one in seen] == [(RuntimeWarning, __file__)]


def test_code_that_is_recorded_under_a_filter_runs_under_it(session: Any) -> None:
    with session:
        Logs.apply(ones())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            silent = Logs.apply(zeros())
        assert silent.tolist() == [-np.inf, 0.0]  # an error by the filters of the tests


def test_a_filter_that_makes_an_error_does_so_for_what_was_recorded_under_it() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with rg.Session() as session:
            Logs.apply(ones())
            Tries.apply(ones())
            later = Logs.apply(zeros())
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                caught = Tries.apply(zeros())
                assert later.tolist() == [-np.inf, 0.0]  # was recorded outside
            assert [one.category for one in seen] == [RuntimeWarning]
            assert caught.tolist() == [-1.0, 0.0]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                failed = Logs.apply(zeros())
            with pytest.raises(RuntimeWarning, match="divide by zero"):
                failed.tolist()
            assert warnings.filters[0][0] == "always"
            session.run().wait()


def test_a_handler_of_errors_is_called_as_eagerly() -> None:
    called: list[Any] = []

    def note(kind: str, flag: int) -> None:
        called.append((kind, flag))

    def twice() -> Any:
        Logs.apply(ones())
        with np.errstate(divide="call", call=note):
            y = Logs.apply(zeros())
        return y.tolist()

    expected = twice(), called[:]
    assert len(called) == 1
    called.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*'note'.*", UserWarning)
        with rg.Session():
            assert (twice(), called) == expected


def test_an_object_to_which_errors_are_written_is_written_to() -> None:
    class Lines:
        def __init__(self) -> None:
            self.found: list[str] = []

        def write(self, text: str) -> None:
            self.found.append(text)

    lines = Lines()
    with rg.Session(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*'Lines.found'.*", UserWarning)
        Logs.apply(ones())
        with np.errstate(divide="log", call=lines):
            y = Logs.apply(zeros())
        y.tolist()
    assert lines.found == ["Warning: divide by zero encountered in log\n"]


def test_what_user_code_sets_ends_with_it(session: Any) -> None:
    class Sets(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.set_default_dtype(rg.float64)
            np.seterr(all="raise")
            np.set_printoptions(precision=2)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    before = facts().tolist()
    with session:
        x = rg.tensor(np.zeros(len(before)))
        for _ in range(2):
            seen = Sees.apply(Sets.apply(x)).tolist()
            assert seen[:11] == before[:11]
    assert facts().tolist() == before


class Makes(rg.autograd.Function):
    """Makes tensors of the default dtype, in whose precision it works."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * rg.tensor([0.1, 0.7]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * rg.tensor([0.1, 0.7]).to(x.dtype)


def test_dr_10_derivatives_go_by_the_settings_under_which_backward_ran(session: Any) -> None:
    def second() -> list[Any]:
        x = rg.tensor([1.0, 3.0], dtype=rg.float64, requires_grad=True)
        y = Makes.apply(x)
        with floats(rg.float64):
            (grad,) = rg.autograd.grad(y.sum(), x, create_graph=True)
        (again,) = rg.autograd.grad((grad * grad).sum(), x)
        return [grad.tolist(), again.tolist()]

    expected = second()
    with session:
        assert second() == expected


def test_equal_settings_share_a_plan_and_default_ones_add_nothing_to_a_graph(session: Any) -> None:
    x = zeros()
    with session:
        hashes: list[bytes] = []
        for _ in range(3):
            with floats(rg.float64), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Makes.apply(x.double()).sum().backward()
                hashes.append(session.last_run.plan.hash)
                session.last_run.wait()
                x.grad = None
        assert hashes[1] == hashes[2]
        with warnings.catch_warnings(), np.errstate(), np.printoptions():
            Makes.apply(x.double()).sum().backward()
        run = session.last_run
        assert {run.settings(index) for index in range(run.nodes)} == {()}


def test_built_in_ops_warn_of_nothing_whatever_is_set() -> None:
    def sums() -> list[Any]:
        x: Any = rg.tensor([1e30, np.inf], requires_grad=True)
        y = x * x * rg.tensor([1.0, 0.0]) + x.log()
        z = (x * 1e30).sum() - (x * 1e30).sum() + y.sum()
        z.backward(rg.tensor(1e30))
        return [z.tolist(), repr(x.grad.tolist())]

    with np.errstate(all="raise"):
        eagerly = repr(sums())
        with rg.Session():
            assert repr(sums()) == eagerly
    assert "nan" in eagerly


def test_a_compiled_function_goes_by_its_settings(session: Any) -> None:
    x = rg.tensor([1.0, 3.0], dtype=rg.float64)
    with session:
        step = session.compile(lambda x: Makes.apply(x))
        found: list[Any] = []
        for dtype in (rg.float32, rg.float32, rg.float64, rg.float64, rg.float32):
            with floats(dtype):
                found.append(step(x).tolist())
        assert found[0] == found[1] == found[4] != found[2] == found[3]
        assert step.recorded == 4  # each kind twice, the first time to see what Makes returns


class Counts(rg.autograd.Function):
    """Returns whole numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(np.arange(x.shape[0]))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_an_operation_that_is_recorded_later_goes_by_the_default_dtype_of_its_call(session: Any) -> None:
    def half() -> Any:
        Counts.apply(ones())
        with floats(rg.float64):
            later = Counts.apply(rg.ones(3)) * 0.1
        return later.dtype, later.tolist()

    expected = half()
    assert expected[0] == rg.float64
    with session:
        assert half() == expected
