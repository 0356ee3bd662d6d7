"""An exception of user code is the same one on Ray as eagerly, and so are texts of every kind (DR-09)."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any

import pytest

import raygrad as rg

from .errors_alike import HARD, LONG, parts, raised_in

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def on_ray(ray_started: Any) -> Generator[Any]:
    with rg.Session("ray", workers=1) as session:
        yield session


def test_what_is_raised_is_what_is_raised_eagerly(on_ray: Any) -> None:
    from raygrad.autograd.core.modes import state

    pids = on_ray._driver.executor.pids()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in [name for name in HARD if name != "long"]:
            for where in ("forward", "backward", "hook"):
                state.recorder, ambient = None, state.recorder
                expected = parts(raised_in(name, where))
                state.recorder = ambient
                assert parts(raised_in(name, where)) == expected, (name, where)
                assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0], (name, where)
    assert on_ray._driver.executor.pids() == pids


def test_a_long_message_arrives_whole_and_is_quoted_in_part(on_ray: Any) -> None:
    error = raised_in("long", "forward")
    assert (type(error), error.args) == (ValueError, ("x" * LONG,))
    assert sum(map(len, error.__notes__)) < LONG // 10


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
