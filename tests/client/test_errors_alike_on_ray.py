"""An exception of user code is the same one on Ray as eagerly, and so are texts of every kind (DR-09)."""

from __future__ import annotations

import re
import resource
import warnings
from collections.abc import Generator
from typing import Any

import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import DiskFull

from .errors_alike import HARD, LONG, parts, raised_in
from .test_planned_nodes_fail import WHERE, chain, note_of, step_of

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def on_ray(ray_started: Any) -> Generator[Any]:
    with rg.Session("ray", workers=1) as session:
        yield session


def test_what_is_raised_is_what_is_raised_eagerly(on_ray: Any) -> None:
    from raygrad.autograd.core.modes import state

    pids = executor_of(on_ray).pids()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in [name for name in HARD if name != "long"]:
            for where in ("forward", "backward", "hook"):
                state.recorder, ambient = None, state.recorder
                expected = parts(raised_in(name, where))
                state.recorder = ambient
                assert parts(raised_in(name, where)) == expected, (name, where)
                assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0], (name, where)
    assert executor_of(on_ray).pids() == pids


def test_a_long_message_arrives_whole_and_is_quoted_in_part(on_ray: Any) -> None:
    error = raised_in("long", "forward")
    assert (type(error), error.args) == (ValueError, ("x" * LONG,))
    assert sum(map(len, error.__notes__)) < LONG // 10


def test_the_repr_of_a_value_that_has_arrived_shows_it(on_ray: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    loss, large = (x * x).sum(), rg.ones(100_000) * 2.0
    assert "pending" in repr(loss)
    loss.backward()
    on_ray.last_run.wait()
    assert repr(loss) == "tensor(5., grad_fn=<SumBackward0>)"
    assert repr(x.grad) == "tensor([2., 4.])"
    assert "pending" in repr(large)  # it is on its worker
    large.tolist()
    assert repr(large).startswith("tensor([2., 2.")


class Disk(rg.autograd.Function):
    """Lets no file of its process grow beyond a size."""

    @staticmethod
    def forward(ctx: Any, x: Any, size: int) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return x * 1.0


def test_a_full_disk_is_told_and_the_session_goes_on(ray_started: Any) -> None:
    with rg.Session("ray", workers=1, memory="2MB"):
        parameter: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        step_of(parameter)
        expected = chain()
        Disk.apply(rg.ones(1), 100_000).tolist()
        with pytest.raises(DiskFull, match=r"could not be spilled.*File too large") as error:
            chain()
        assert re.search(WHERE, note_of(error.value))
        assert parameter.tolist() == [-1.0, -2.0]
        Disk.apply(rg.ones(1), resource.RLIM_INFINITY).tolist()
        step_of(parameter)
        assert chain().tobytes() == expected.tobytes()
    assert parameter.tolist() == [1.0, 2.0]


def test_warnings_and_emits_may_hold_any_text(on_ray: Any) -> None:
    class Tells(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, text: str) -> Any:
            warnings.warn(text, UserWarning, stacklevel=1)
            rg.emit("text", text)
            return x * 2.0, text

    seen: list[Any] = []
    on_ray.on("text", seen.append)
    for text in ("a\ud800b", "x" * (70 << 20)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            y, back = Tells.apply(rg.ones(1), text)
            assert y.tolist() == [2.0]
        assert back == text
        assert str(warned[0].message)[:4096] == text[:4096]
    assert seen == ["a\ud800b", "x" * (70 << 20)]
