"""What transforms share: aliases, and which results keep a history."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state, transforming
from raygrad.autograd.transforms.common import (
    InputAliases,
    has_outer_history,
    positions_of,
    without_inner_history,
)


def test_an_alias_is_a_leaf_that_leads_on() -> None:
    x = rg.ones(2, requires_grad=True)
    aliases = InputAliases()
    alias = aliases.of(x)
    assert alias.is_leaf
    assert alias.requires_grad
    assert np.shares_memory(alias.detach().numpy(), x.detach().numpy())
    (alias * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_leads_out_is_kept_and_nothing_else() -> None:
    aliases = InputAliases()
    inner = aliases.of(rg.ones(2)) * 2
    assert has_outer_history((inner,))
    aliases.close()
    assert not has_outer_history((inner,))
    assert not without_inner_history(inner).requires_grad
    outer = inner * rg.ones(2, requires_grad=True)
    assert has_outer_history((outer,))
    assert without_inner_history(outer) is outer
    with rg.no_grad():
        assert not without_inner_history(outer).requires_grad


def test_a_transform_is_noted_while_it_runs() -> None:
    with rg.no_grad():
        with transforming("grad", reverse=True):
            assert state.transforms == ("grad",)
            assert rg.is_grad_enabled()
            with transforming("jvp", reverse=False):
                assert state.transforms == ("grad", "jvp")
        assert not rg.is_grad_enabled()
    assert state.transforms == ()


def test_saved_tensor_hooks_and_reverse_mode_do_not_mix() -> None:  # FT-07
    state.saving = ((None, None),)
    try:
        with pytest.raises(RuntimeError, match="saved tensor hooks"), transforming("vjp", reverse=True):
            pass
        with transforming("jvp", reverse=False):
            pass
    finally:
        state.saving = ()


def test_argnums() -> None:
    assert positions_of(-1, 3) == (2,)
    assert positions_of((0, -1), 2) == (0, 1)
    with pytest.raises(RuntimeError, match="unique"):
        positions_of((0, -2), 2)
    with pytest.raises(RuntimeError, match="argnum must be int"):
        positions_of((True,), 2)
