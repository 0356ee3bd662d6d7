"""A thousand training steps in process leave nothing behind, under every policy and with and without a budget."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.client.functions.saved_policy import POLICIES

from .leaks import ARRAY, assert_nothing_is_left, trained


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 13 * ARRAY], ids=["unlimited", "tight"])
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_thousand_steps_in_process_leave_nothing_behind(policy: str, strict: bool, memory: int | None) -> None:
    with rg.Session(workers=1, strict=strict, saved=policy, memory=memory) as session:
        assert_nothing_is_left(*trained(session))
