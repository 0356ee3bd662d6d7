"""`raygrad.cuda`: names of PyTorch's, answered by whoever serves "cuda"."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import inspect

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in


@pytest.mark.oracle
def test_each_name_is_one_of_torch():
    torch = pytest.importorskip("torch")
    for name in rg.cuda.__all__:
        theirs, ours = getattr(torch.cuda, name), getattr(rg.cuda, name)
        assert inspect.getdoc(ours), name
        known = list(inspect.signature(theirs).parameters)
        assert set(inspect.signature(ours).parameters) <= set(known), name


def test_it_tells_what_there_is():
    with use_stand_in(2, memory=1 << 20) as devices:
        assert rg.cuda.is_available()
        assert rg.cuda.device_count() == 2
        assert rg.cuda.current_device() == 0
        x = rg.ones(256, device="cuda:1")
        assert rg.cuda.memory_allocated() == 0
        assert rg.cuda.memory_allocated(1) == rg.cuda.memory_allocated("cuda:1") == 1024
        assert rg.cuda.mem_get_info(x.device) == ((1 << 20) - 1024, 1 << 20)
        y = x + 1
        del y
        assert rg.cuda.max_memory_allocated(1) == 2048
        rg.cuda.reset_peak_memory_stats(1)
        assert rg.cuda.max_memory_allocated(1) == 1024
        rg.cuda.synchronize()
        rg.cuda.synchronize(1)
        rg.cuda.empty_cache()
        rg.cuda.manual_seed(3)
        first = rg.randn(2, device="cuda").tolist()
        rg.manual_seed(3)
        assert rg.randn(2).tolist() == first
        with devices.on(1):
            assert rg.cuda.current_device() == 1


def test_memory_is_limited_to_a_part():
    with use_stand_in(1):
        rg.cuda.set_per_process_memory_fraction(1e-7)
        with pytest.raises(MemoryError):
            rg.zeros(1000, device="cuda") + 1
        rg.cuda.set_per_process_memory_fraction(1.0)
        assert (rg.zeros(1000, device="cuda") + 1).sum().item() == 1000
        with pytest.raises(ValueError, match="Invalid fraction"):
            rg.cuda.set_per_process_memory_fraction(0)


def test_the_host_is_no_cuda_device():
    with use_stand_in(1), pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        rg.cuda.memory_allocated("cpu")


def test_without_a_gpu_it_says_so():
    if rg.cuda.is_available():
        pytest.skip("there is one")
    assert rg.cuda.device_count() == 0
    rg.cuda.empty_cache()
    for ask in (rg.cuda.current_device, rg.cuda.synchronize, rg.cuda.memory_allocated):
        with pytest.raises(RuntimeError, match="CuPy"):
            ask()
