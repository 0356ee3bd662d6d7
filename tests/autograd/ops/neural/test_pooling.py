from __future__ import annotations

from raygrad import ones
from raygrad.nn import functional as F


def test_a_last_window_has_to_begin_inside_of_the_input() -> None:
    assert F.max_pool1d(ones(1, 1, 4), 2, 4, ceil_mode=True).shape == (1, 1, 1)
    assert F.avg_pool2d(ones(1, 1, 4, 4), 2, 4, ceil_mode=True).shape == (1, 1, 1, 1)
    assert F.max_pool1d(ones(1, 1, 5), 2, 4, ceil_mode=True).shape == (1, 1, 2)
