"""Ops on arrays of other devices than the host: which operands may meet, kernels, what is made of them."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.autograd.registry.registry import get_op

CPU = rg.device("cpu")


@pytest.fixture(autouse=True)
def devices() -> Iterator[StandIn]:
    with use_stand_in(2) as devices:
        yield devices


def on(device: str, *values: float, grad: bool = False) -> Any:
    return rg.tensor([float(value) for value in values], device=device, requires_grad=grad)


# ---- who may meet ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [lambda a, b: a + b, lambda a, b: rg.cat([a, b]), lambda a, b: rg.where(a > 0, a, b)])
def test_tensors_of_two_devices_do_not_meet(work: Any):
    for a, b, named in (
        (on("cuda:0", 1, 2), on("cpu", 1, 2), "cuda:0 and cpu"),
        (on("cpu", 1, 2), on("cuda:1", 1, 2), "cuda:1 and cpu"),
        (on("cuda:1", 1, 2), on("cuda:0", 1, 2), "cuda:1 and cuda:0"),
    ):
        with pytest.raises(RuntimeError, match=f"found at least two devices, {named}!"):
            work(a, b)


def test_a_number_of_the_host_meets_a_device(devices: StandIn):
    scale = rg.tensor(3.0, requires_grad=True)
    x = on("cuda:1", 1, 2, grad=True)
    (x * scale).sum().backward()
    assert scale.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (rg.device("cuda:1"), [3, 3])
    assert (scale.grad.device, scale.grad.item()) == (CPU, 3)
    with pytest.raises(RuntimeError, match="two devices"):  # not the other way round
        rg.ones(2) * x.sum()


def test_indices_of_the_host_may_be_used():
    x = on("cuda", 1, 2, 3, grad=True)
    assert x[rg.tensor([2, 0])].tolist() == [3, 1]
    assert x[[0, 1]].tolist() == [1, 2]
    assert x[rg.tensor([True, False, True])].tolist() == [1, 3]
    y = x.detach().clone()
    y[rg.tensor([0])] = 5.0
    y[1:] = rg.tensor([7.0, 8.0])
    assert y.tolist() == [5, 7, 8]
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.gather(0, rg.tensor([3], device="cuda"))


# ---- kernels ---------------------------------------------------------------------------------------------------------


def test_an_op_of_the_host_alone_is_refused_by_name():
    x = on("cuda", 0.1, 0.2, grad=True)
    with pytest.raises(NotImplementedError, match=r"'erfinv' has no kernel for device cuda.*tensor\.cpu\(\)"):
        rg.erfinv(x)
    rg.erfinv(x.cpu()).to("cuda").sum().backward()
    assert x.grad.is_cuda


def test_a_rule_that_needs_an_op_of_the_host_says_so():
    op = get_op("lgamma")
    with use_stand_in(1) as devices, pytest.raises(NotImplementedError, match="'lgamma' has no kernel"):
        rg.autograd.apply_op("lgamma", devices.from_host(np.ones(1), 0))
    assert not op.has_kernel("cuda", "float64")


def test_a_user_registers_a_kernel_for_a_device():
    op = get_op("erfc")

    @rg.autograd.register_kernel("erfc", device="cuda")
    def erfc(a: Any) -> Any:
        return 1 - np.tanh(a)

    try:
        x = on("cuda", 0.0, 1.0, grad=True)
        y: Any = rg.erfc(x)
        np.testing.assert_allclose(y.detach().cpu().numpy(), 1 - np.tanh([0, 1]), rtol=1e-6)
        y.sum().backward()
        assert x.grad.is_cuda
        np.testing.assert_allclose(rg.erfc(on("cpu", 0.5)).numpy(), [0.4795], rtol=1e-4)
    finally:
        op.remove_user_entries()


# ---- tensors ---------------------------------------------------------------------------------------------------------


def test_ways_to_the_host_are_asked_for():
    x = on("cuda:1", 1.5, 2.5, grad=True)
    with pytest.raises(TypeError, match=r"can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu\(\)"):
        x.detach().numpy()
    with pytest.raises(TypeError, match="can't convert"):
        np.asarray(x.detach())
    assert x.numpy(force=True).tolist() == x.tolist() == [1.5, 2.5]
    assert x[0].item() == float(x[0]) == 1.5
    assert repr(x) == "tensor([1.5, 2.5], device='cuda:1', requires_grad=True)"
    assert bool(x.sum() > 0)
    with pytest.raises(RuntimeError, match=r"pickle tensor\.cpu\(\)"):
        pickle.dump(x, io.BytesIO())
    assert x.__dlpack_device__() == (2, 1)
    assert not hasattr(rg.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.__cuda_array_interface__  # noqa: B018


def test_copies_stay_where_they_are():
    x = on("cuda:1", 1, 2, grad=True)
    (x * 2).sum().backward()
    again = copy.deepcopy(x)
    assert (again.device, again.grad.device) == (x.device, x.device)
    for made in (x.detach(), x.clone(), x.data, x.new_zeros(2), rg.zeros_like(x), rg.rand_like(x), x.new_tensor([1])):
        assert made.device == x.device
    assert rg.tensor(x.detach()).device == rg.as_tensor(x).device == x.device
    assert rg.as_tensor(x.detach(), device="cpu").device == CPU
    assert rg.as_tensor(x.detach()._data).device == x.device


def test_gradients_live_with_their_leaves():
    x = on("cuda:1", 1, 2, grad=True)
    with pytest.raises(RuntimeError, match="different device: got cpu, expected cuda:1"):
        x.grad = rg.ones(2)
    for _ in range(2):
        (x * x).sum().backward()
    assert (x.grad.device, x.grad.tolist()) == (x.device, [4, 8])
    x.grad = rg.zeros(2, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"Mismatch in device: grad_output\[0\] is on cpu and output\[0\] on cuda:1"):
        (x * 2).backward(rg.ones(2))
    (g,) = rg.autograd.grad(x.sum(), (y := on("cuda:0", 1, grad=True)), allow_unused=True, materialize_grads=True)
    assert g.device == y.device
    assert (x * 2).grad_fn._input_metadata[0].device == rg.device("cuda:1")
    assert (rg.ones(1).requires_grad_() * 2).grad_fn._input_metadata[0].device == CPU


def test_a_tensor_moves_with_its_data():
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w.data = w.data.to("cuda:1")
    w.grad = None
    (w * w).sum().backward()
    assert (w.device, w.grad.device, w.grad.tolist()) == (rg.device("cuda:1"), rg.device("cuda:1"), [2, 4])


def test_random_numbers_are_the_same_on_every_device():
    drawn: list[Any] = []
    for place in ("cpu", "cuda:0", "cuda:1"):
        rg.manual_seed(5)
        drawn.append([f(4, device=place).tolist() for f in (rg.randn, rg.rand, rg.randperm)])
    assert drawn[0] == drawn[1] == drawn[2]


def test_views_and_changes_in_place_are_seen_in_shared_memory():
    x = rg.arange(6, dtype=rg.float32, device="cuda:1").reshape(2, 3)
    row, turned = x[0], x.T
    row.mul_(10)
    x[1, 1] = 9.0
    turned += 1
    assert x.tolist() == [[1, 11, 21], [4, 10, 6]]
    assert row._base is x._base
    w = on("cuda", 1, 2, grad=True)
    y = w * 2
    square = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()
    z = w * 1
    z[0] = 5.0
    (z * z).sum().backward()
    assert w.grad.tolist() == [0, 4]
    with pytest.raises(RuntimeError, match="read-only"):
        on("cuda", 1).expand(3).mul_(2)


# ---- Functions, optimisers, transforms -------------------------------------------------------------------------------


class Cube(rg.autograd.Function):
    """Works on the arrays of the device, whichever library's they are."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


@pytest.mark.parametrize("place", ["cuda:0", "cuda:1"])
def test_a_function_runs_on_a_device(devices: StandIn, place: str):
    x = on(place, 1, 2, grad=True)
    devices.forget_transfers()
    y = Cube.apply(x)
    assert y.grad_fn._input_metadata[0].device == x.device
    (g,) = rg.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    found = devices.transfers
    assert (found.to_host, found.to_device, found.between) == (0, 0, 0)
    assert (x.grad.device, x.grad.tolist()) == (x.device, [6, 12])


@pytest.mark.parametrize("make", [lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: rg.optim.Adam(p, lr=0.1)])
def test_optimisers_step_on_a_device(devices: StandIn, make: Any):
    def trained(place: str) -> list[float]:
        w = on(place, 1, 2, grad=True)
        optimiser = make([w])
        devices.forget_transfers()
        for _ in range(3):
            optimiser.zero_grad()
            (w * w).sum().backward()
            optimiser.step()
        found = devices.transfers
        assert (found.to_device, found.to_host, found.between) == (0, 0, 0)
        assert w.device == rg.device(place)
        return w.tolist()

    assert trained("cpu") == trained("cuda:0") == trained("cuda:1")


def test_transforms_run_on_a_device():
    x = on("cuda:1", 1, 2, 3)
    assert rg.vmap(lambda v: v * v + 1)(x).tolist() == [2, 5, 10]
    _, tangent = rg.func.jvp(lambda v: v**2, (x,), (rg.ones_like(x),))
    assert (tangent.device, tangent.tolist()) == (x.device, [2, 4, 6])
    jacobian = rg.func.jacrev(lambda v: v**2)(x)
    assert (jacobian.device, jacobian.diagonal().tolist()) == (x.device, [2, 4, 6])
    hessian = rg.func.hessian(lambda v: (v**3).sum())(x)
    assert hessian.diagonal().tolist() == [6, 12, 18]
    assert rg.func.grad(lambda v: (v**2).sum())(x).device == x.device
