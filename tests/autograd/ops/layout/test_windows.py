"""The family of ops in `ops/windows.py`."""

from __future__ import annotations

import pytest

import raygrad as rg


def test_in_a_session_a_single_window_can_be_changed_though_further_ones_would_overlap():
    with rg.Session(workers=1):
        x = rg.arange(4.0)
        x.unfold(0, 3, 2).mul_(10)
        assert x.tolist() == [0, 10, 20, 3]


def test_in_a_session_windows_that_overlap_cannot_be_changed():
    with rg.Session(workers=1):
        x = rg.arange(5.0)
        with pytest.raises(RuntimeError, match="more than one element"):
            x.unfold(0, 3, 2).mul_(10)
