"""The update that adaptive optimisers share hands each rule what it declares."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.optim.optimizer import AdaptiveOptimizer


class Recorded(AdaptiveOptimizer):
    """An optimiser that notes what its rule is given."""

    def __init__(self, params, **options):
        super().__init__(params, {"lr": 0.5, "weight_decay": 0, "maximize": False, **options})
        self.moves = []

    def initial(self, group, param):
        return {"sum": rg.full_like(param, 7.0)}

    def move(self, group, param, direction, kept):
        self.moves.append((group["weight_decay"], direction.item(), kept["step"].item(), kept["sum"].item()))
        self.assign(kept["sum"], kept["sum"] + direction)


def stepped(times=1, **options):
    param = rg.tensor(2.0, requires_grad=True)
    optimizer = Recorded([param], **options)
    for _ in range(times):
        param.grad = rg.tensor(3.0)
        optimizer.step()
    return param, optimizer.moves


def test_steps_are_counted_and_entries_begin_once():
    assert stepped(2)[1] == [(0, 3.0, 1.0, 7.0), (0, 3.0, 2.0, 10.0)]


def test_the_direction_has_the_options_of_all_optimisers():
    assert stepped(maximize=True, weight_decay=0.5)[1] == [(0.5, -2.0, 1.0, 7.0)]


def test_a_decoupled_decay_shrinks_the_parameter_and_leaves_the_direction():
    param, moves = stepped(weight_decay=0.5, decoupled_weight_decay=True)
    assert param.item() == 1.5
    assert moves == [(0, 3.0, 1.0, 7.0)]


def test_a_group_cannot_ask_for_a_decoupled_decay_that_its_optimiser_lacks():
    param = rg.tensor(2.0, requires_grad=True)
    optimizer = Recorded([{"params": [param], "decoupled_weight_decay": True, "weight_decay": 0.5}])
    param.grad = rg.tensor(3.0)
    optimizer.step()
    assert param.item() == 2.0
    assert optimizer.moves == [(0.5, 4.0, 1.0, 7.0)]


def test_complex_parameters_are_refused():
    with pytest.raises(ValueError, match="Recorded moves real parameters"):
        Recorded([rg.tensor(1j, requires_grad=True)])
