"""Moving tensors between devices: itself where nothing moves, and gradients that move back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.devices import StandIn, use_stand_in

CPU = rg.device("cpu")


@pytest.fixture(autouse=True)
def devices() -> Iterator[StandIn]:
    with use_stand_in(2) as devices:
        yield devices


def test_what_is_there_comes_back_as_it_is():
    x = rg.ones(2, device="cuda:1")
    for same in (
        x.to("cuda:1"), x.to(x), x.cuda(1), x.cuda("cuda:1"), x.to(device="cuda:1"), x.to(rg.float32), x.to(),
        x.to("cuda:1", rg.float32, True, False), x.to(rg.float32, non_blocking=True),
    ):  # fmt: skip
        assert same is x
    host = rg.ones(2)
    assert host.cpu() is host.to("cpu") is host
    assert x.to("cuda:1", copy=True) is not x
    assert x.to("cuda:1", None, False, True) is not x
    assert ops.to_device(host, CPU) is host


def test_devices_and_dtypes_are_told_apart():
    x = rg.ones(2, dtype=rg.float64)
    assert (x.to("cuda").device, x.to("cuda").dtype) == (rg.device("cuda:0"), rg.float64)
    assert (x.to("cuda:1", rg.float32).device, x.to("cuda:1", rg.float32).dtype) == (rg.device("cuda:1"), rg.float32)
    assert x.to("float32").dtype == rg.float32
    assert x.to(1).device == rg.device("cuda:1")
    other = rg.ones(1, device="cuda:1", dtype=rg.int64)
    assert (x.to(other).device, x.to(other).dtype) == (other.device, other.dtype)
    assert x.to(rg.device("cuda")).is_cuda
    assert x.is_cpu
    assert (x.get_device(), other.get_device(), x.cuda().get_device()) == (-1, 1, 0)
    with pytest.raises(TypeError, match="to\\(\\) takes"):
        x.to("cuda", rg.float32, 3)
    with pytest.raises(RuntimeError, match="must be cuda device"):
        x.cuda("cpu")
    with pytest.raises(RuntimeError, match="start of device string"):
        x.to("foo")


def test_gradients_move_back(devices: StandIn):
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x.to("cuda:0")
    z = y * y
    w = z.to("cuda:1", rg.float64)
    devices.forget_transfers()
    w.sum().backward()
    assert x.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (CPU, [2, 4])
    found = devices.transfers
    assert (found.to_device, found.between, found.to_host) == (0, 1, 1)
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "ToDeviceBackward0"


def test_it_is_differentiated_twice():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    (g,) = rg.autograd.grad((x.to("cuda") ** 3).sum().cpu(), x, create_graph=True)
    assert g.device == CPU
    (h,) = rg.autograd.grad((g.to("cuda:1") ** 2).sum(), x)
    np.testing.assert_allclose(h.numpy(), [36, 288])


def test_axis_order_goes_along():
    x = rg.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    for place in ("cuda:0", "cuda:1", "cpu"):
        moved = x.to(place)
        assert moved.stride() == (1, 2)
        assert moved.tolist() == x.tolist()


@pytest.mark.oracle
def test_nodes_and_identity_are_torch_s_where_a_dtype_changes():
    torch = pytest.importorskip("torch")

    def seen(T: Any) -> list[Any]:
        x = T.ones(2, requires_grad=True)
        made = [x.to("cpu"), x.to(T.float64), x.to("cpu", T.float64), x.to(T.ones(1, dtype=T.float64)), x.cpu(), x.to()]
        return [(one is x, str(one.dtype).removeprefix("torch."), one.requires_grad, str(one.device)) for one in made]

    assert seen(rg) == seen(torch)
