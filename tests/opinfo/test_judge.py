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
        assert found[0].tolist() == [0, 1, 1]


def test_an_index_that_is_wrong_given_twice_or_out_of_range_is_no_tie(torch: Any) -> None:
    ties, kinds, compare = part("ties"), part("kinds"), part("compare")
    sample = kinds.Sample(rg.tensor([3, 1, 3]), (), {})
    assert ties.by_element("argsort", sample, rg.tensor([0, 1, 2]))[0].tolist() == [1, 0, 1]
    for places in ([1, 0, 0], [1, 0, 3]):
        with pytest.raises(compare.Disagreement, match="an index"):
            ties.by_element("argsort", sample, rg.tensor(places))


def test_an_index_of_a_nearly_equal_element_is_no_tie(torch: Any) -> None:
    ties, kinds, compare = part("ties"), part("kinds"), part("compare")
    numbers = [1.0, 1.0 + 1e-12, 0.0]
    right = ties.by_element(
        "argsort", kinds.Sample(torch.tensor(numbers, dtype=torch.float64), (), {}), torch.tensor([2, 0, 1])
    )
    for places, agrees in (([2, 0, 1], True), ([2, 1, 0], False)):
        wrong = ties.by_element(
            "argsort", kinds.Sample(rg.tensor(numbers, dtype=rg.float64), (), {}), rg.tensor(places)
        )
        if agrees:
            compare.same(right, wrong, (1e-7, 1e-7))
        else:
            with pytest.raises(compare.Disagreement):
                compare.same(right, wrong, (1e-7, 1e-7))


def test_elements_in_the_place_of_indices_are_refused(torch: Any) -> None:
    ties, kinds, compare = part("ties"), part("kinds"), part("compare")
    for wrong in (rg.tensor([1.0, 3.0, 3.0]), rg.tensor([1, 0, 2], dtype="int32")):
        with pytest.raises(compare.Disagreement, match="indices of dtype"):
            ties.by_element("argsort", kinds.Sample(rg.tensor([3.0, 1.0, 3.0]), (), {}), wrong)


def test_any_nan_may_stand_for_another(torch: Any) -> None:
    ties, kinds = part("ties"), part("kinds")
    sample = kinds.Sample(rg.tensor([float("nan"), 1.0, float("nan")]), (), {})
    found = [ties.by_element("argsort", sample, rg.tensor(places))[0].tolist() for places in ([1, 0, 2], [1, 2, 0])]
    assert found == [[0, -1, -1], [0, -1, -1]]


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


def judged_op(torch: Any, name: str, wrong: Any, of: str = "float32") -> None:
    """Compare all samples of an entry with what a deliberately wrong implementation makes of them."""
    kinds, entries, units, compare = part("kinds"), part("entries"), part("units"), part("compare")
    entry = next(one for one in entries.entries() if one.name == name)
    dtype = getattr(torch, of)
    within = compare.tolerances(entry.info, dtype)
    for sample in units._samples(units.Unit(entry, dtype), False, 8):
        kinds.value(entry, (entry.function[0], wrong(entry.function[1])), sample, within)


@pytest.mark.parametrize(
    ("name", "wrong", "dtype"),
    [
        ("argsort", lambda op: lambda x, *a, **k: rg.sort(x, *a, **k)[0], "float32"),
        ("argsort", lambda op: lambda x, *a, **k: op(-x, *a, **k), "float64"),
        ("sort", lambda op: lambda x, *a, **k: (op(x, *a, **k)[0], op(x, *a, **k)[1].to(rg.int32)), "float64"),
        ("sort", lambda op: lambda x, *a, **k: (op(x, *a, **k)[0] * (1 + 1e-9), op(x, *a, **k)[1]), "float64"),
        ("topk", lambda op: lambda x, k, *a, **o: (op(x, k, *a, **o)[0], op(x, k, *a, **o)[1] * 0), "float64"),
        ("nextafter", lambda op: lambda x, y: x * 1, "float32"),
        ("exp", lambda op: lambda x: op(x) * (1 + 1e-4), "float32"),
        ("special.bessel_j0", lambda op: lambda x: op(x) + 2e-6, "float64"),
        ("special.bessel_y1", lambda op: lambda x: op(x) + 2e-6, "float64"),
        ("as_strided.partial_views", lambda op: lambda x, *a, **k: op(x.clone(), *a, **{}), "float64"),
    ],
)
def test_a_wrong_result_does_not_pass(torch: Any, name: str, wrong: Any, dtype: str) -> None:
    judged_op(torch, name, lambda op: op, dtype)  # the right one does
    with pytest.raises((part("compare").Disagreement, RuntimeError)):
        judged_op(torch, name, wrong, dtype)


def test_what_is_infinite_in_one_precision_alone_has_no_second_look(torch: Any) -> None:
    with pytest.raises(part("compare").Disagreement):
        judged(torch, torch.float32, 3.4e38, 1e300, float("inf"))


def test_what_is_far_from_single_precision_has_no_second_look(torch: Any) -> None:
    with pytest.raises(part("compare").Disagreement):
        judged(torch, torch.float32, 1.5, 1.0, 1.0)


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_y1"])
def test_the_reference_that_decides_about_bessel_functions_is_right_where_pytorch_is_not(torch: Any, name: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    entries = part("entries")
    entry = next(one for one in entries.entries() if one.name == f"special.{name}")
    at = torch.tensor([2.9, 5.1, 5.7, 6.05, 9.3, 14.0], dtype=torch.float64)
    order, function = int(name[-1]), mpmath.besselj if "j" in name else mpmath.bessely
    exact = torch.tensor([float(function(order, x)) for x in at.tolist()], dtype=torch.float64)
    reference = torch.from_numpy(entry.info.ref(at.numpy()))
    assert (reference - exact).abs().max() < 1e-14
    assert (entry.info.op(at) - exact).abs().max() > 1e-7


def test_the_reference_is_asked_only_where_pytorch_states_a_lesser_precision(torch: Any) -> None:
    reference, entries = part("reference"), part("entries")
    by_name = {one.name: one.info for one in entries.entries()}
    assert reference.stated_precision(by_name["special.bessel_j0"], torch.float64) == 1e-5
    assert reference.stated_precision(by_name["exp"], torch.float64) is None
