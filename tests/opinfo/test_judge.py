"""The judge itself: what it lets pass as a tie or as rounding, and what it does not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import raygrad as rg

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def part(name: str) -> Any:
    """A module of the comparison, which needs torch."""
    return import_module(f"{__package__}.{name}")


def test_indices_of_equal_elements_are_compared_by_what_they_name(torch: Any) -> None:
    ties, kinds = part("ties"), part("kinds")
    sample = kinds.Sample(rg.tensor([3, 1, 3]), (), {})
    for places in ([1, 0, 2], [1, 2, 0]):
        found = ties.by_element("argsort", sample, rg.tensor(places))
        assert found[0].tolist() == [1, 3, 3]


def test_an_index_that_is_wrong_given_twice_or_out_of_range_is_no_tie(torch: Any) -> None:
    ties, kinds, compare = part("ties"), part("kinds"), part("compare")
    sample = kinds.Sample(rg.tensor([3, 1, 3]), (), {})
    assert ties.by_element("argsort", sample, rg.tensor([0, 1, 2]))[0].tolist() == [3, 1, 3]
    for places in ([1, 0, 0], [1, 0, 3]):
        with pytest.raises(compare.Disagreement, match="an index"):
            ties.by_element("argsort", sample, rg.tensor(places))


def test_a_stable_sort_is_compared_by_its_indices(torch: Any) -> None:
    ties, kinds = part("ties"), part("kinds")
    places = rg.tensor([1, 2, 0])
    assert ties.by_element("argsort", kinds.Sample(rg.tensor([3, 1, 3]), (), {"stable": True}), places) is places


def judged(torch: Any, dtype: Any, expected: float, exact: float, got: float) -> None:
    """Compare a result of raygrad's with one of torch's, and with one in double precision."""
    kinds, compare = part("kinds"), part("compare")

    def like(value: Any) -> None:
        compare.same(value, rg.tensor(got, dtype=str(dtype).removeprefix("torch.")), (1.3e-6, 1e-5))

    sample = kinds.Sample(torch.tensor(0.0, dtype=dtype), (), {})
    kinds._judge(like, torch.tensor(expected, dtype=dtype), sample, lambda: torch.tensor(exact, dtype=torch.float64))


def test_single_precision_may_be_nearer_to_double_precision_than_torchs(torch: Any) -> None:
    judged(torch, torch.float32, 1.001, 1.0, 1.0)


def test_single_precision_that_is_nearer_to_neither_differs(torch: Any) -> None:
    with pytest.raises(part("compare").Disagreement):
        judged(torch, torch.float32, 1.001, 1.0, 1.002)


def test_double_precision_has_no_second_look(torch: Any) -> None:
    with pytest.raises(part("compare").Disagreement):
        judged(torch, torch.float64, 1.001, 1.0, 1.0)
