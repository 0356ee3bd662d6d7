"""Groups over numbers, as trees."""

from __future__ import annotations

import pytest

from raygrad.scheduler.model.disjoint_sets import find_root


@pytest.mark.parametrize("kind", [list, dict])
def test_all_of_a_group_have_one_first_and_the_way_to_it_is_halved(kind: type) -> None:
    chain = [0, 0, 1, 2, 3, 5, 5]
    group = chain if kind is list else dict(enumerate(chain))
    assert [find_root(group, one) for one in (4, 0, 6)] == [0, 0, 5]
    assert group[4] == 2
    assert group[2] == 0
    assert [find_root(group, one) for one in range(7)] == [0] * 5 + [5] * 2
