"""GPUs by CuPy: skipped without one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices.backends.cuda import Cuda
from raygrad.autograd.devices.serving import serve
from raygrad.errors import DeviceError


@pytest.fixture
def cuda():
    pytest.importorskip("cupy")
    try:
        backend = Cuda()
    except RuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    before = serve(backend)
    yield backend
    serve(before)


def test_without_cupy_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError):
        Cuda()


def test_streams_of_threads_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    monkeypatch.setenv("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    monkeypatch.delenv("RAYGRAD_STAND_IN", raising=False)
    before = serve(None)
    try:
        with pytest.raises(DeviceError, match=r"PER_THREAD_DEFAULT_STREAM is set.*; unset it"):
            rg.zeros(2, device="cuda")
    finally:
        serve(before)


@pytest.mark.gpu
def test_arrays_go_there_and_back_in_their_own_order(cuda: Cuda):
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros(0)):
        there = cuda.from_host(array, 0)
        assert type(there) is cuda.array
        assert cuda.device_of(there) == rg.device("cuda:0")
        assert there.strides == array.strides
        np.testing.assert_array_equal(cuda.to_host(there), array)
        np.testing.assert_array_equal(cuda.to_host(cuda.copy_to(there, cuda.count() - 1)), array)


@pytest.mark.gpu
def test_memory_is_that_of_the_pool(cuda: Cuda):
    before = cuda.memory(0).allocated
    held = cuda.from_host(np.zeros(1 << 16), 0)
    found = cuda.memory(0)
    assert found.allocated - before >= held.nbytes
    assert found.peak >= found.allocated
    assert 0 < found.free <= found.total
    cuda.limit(0, found.allocated + 1024)
    try:
        with pytest.raises(cuda.exhausted):
            cuda.from_host(np.zeros(1 << 20), 0)
    finally:
        cuda.limit(0, None)
    cuda.synchronize(0)
    cuda.empty_cache()
    cuda.reset_peak(0)
    assert cuda.current() == 0


@pytest.mark.gpu
def test_a_program_runs_there(cuda: Cuda):
    x = rg.randn(64, 32, device="cuda", requires_grad=True)
    w = rg.randn(32, 8, device="cuda", requires_grad=True)
    (x @ w).softmax(-1).log().mean().backward()
    assert x.grad is not None
    assert x.grad.is_cuda
    host = [t.detach().cpu().requires_grad_() for t in (x, w)]
    (host[0] @ host[1]).softmax(-1).log().mean().backward()
    assert host[0].grad is not None
    np.testing.assert_allclose(x.grad.cpu().numpy(), host[0].grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
def test_arrays_are_exchanged_without_a_copy(cuda: Cuda):
    cupy = cuda.xp
    for index in cuda.numbers():
        with cuda.on(index):
            theirs = cupy.arange(6.0).reshape(2, 3)
        ours = rg.as_tensor(theirs)
        assert ours.read() is theirs
        back = cupy.from_dlpack(rg.as_tensor(OnlyDlpack(theirs)))
        assert (back.data.ptr, back.device.id) == (theirs.data.ptr, index)


@pytest.mark.gpu
def test_arrays_are_exchanged_with_torch_without_a_copy(cuda: Cuda):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    with torch.cuda.stream(torch.cuda.Stream()):
        slow = torch.ones(1 << 24, device="cuda")
        for _ in range(50):
            slow = slow + 1
        ours = rg.as_tensor(slow)
    assert cuda.start_of(ours.read()) == slow.data_ptr()
    assert ours[-1].item() == 51
    assert torch.from_dlpack(ours).data_ptr() == slow.data_ptr()


class OnlyDlpack:
    """An array of a library that has no other interface."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()
