"""Parameter groups, zero_grad, steps, saving and loading; in a session, what stays there and what falls back."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices import use_stand_in


def param(*values: float, dtype: Any = rg.float64):
    return rg.tensor(list(values), dtype=dtype, requires_grad=True)


def descend(parameters, optimizer, steps):
    """Some steps on a function of all parameters; every other step leaves the last one without a gradient."""
    for step in range(steps):
        optimizer.zero_grad()
        used = parameters if step % 2 == 0 or len(parameters) == 1 else parameters[:-1]
        loss = rg.stack([(p * p * p).sum() + (p * 0.3).sin().sum() for p in used]).sum()
        loss.backward()
        optimizer.step()


class TestParameters:
    def test_one_tensor_instead_of_several_is_refused(self):
        with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
            rg.optim.SGD(param(1.0))

    def test_no_parameters_are_refused(self):
        with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
            rg.optim.SGD([])

    def test_what_is_not_a_tensor_is_refused(self):
        with pytest.raises(TypeError, match="one of the params is int"):
            rg.optim.SGD([1])

    def test_a_set_is_refused_because_it_has_no_order(self):
        with pytest.raises(TypeError, match="ordered collections"):
            rg.optim.SGD([{"params": {param(1.0)}}])

    def test_what_an_operation_made_is_refused(self):
        with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
            rg.optim.SGD([param(1.0) * 2])

    def test_a_parameter_in_two_groups_is_refused(self):
        p = param(1.0)
        with pytest.raises(ValueError, match="more than one parameter group"):
            rg.optim.SGD([{"params": [p]}, {"params": [p]}])

    def test_a_parameter_twice_in_a_group_warns(self):
        p = param(1.0)
        with pytest.warns(UserWarning, match="duplicate parameters"):
            rg.optim.SGD([p, p])

    def test_groups_have_options_of_their_own_and_the_defaults_for_the_rest(self):
        p, q = param(1.0), param(1.0)
        optimizer = rg.optim.SGD([{"params": p}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.9)
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
        assert [group["momentum"] for group in optimizer.param_groups] == [0.9, 0.9]
        (p.sum() + q.sum()).backward()
        optimizer.step()
        assert (p.item(), q.item()) == (0.9, 0.5)

    def test_a_group_can_be_added_later(self):
        optimizer = rg.optim.SGD([param(1.0)], lr=0.1)
        optimizer.add_param_group({"params": [param(1.0)], "lr": 0.2})
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]


class TestStep:
    def test_gradients_are_dropped_or_become_zeros(self):
        p = param(1.0, 2.0)
        optimizer = rg.optim.SGD([p])
        p.grad = rg.tensor([1.0, float("nan")], dtype=rg.float64)
        optimizer.zero_grad(set_to_none=False)
        assert p.grad is not None
        assert p.grad.tolist() == [0.0, 0.0]
        optimizer.zero_grad()
        assert p.grad is None
        optimizer.zero_grad(set_to_none=False)
        assert p.grad is None

    def test_parameters_without_a_gradient_stay(self):
        p, q = param(1.0), param(1.0)
        optimizer = rg.optim.SGD([p, q], lr=0.5, momentum=0.9)
        p.sum().backward()
        optimizer.step()
        assert (p.item(), q.item()) == (0.5, 1.0)
        assert list(optimizer.state) == [p]

    def test_parameters_move_in_place_and_stay_leaves(self):
        p = param(1.0)
        array = p.detach().numpy()
        optimizer = rg.optim.SGD([p], lr=0.5)
        p.sum().backward()
        optimizer.step()
        assert array[0] == 0.5
        assert p.is_leaf
        assert p.requires_grad

    def test_a_closure_is_differentiated_and_its_loss_returned(self):
        p = param(3.0)
        optimizer = rg.optim.SGD([p], lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        with rg.no_grad():
            loss = optimizer.step(closure)
        assert loss.item() == 9.0
        np.testing.assert_allclose(p.item(), 2.4, rtol=1e-15)


class TestStateDict:
    @pytest.mark.parametrize(
        "kind", [lambda ps: rg.optim.SGD(ps, lr=0.1, momentum=0.9), lambda ps: rg.optim.Adam(ps, amsgrad=True)]
    )
    def test_training_goes_on_where_it_was_saved(self, kind):
        p, q = param(0.5, -0.3), param(0.2)
        optimizer = kind([p, q])
        descend([p, q], optimizer, 3)
        saved = optimizer.state_dict()
        copies = [rg.tensor(t.detach().numpy().copy(), requires_grad=True) for t in (p, q)]
        other = kind(copies)
        other.load_state_dict(saved)
        descend([p, q], optimizer, 3)
        descend(copies, other, 3)
        for a, b in zip((p, q), copies, strict=True):
            assert a.tolist() == b.tolist()

    def test_it_names_parameters_by_number(self):
        p, q = param(1.0), param(1.0)
        optimizer = rg.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], momentum=0.9)
        q.sum().backward()
        optimizer.step()
        saved = optimizer.state_dict()
        assert [group["params"] for group in saved["param_groups"]] == [[0], [1]]
        assert list(saved["state"]) == [1]
        assert saved["state"][1]["momentum_buffer"].tolist() == [1.0]

    def test_what_is_loaded_is_not_shared(self):
        p = param(1.0)
        optimizer = rg.optim.SGD([p], momentum=0.9)
        p.sum().backward()
        optimizer.step()
        other = rg.optim.SGD([param(1.0)], momentum=0.9)
        other.load_state_dict(optimizer.state_dict())
        optimizer.step()
        (kept,) = other.state.values()
        assert kept["momentum_buffer"].tolist() == [1.0]

    def test_state_takes_the_dtype_of_its_parameter(self):
        p = param(1.0)
        optimizer = rg.optim.SGD([p], momentum=0.9)
        p.sum().backward()
        optimizer.step()
        other = rg.optim.SGD([param(1.0, dtype=rg.float32)], momentum=0.9)
        other.load_state_dict(optimizer.state_dict())
        (kept,) = other.state.values()
        assert kept["momentum_buffer"].dtype == np.float32

    def test_another_number_of_groups_or_parameters_is_refused(self):
        saved = rg.optim.SGD([param(1.0)]).state_dict()
        with pytest.raises(ValueError, match="different number of parameter groups"):
            rg.optim.SGD([{"params": [param(1.0)]}, {"params": [param(1.0)]}]).load_state_dict(saved)
        with pytest.raises(ValueError, match="doesn't match the size"):
            rg.optim.SGD([param(1.0), param(1.0)]).load_state_dict(saved)

    def test_its_options_are_readable(self):
        shown = repr(rg.optim.SGD([param(1.0)], lr=0.25))
        assert shown.startswith("SGD (\nParameter Group 0\n")
        assert "    lr: 0.25\n" in shown


class TestInASession:
    def test_a_step_is_submitted_and_not_waited_for(self):
        with rg.Session() as session:
            p = param(1.0)
            optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.9)
            (p * p).sum().backward()
            before = session.last_run
            optimizer.step()
            assert session.last_run is not before
            assert type(p._data) is Pending
            assert type(optimizer.state[p]["momentum_buffer"]._data) is Pending
        assert p.tolist() == [0.0]

    def test_a_parameter_of_which_views_were_taken_moves(self):
        x = np.arange(8.0).reshape(4, 2)

        def train():
            weight = rg.tensor(np.ones((3, 2)), requires_grad=True)
            optimizer = rg.optim.SGD([weight], lr=0.01, momentum=0.9)
            for _ in range(3):
                optimizer.zero_grad()
                (rg.tensor(x) @ weight.T).tanh().sum().backward()
                optimizer.step()
            return weight

        with rg.Session():
            recorded = train()
        assert recorded.tolist() == train().tolist()

    def test_a_view_of_a_parameter_that_lives_on_follows_it(self):
        with rg.Session():
            weight = rg.tensor(np.ones((3, 2)), requires_grad=True)
            row = weight.detach()[1]
            weight.sum().backward()
            rg.optim.SGD([weight], lr=0.25).step()
            assert row.tolist() == [0.75, 0.75]

    def test_training_goes_on_eagerly_after_the_session(self):
        p = param(0.5, -0.25)
        optimizer = rg.optim.Adam([p], lr=0.1)
        with rg.Session():
            descend([p], optimizer, 2)
        descend([p], optimizer, 2)
        q = param(0.5, -0.25)
        descend([q], rg.optim.Adam([q], lr=0.1), 4)
        assert p.tolist() == q.tolist()

    def test_a_new_learning_rate_makes_no_new_plan(self):
        with rg.Session() as session:
            p = param(0.5)
            optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.9)
            hashes = []
            for _ in range(5):
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
                assert session.last_run is not None
                hashes.append(session.last_run.plan.hash)
                optimizer.param_groups[0]["lr"] *= 0.9
            assert len(set(hashes[2:])) == 1

    def test_a_failed_step_leaves_parameters_and_state_as_after_the_step_before(self):
        class Fails(rg.autograd.Function):
            @staticmethod
            def forward(ctx, x, fail):
                if fail.numpy():
                    raise ValueError("this batch is bad")
                return rg.from_numpy(x.numpy() * 2.0)

            @staticmethod
            def backward(ctx, grad):
                return rg.from_numpy(grad.numpy() * 2.0), None

        def run(fail_at, steps):
            with rg.Session() as session:
                p, q = param(0.5, 0.25), param(0.125)
                optimizer = rg.optim.Adam([p, q], lr=0.1, amsgrad=True)
                with pytest.raises(ValueError, match="this batch is bad") if fail_at >= 0 else nullcontext():
                    for step in range(steps):
                        optimizer.zero_grad()
                        y = Fails.apply(p * p, rg.tensor(step == fail_at))
                        loss = y.sum()
                        if step >= 1:
                            loss = loss + (q * q).sum()
                        loss.backward()
                        optimizer.step()
                    session.run().wait()
                state = {n: {k: v.tolist() for k, v in s.items()} for n, s in optimizer.state_dict()["state"].items()}
                return p.tolist(), q.tolist(), state

        assert run(2, 5)[:2] == run(-1, 2)[:2]
        assert run(2, 5)[2] == run(-1, 2)[2]
        assert run(1, 5)[2] == run(-1, 1)[2]


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_state_goes_to_the_device_of_the_parameters_that_it_is_loaded_for(inside: bool) -> None:
    with use_stand_in(1), rg.Session(workers=1) if inside else nullcontext():
        here = param(1.0, 2.0)
        there = here.detach().cuda().requires_grad_()
        optimizers = [rg.optim.Adam([one], lr=0.1) for one in (here, there)]
        descend([here], optimizers[0], 2)
        optimizers[1].load_state_dict(optimizers[0].state_dict())
        assert {str(value.device) for value in optimizers[1].state[there].values()} == {"cuda:0"}
        with rg.no_grad():
            there.copy_(here)
        for one, optimizer in zip((here, there), optimizers, strict=True):
            descend([one], optimizer, 2)
        assert there.tolist() == here.tolist()


def test_a_counter_that_is_loaded_keeps_its_own_precision() -> None:
    param = rg.ones(2, dtype=rg.float16).requires_grad_()
    first = rg.optim.Adam([param], lr=0.1)
    (param * param).sum().backward()
    first.step()
    second = rg.optim.Adam([param], lr=0.1)
    second.load_state_dict(first.state_dict())
    assert first.state[param]["step"].dtype == second.state[param]["step"].dtype == rg.float64
    assert second.state[param]["exp_avg"].dtype == rg.float16
