"""The family of ops in `ops/losses.py`."""

from __future__ import annotations

from typing import Any

import pytest


def test_targets_that_are_no_class_are_refused(T: Any):
    for target in ([0, 3], [-1, 0]):
        with pytest.raises(IndexError, match="out of bounds"):
            T.nn.functional.cross_entropy(T.ones(2, 3), T.tensor(target))
    assert T.nn.functional.cross_entropy(T.ones(2, 3), T.tensor([0, -100])).ndim == 0
