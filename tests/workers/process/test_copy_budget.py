from __future__ import annotations

from raygrad.workers.process.copy_budget import SHARE, CopyBudget


def test_copies_take_a_worker_s_time_until_they_have_taken_their_share():
    budget = CopyBudget()
    assert budget.open
    budget.copied(1.0)
    assert not budget.open
    assert not budget.worked(0.5 / SHARE)
    assert budget.worked(0.6 / SHARE), "it opens"
    assert budget.open
    assert not budget.worked(1.0), "it was open"
