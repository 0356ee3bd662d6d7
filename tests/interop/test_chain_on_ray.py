"""NumPy, torch and JAX in one graph, on three workers of a real Ray: gradients, bits, and where things ran."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import raygrad as rg

torch: Any = pytest.importorskip("torch", reason="interop with torch: pip install 'raygrad[torch]'")
jax: Any = pytest.importorskip("jax", reason="interop with JAX: pip install 'raygrad[jax]'")

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


class Bend(rg.autograd.Function):
    """x^2 + x in NumPy, with a backward that can be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("pid", os.getpid())
        ctx.save_for_backward(x)
        return rg.from_numpy(x.numpy() ** 2 + x.numpy())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * (2.0 * x + 1.0)


def spread(weight: Any, x: Any) -> Any:
    return jax.numpy.cos(x) @ weight


def torch_module() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh()).double()


class Chain:
    """NumPy -> torch -> JAX -> NumPy, pinned to three workers where there are any."""

    def __init__(self, pinned: bool, recompute: bool = False) -> None:
        self.pinned = pinned
        self.torch = rg.interop.torch.function(torch_module(), recompute=recompute)
        self.jax = rg.interop.jax.function(spread, recompute=recompute)

    def on(self, worker: int) -> Any:
        return rg.place(worker=worker) if self.pinned else rg.enable_grad()

    def __call__(self, x: Any, weight: Any) -> Any:
        with self.on(0):
            hidden = Bend.apply(x)
        with self.on(1):
            hidden = self.torch(hidden)
        with self.on(2):
            hidden = self.jax(weight, hidden)
        with self.on(0):
            return Bend.apply(hidden).sum()


def leaves() -> tuple[Any, Any]:
    rg.manual_seed(5)
    return (
        (rg.randn(5, 3, dtype=rg.float64) * 0.5).requires_grad_(),
        rg.randn(4, 2, dtype=rg.float64, requires_grad=True),
    )


def gradients(pinned: bool, recompute: bool = False) -> list[bytes]:
    chain = Chain(pinned, recompute)
    x, weight = leaves()
    loss = chain(x, weight)
    loss.backward()
    found = [loss.detach(), x.grad, weight.grad, *[p.grad for p in chain.torch.parameters()]]
    (first,) = rg.autograd.grad(chain(x, weight), x, create_graph=True)
    found += rg.autograd.grad((first * first).sum(), [x, weight, *chain.torch.parameters()])
    found += [buffer for _, buffer in chain.torch.named_buffers()]
    return [value.numpy().tobytes() for value in found]


def differences(step: float = 1e-6) -> list[np.ndarray[Any, Any]]:
    """The gradients of the chain by x, the weight and torch's parameters, by central differences, eagerly."""
    chain = Chain(False)
    x, weight = leaves()
    found: list[np.ndarray[Any, Any]] = []
    with rg.no_grad():
        for tensor in (x, weight, *chain.torch.parameters()):
            array = tensor.numpy()
            slopes = np.zeros_like(array)
            for place in np.ndindex(array.shape):
                ends: list[float] = []
                for sign in (1.0, -1.0):
                    before = float(array[place])
                    array[place] = before + sign * step
                    ends.append(float(chain(x, weight).item()))
                    array[place] = before
                slopes[place] = (ends[0] - ends[1]) / (2 * step)
            found.append(slopes)
    return found


@pytest.fixture(scope="module")
def session(ray_started: Any) -> Any:
    session = rg.Session("ray", workers=3)
    yield session
    session.close(discard=True)


@pytest.fixture
def recording(session: Any) -> Any:
    from raygrad.autograd.core.modes import state

    state.recorder = session._recorder
    yield session
    state.recorder = None


def test_gradients_of_a_chain_over_three_workers_agree_with_finite_differences(recording: Any) -> None:
    chain = Chain(True)
    x, weight = leaves()
    loss = chain(x, weight)
    loss.backward()
    found: list[Any] = [x.grad, weight.grad, *[p.grad for p in chain.torch.parameters()]]
    arrays = [value.numpy() for value in found]
    run = recording.last_run
    assert {segment.worker for segment in run.plan.segments} == {0, 1, 2}
    from raygrad.autograd.core.modes import state

    state.recorder = None
    for array, expected in zip(arrays, differences(), strict=True):
        assert np.allclose(array, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("recompute", [False, True])
def test_bits_on_three_workers_are_those_of_eager_code(recompute: bool, recording: Any) -> None:
    there = gradients(True, recompute)
    from raygrad.autograd.core.modes import state

    state.recorder = None
    assert there == gradients(False)


def test_torch_runs_on_as_many_threads_as_the_session_says(recording: Any) -> None:
    node = rg.interop.torch.function(lambda x: x + torch.get_num_threads())
    assert node(rg.zeros(1)).item() == 1.0


def test_a_module_of_the_users_own_travels_by_value(recording: Any) -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    node = rg.interop.torch.function(Own())
    node(rg.tensor([2.0, 3.0])).sum().backward()
    (weight,) = node.parameters()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0, 3.0]
