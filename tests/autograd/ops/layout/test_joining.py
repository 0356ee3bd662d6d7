"""The family of ops in `ops/joining.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


@pytest.mark.parametrize("apart", [lambda y: y.split(1), lambda y: y.chunk(2), lambda y: y.unbind(), tuple])
def test_one_of_several_views_must_not_be_changed_where_gradients_are_recorded(apart: Any):
    y = rg.ones(2, 3, requires_grad=True) * 2
    first, second = apart(y)
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        first.mul_(3)
    with rg.no_grad():
        first.mul_(3)
    assert np.array_equal(y.detach().numpy()[0], [6, 6, 6])
    with pytest.raises(RuntimeError, match="its base or another view of its base"):
        second.sum()
