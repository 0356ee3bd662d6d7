"""Records of what was recorded before are those that the first recording gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.recording.record_fast_path import exact
from raygrad.client.recording.records import NodeRecord
from raygrad.errors import SessionError


@pytest.fixture
def session() -> Iterator[rg.Session]:
    with rg.Session(workers=1) as session:
        yield session


def vector(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


def told(record: NodeRecord) -> dict[str, Any]:
    """Return all fields but those of the one record: its sources, and its place."""
    return {
        name: getattr(record, name)
        for name in NodeRecord.__slots__
        if name not in ("__weakref__", "sources", "site", "base", "live", "saved")
    }


def records_of(session: rg.Session, step: Any) -> list[NodeRecord]:
    """Return what a step records."""
    records = session._recorder.records
    with session.deferred():
        before = len(records)
        held = step()
        made = records[before:]
    del held
    return made


@pytest.mark.parametrize(
    "step",
    [
        lambda: vector(1, 2).sin().exp().backward(rg.ones(2, dtype=rg.float64)),
        lambda: (vector(1, 2) * vector(3, 4) * 2.0).backward(rg.ones(2, dtype=rg.float64)),
        lambda: vector(1, 2).sum(0, keepdim=True).sin().backward(rg.ones(1, dtype=rg.float64)),
    ],
)
def test_what_is_recorded_again_is_like_the_first(session: rg.Session, step: Any) -> None:
    first, second = records_of(session, step), records_of(session, step)
    assert len(first) == len(second) >= 3
    for one, other in zip(first, second, strict=True):
        assert told(one) == told(other)
        assert [type(s) for s in one.sources] == [type(s) for s in other.sources]
        assert str(one.site) == str(other.site)


def test_line_of_what_is_recorded_again_is_its_own(session: rg.Session) -> None:
    x = vector(1, 2)
    x.sin()
    y = x.sin()  # this line
    z = x * (
        2.0  # no more
    )
    w = rg.sin(x)  # that line
    lines = Path(__file__).read_text().splitlines()
    for tensor, mark in ((y, "# this line"), (w, "# that line")):
        line = next(n for n, text in enumerate(lines, 1) if mark in text)
        assert f"test_record_fast_path.py:{line} in" in str(tensor._data.record.site)
    assert "test_record_fast_path.py" in str(z._data.record.site)


def test_a_value_of_an_earlier_run_is_held_by_what_reads_it(session: rg.Session) -> None:
    y = vector(1, 2).sin()
    y.sin()
    y.detach().numpy()
    (source,) = y.sin()._data.record.sources
    assert source == (y._data.record, 0, y._data)


def test_params_are_told_apart_exactly() -> None:
    several = [(1,), (1.0,), (True,), (0.0,), (-0.0,), ((1,),), ("1",), (None,), ()]
    assert len({exact(params) for params in several}) == len(several)
    assert exact((1, (2, 3), "x", None, 0.5)) == exact((1, (2, 3), "x", None, 0.5))
    odd = (object(),)
    assert exact(odd) is odd


def test_number_of_another_type_is_another_op(session: rg.Session) -> None:
    x = rg.tensor([1, 2])
    assert [(x * 2).dtype, (x * 2.0).dtype, (x * 2).dtype] == [rg.int64, rg.float32, rg.int64]


def test_value_of_another_session_is_refused_also_where_it_would_be_recorded_again(session: rg.Session) -> None:
    foreign = vector(1, 2).sin()
    foreign.exp()
    with rg.Session(workers=1) as other:
        own = vector(1, 2).sin()
        own.exp()
        with pytest.raises(SessionError, match="another session"):
            foreign.exp()
        assert len(other._recorder.records) == 2
        assert own.exp().tolist() == own.exp().tolist()
    assert foreign.exp().tolist() == own.exp().tolist()


def test_hooks_on_what_is_recorded_again_are_called(session: rg.Session) -> None:
    for factor in (1.0, 3.0):
        x = vector(1, 2)
        y = x.sin()
        if factor > 1.0:
            y.register_hook(lambda grad: grad * 3.0)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.numpy() == pytest.approx(factor * np.cos([1.0, 2.0]))


def test_derivative_of_an_undefined_gradient_is_undefined(session: rg.Session) -> None:
    class Halts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    for _ in range(3):
        x = vector(1, 2)
        x.sin().sum().backward()
        Halts.apply(x.sin().exp()).sum().backward()
        assert x.grad is not None
        assert x.grad.numpy() == pytest.approx(np.cos([1.0, 2.0]))
