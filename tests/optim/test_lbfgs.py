"""L-BFGS takes the steps that PyTorch's takes, eagerly and in sessions, and goes on from a saved state."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.1, "max_iter": 5},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "lr": 10, "history_size": 2, "max_iter": 7},
    {"line_search_fn": "strong_wolfe", "max_eval": 4},
    {"line_search_fn": "strong_wolfe", "lr": 1e-3},
]


def rosenbrock(a: Any, b: Any) -> Any:
    return (((1 - a) ** 2).sum() + 5 * ((b - a**2) ** 2).sum()) * 0.1


def trained(T: Any, options: dict[str, Any], steps: int = 4, state: Any = None) -> tuple[list[Any], list[Any], Any]:
    """The losses, the parameters and the optimiser after some steps."""
    a = T.tensor(np.array([[-1.2, 0.7], [0.3, 2.0]]), requires_grad=True)
    b = T.tensor(np.array([[1.0, -0.5], [0.1, 1.5]]), requires_grad=True)
    unused = T.tensor(np.array([1.0]), requires_grad=True)
    optimizer = T.optim.LBFGS([a, b, unused], **options)
    if state is not None:
        optimizer.load_state_dict(state)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(a, b)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    return losses, [a.tolist(), b.tolist(), unused.tolist()], optimizer


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS)
def test_steps_are_pytorchs(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    losses, params, optimizer = trained(torch, options)
    state = optimizer.state_dict()["state"][0]
    for place in ("eager", "session"):
        if place == "eager":
            found = trained(rg, options)
        else:
            with rg.Session():
                found = trained(rg, options)
        np.testing.assert_allclose(found[0], losses, rtol=1e-7, atol=1e-14)
        for one, other in zip(found[1], params, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
        kept = found[2].state_dict()["state"][0]
        assert {*kept} == {*state}
        for name in ("func_evals", "n_iter"):
            assert kept[name] == state[name]
        assert len(kept["old_dirs"]) == len(state["old_dirs"])


@pytest.mark.oracle
def test_complex_parameters_move_as_pytorchs() -> None:
    torch = pytest.importorskip("torch")

    def moved(T: Any) -> Any:
        z = T.tensor(np.array([1 + 2j, -0.5j]), requires_grad=True)
        optimizer = T.optim.LBFGS([z], line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((z - (1 - 1j)).abs() ** 4).sum() + z.abs().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return z.detach().numpy()

    np.testing.assert_allclose(moved(rg), moved(torch), rtol=1e-6)


def test_a_saved_state_goes_on() -> None:
    options: dict[str, Any] = {"line_search_fn": "strong_wolfe", "max_iter": 3}
    whole = trained(rg, options, 1)
    state = whole[2].state_dict()
    other = rg.optim.LBFGS([p.detach().clone().requires_grad_() for p in whole[2].param_groups[0]["params"]], **options)
    other.load_state_dict(state)
    for optimizer in (whole[2], other):
        a, b, _ = optimizer.param_groups[0]["params"]

        def closure(optimizer: Any = optimizer, a: Any = a, b: Any = b) -> Any:
            optimizer.zero_grad()
            loss = rosenbrock(a, b)
            loss.backward()
            return loss

        optimizer.step(closure)
    for one, its in zip(whole[2].param_groups[0]["params"], other.param_groups[0]["params"], strict=True):
        assert one.tolist() == its.tolist()


def test_what_it_does_not_take_is_refused() -> None:
    x = rg.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="parameter groups"):
        rg.optim.LBFGS([{"params": [x]}, {"params": [rg.tensor([1.0], requires_grad=True)]}])
    with pytest.raises(ValueError, match="Invalid learning rate"):
        rg.optim.LBFGS([x], lr=-1)
    with pytest.raises(ValueError, match="1-element"):
        rg.optim.LBFGS([x], lr=rg.tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="closure"):
        rg.optim.LBFGS([x]).step()
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        rg.optim.LBFGS([x], line_search_fn="armijo").step(lambda: (x * x).sum())
