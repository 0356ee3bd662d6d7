"""Running torch inside a node: threads, memory, and who may touch the generator."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.interop.torch_runtime import GeneratorLock, framework_settings
from raygrad.workers.process.blas_threads import limit_blas, release_blas

torch: Any = pytest.importorskip("torch", reason="interop with torch: pip install 'raygrad[torch]'")


def test_h12_a_session_sets_torchs_threads_while_a_node_runs() -> None:
    before = torch.get_num_threads()
    node = rg.interop.torch.function(lambda x: x + torch.get_num_threads())
    torch.set_num_threads(3)
    try:
        assert node(rg.zeros(1)).item() == 3.0
        with rg.Session(workers=1, blas_threads=2):
            assert node(rg.zeros(1)).item() == 2.0
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_switches_nest_and_put_threads_back() -> None:
    before = torch.get_num_threads()
    limit_blas(before + 1)
    try:
        with framework_settings(torch):
            with framework_settings(torch):
                assert torch.get_num_threads() == before + 1
            assert torch.get_num_threads() == before + 1
    finally:
        release_blas(before + 1)
    assert torch.get_num_threads() == before


def test_the_programs_autocast_and_grad_mode_do_not_reach_a_node() -> None:
    node = rg.interop.torch.function(lambda x: x @ x)
    x = rg.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        y = node(x)
    assert y.dtype == np.dtype(np.float32)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_the_default_dtype_is_that_of_the_call() -> None:
    node = rg.interop.torch.function(lambda x: x * torch.ones(1))
    with rg.Session(workers=1):
        torch.set_default_dtype(torch.float64)
        try:
            wide = node(rg.ones(1))
        finally:
            torch.set_default_dtype(torch.float32)
        narrow = node(rg.ones(1))
        assert (wide.dtype, narrow.dtype) == (rg.float64, rg.float32)
        assert (wide.numpy().dtype, narrow.numpy().dtype) == (np.dtype(np.float64), np.dtype(np.float32))
    assert torch.get_default_dtype() is torch.float32


def test_arguments_are_not_copied() -> None:
    node = rg.interop.torch.function(lambda x: torch.tensor(x.data_ptr()))
    x = rg.from_numpy(np.zeros(1000))
    node(x)  # the first run finds out what is changed in place, on copies
    assert node(x).item() == x.numpy().ctypes.data


def test_one_module_runs_on_several_threads_with_values_of_its_own() -> None:
    node = rg.interop.torch.function(torch.nn.Linear(1, 1, bias=False).double())
    (weight,) = node.parameters()
    with rg.no_grad():
        weight.fill_(2.0)
    found: list[bool] = []

    def work(number: int) -> None:
        for _ in range(50):
            x = rg.tensor([[float(number)]], dtype=rg.float64)
            found.append(node(x).item() == 2.0 * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200


def test_who_seeds_the_generator_waits_for_the_others_and_they_for_it() -> None:
    draws = GeneratorLock()
    order: list[str] = []
    inside, go = threading.Event(), threading.Event()

    def beside() -> None:
        with draws.shared(), draws.shared():
            inside.set()
            go.wait(10)
            order.append("beside")

    def alone() -> None:
        with draws.exclusive():
            order.append("alone")

    first, second = threading.Thread(target=beside), threading.Thread(target=alone)
    first.start()
    assert inside.wait(10)
    second.start()
    go.set()
    first.join()
    second.join()
    assert order == ["beside", "alone"]


def test_what_is_changed_only_later_is_refused() -> None:
    node = rg.interop.torch.function(lambda x: x.add_(1) if x[0] > 0 else x * 1)
    node(rg.tensor([-1.0]))
    with pytest.raises(RuntimeError, match="had not in its first run"):
        node(rg.tensor([1.0]))


def test_h10_what_torch_keeps_is_counted_and_its_inputs_are_not() -> None:
    node = rg.interop.torch.function(lambda x, y: (torch.sin(x) * y).exp().sum())
    x, y = rg.ones(1000, dtype=rg.float64, requires_grad=True), rg.ones(1000, dtype=rg.float64)
    node(x, y)  # the first run works on copies, which are then kept as well
    out = node(x, y)
    held = out.grad_fn.held
    assert held.nbytes == 8000  # the result of exp: that of sin is of no use without a gradient by y
    out.backward()
    assert held.nbytes == 0
    dense = rg.interop.torch.function(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()))
    dense(rg.ones(2, 4))
    assert dense(rg.ones(2, 4)).grad_fn.held.nbytes == 2 * 4 * 4
