"""What went wrong is told with the user's own names and lines, and what is left of a session goes on (DR-09, H8)."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import DroppedError, GraphError, NotShippable, WaitTimeout

HERE = r"\(\S*test_failures\.py:\d+ in test_\w+\)"


@pytest.fixture(params=[False, True], ids=["in process", "strict"])
def session(request: pytest.FixtureRequest) -> Any:
    with rg.Session(workers=2, strict=request.param) as session:
        yield session


class Plain(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, option: Any = None) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None


def test_what_is_dropped_says_what_made_it_and_what_failed(session: Any) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3.0

    def breaks(grad: Any) -> Any:
        raise ZeroDivisionError("in a hook")

    y.register_hook(breaks)
    y.sum().backward()
    gradient: Any = x.grad
    with pytest.raises(ZeroDivisionError) as raised:
        session._waiter.wait_for_everything()
    assert any("raised by node" in note and "test_failures.py" in note for note in raised.value.__notes__)
    message = (
        f"^this value, made by '\\w+' {HERE}, was dropped: run \\d failed with ZeroDivisionError: in a "
        f"hook, raised by the hook 'breaks' {HERE}; compute it again"
    )
    with pytest.raises(DroppedError, match=message):
        gradient.tolist()
    assert (x.detach() * 2.0).tolist() == [2.0, 4.0]


def test_what_depends_on_values_is_told_by_the_output_that_differs(session: Any) -> None:
    class Positive(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[x > 0]

    Positive.apply(rg.tensor([1.0, 2.0]))
    message = (
        r"^Positive behaved differently .*: output 0 is float32\[1\], and was float32\[2\]\. What a session records"
    )
    with pytest.raises(GraphError, match=message) as raised:
        Positive.apply(rg.tensor([-1.0, 2.0])).tolist()
    assert any("test_failures.py" in note for note in raised.value.__notes__)


def test_an_argument_that_cannot_travel_is_told_by_number_or_name(session: Any) -> None:
    class Named(rg.autograd.Function):
        @staticmethod
        def forward(x: Any, *, lock: Any) -> Any:
            return x * 1.0

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    with pytest.raises(NotShippable, match=r"^argument 1 of Plain\.apply is of type generator, which cannot travel"):
        Plain.apply(rg.ones(2), (number for number in range(3)))
    with pytest.raises(NotShippable, match=r"^argument 'lock' of Named\.apply is of type lock"):
        Named.apply(rg.ones(2), lock=threading.Lock())


def test_a_result_that_cannot_travel_is_told_with_what_made_it() -> None:
    class Returns(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return threading.Lock()

    with rg.Session(workers=1, strict=True), pytest.raises(NotShippable) as raised:
        Returns.apply(rg.ones(2))
    notes = "\n".join(raised.value.__notes__)
    assert "raised on worker 0 around the run of 'Returns' (" in notes
    assert "test_failures.py" in notes


def test_a_wait_that_is_too_long_says_for_what_it_was() -> None:
    begun, release = threading.Event(), threading.Event()

    class Slow(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return x.shape, x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            begun.set()
            assert release.wait(60)
            return x * 1.0

    with rg.Session(workers=1, timeout=0.05) as session:
        y = Slow.apply(rg.ones(2))
        runs = threading.Thread(target=session.run().wait, kwargs={"timeout": 60})
        runs.start()
        assert begun.wait(60)  # on that thread: the one that waits first runs what is submitted
        try:
            with pytest.raises(WaitTimeout, match=rf"^waited 0\.05 s \(Session\(timeout=\.\.\.\)\) for 'Slow' {HERE}"):
                y.tolist()
        finally:
            release.set()
            runs.join()
        assert y.tolist() == [1.0, 1.0]


def test_anomaly_detection_names_the_line_whose_derivative_is_nan() -> None:
    x: Any = rg.tensor([0.0, 1.0], requires_grad=True)
    first = sys._getframe().f_lineno

    def run() -> None:
        with rg.Session(), rg.autograd.detect_anomaly():
            y = (x * 0).sqrt()
            (y * 0).sum().backward()

    with (
        pytest.warns(UserWarning, match="Anomaly Detection|Error detected"),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values") as caught,
    ):
        run()
    assert any(f"test_failures.py:{first + 4} in run" in note for note in caught.value.__notes__)
