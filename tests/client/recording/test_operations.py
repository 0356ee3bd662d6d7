"""Recording of built-in ops: specs at once, errors on the user's line, sums in the engine's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.proto.ir.nodes import OpCall


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_shapes_and_dtypes_are_known_while_recording(session: Any) -> None:
    x = rg.zeros(3, 4, dtype=rg.float64)
    y = (x @ rg.zeros(4, 2, dtype=rg.float64)).sum(0)
    assert (y.shape, y.dtype) == ((2,), rg.float64)
    assert session.last_run is None


def test_shape_errors_appear_on_the_line_that_makes_them(session: Any) -> None:
    with pytest.raises(RuntimeError, match=r"shape|size"):
        _ = rg.zeros(3) + rg.zeros(4)
    assert session.last_run is None


def test_a_data_dependent_shape_is_a_sync_point(session: Any) -> None:
    x: Any = rg.tensor([1.0, -1.0, 2.0])
    assert x[x > 0].shape == (2,)


def test_h19_a_fan_in_is_a_balanced_tree_as_it_is_eagerly(session: Any) -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0, 3.0, 1e-3, 7.0])

    def program() -> Any:
        x: Any = rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
        total = x * float(values[0])
        for value in values[1:]:
            total = total + x * float(value)
        total.backward()
        return x.grad

    recorded = program().numpy()
    session.close()
    assert recorded.tobytes() == program().numpy().tobytes()


def test_shape_rules_are_remembered_by_spec_and_exact_params(session: Any) -> None:
    recorder = session._recorder
    x = rg.zeros(3, 4)
    kinds = [(x.sum(axis) * 1.0).shape for axis in (0, 1, 0)]
    assert kinds == [(4,), (3,), (4,)]
    sums = [record for record in recorder.log.records if isinstance(record.work, OpCall) and record.work.fn == "sum"]
    assert sums[0].template is sums[2].template is not sums[1].template
