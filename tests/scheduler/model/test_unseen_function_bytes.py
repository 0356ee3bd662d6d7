"""The estimate of what an unobserved Function makes."""

from __future__ import annotations

from raygrad.scheduler.model.unseen_function_bytes import FACTOR, UnseenFunctions, estimated_bytes


def test_a_function_that_never_ran_is_given_the_estimate_and_then_as_much_as_it_took() -> None:
    unseen = UnseenFunctions()
    assert unseen.estimate("@f", 100) == estimated_bytes(100) == FACTOR * 100
    unseen.observe("@f", 10, 25)
    assert unseen.estimate("@f", 100) == 250
    assert unseen.estimate("@g", 100) == FACTOR * 100


def test_of_several_runs_the_one_that_made_most_counts() -> None:
    unseen = UnseenFunctions()
    for read, made in ((10, 25), (10, 5), (0, 3)):
        unseen.observe("@f", read, made)
    assert unseen.estimate("@f", 100) == 300, "of a run that read nothing, its bytes"
