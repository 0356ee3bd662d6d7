"""Numbers as people read them."""

from __future__ import annotations

import pytest

from raygrad.report import figures


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (4.2e-7, "0.42 µs"),
        (1.234e-5, "12.3 µs"),
        (9.996e-4, "1.00 ms"),
        (0.0123, "12.3 ms"),
        (0.9996, "1.00 s"),
        (1234.0, "1,234 s"),
    ],
)
def test_times(value: float, said: str):
    assert figures.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (999_600, "1.00 MB"), (12_345_678, "12.3 MB"), (2**42, "4.40 TB")],
)
def test_sizes(value: int, said: str):
    assert figures.size(value) == said


def test_shares_and_ratios_of_nothing_are_none():
    assert (figures.share(1.0, 4.0), figures.share(1.0, 0.0)) == ("25 %", "-")
    assert (figures.ratio(3.0, 2.0), figures.ratio(3.0, 0.0)) == ("1.50 x", "-")


def test_one_is_singular():
    assert (figures.number(1, "node"), figures.number(2000, "node")) == ("1 node", "2,000 nodes")


def test_the_commonest_names_come_first_and_say_if_there_are_more():
    assert figures.commonest(["a", "b", "b", "c", "d", "d", "d"]) == "d 3, b 2, a, …"
    assert figures.commonest(["a"]) == "a"
