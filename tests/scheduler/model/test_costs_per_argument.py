"""What is known of user Functions is bounded, and the tables of plans share what did not change."""

from __future__ import annotations

from raygrad.scheduler.model.costs_per_argument import MAX_KINDS, KnownFunctions, ValueCosts
from raygrad.scheduler.model.running_estimates import Estimate


def kind(number: int) -> str:
    return f"function @{number} forward cpu 5>context,5"


def test_tables_share_what_did_not_change() -> None:
    known, values = KnownFunctions(), ValueCosts()
    estimates = {kind(number): Estimate(1.0, 0.0, 1.0, 1) for number in range(3)}
    for name in list(estimates)[:2]:
        assert known.surplus(name) == ""
    first = known.table(estimates.get, values)
    assert known.surplus(kind(2)) == ""
    second = known.table(estimates.get, values)
    assert (len(first), len(second)) == (2, 3)
    assert all(second[family] is table for family, table in first.items())


def test_the_kinds_that_were_measured_longest_ago_are_forgotten() -> None:
    known, values, estimates = KnownFunctions(), ValueCosts(), dict[str, Estimate]()
    for number in range(MAX_KINDS + 10):
        for name in (kind(number), kind(0)):  # which is measured again and again
            estimates[name] = Estimate(1.0, 0.0, 1.0, 1)
            if gone := known.surplus(name):
                del estimates[gone]
    table = known.table(estimates.get, values)
    assert len(table) == len(estimates) == MAX_KINDS
    assert kind(0) in estimates
    assert kind(1) not in estimates


def test_built_in_ops_are_not_counted() -> None:
    known = KnownFunctions()
    assert known.surplus("op sin cpu 5>5") == ""
    assert known.table(lambda _: Estimate(), ValueCosts()) == {}
