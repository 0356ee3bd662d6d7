"""A device as a value: PyTorch's names, errors and equality, and the block in which factories make tensors."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import RaygradError

GOOD: list[tuple[Any, ...]] = [
    ("cpu",), ("cuda",), ("cuda:1",), ("cuda", 1), ("cpu:3",), ("cpu", 0), ("cuda", 0),
]  # fmt: skip
BAD: list[tuple[Any, ...]] = [
    ("foo",), ("cuda:x",), ("cuda:-1",), ("cuda:",), ("",), ("cuda:0", 1), ("cuda", -1), (-1,), ("CUDA",),
    ("cuda:01",), ("cuda:1:2",), ("a b",), ("auto",),
]  # fmt: skip
WRONG: list[tuple[Any, ...]] = [(None,), (1.5,), ("cpu", "x")]


@pytest.mark.parametrize("args", GOOD)
def test_names_are_read_and_written(args: Any):
    device = rg.device(*args)
    assert rg.device(str(device)) == device
    assert eval(repr(device), {"device": rg.device}) == device
    assert pickle.loads(pickle.dumps(device)) == device
    assert hash(rg.device(device)) == hash(device)


@pytest.mark.oracle
@pytest.mark.parametrize("args", GOOD)
def test_names_are_those_of_torch(args: Any):
    torch = pytest.importorskip("torch")
    ours, theirs = rg.device(*args), torch.device(*args)
    assert (str(ours), repr(ours), ours.type, ours.index) == (str(theirs), repr(theirs), theirs.type, theirs.index)


@pytest.mark.parametrize("args", BAD)
def test_what_names_no_device_is_refused(args: Any):
    with pytest.raises(RuntimeError) as caught:
        rg.device(*args)
    assert isinstance(caught.value, RaygradError)


@pytest.mark.oracle
@pytest.mark.parametrize("args", [*BAD, *WRONG])
def test_torch_refuses_the_same(args: Any):
    torch = pytest.importorskip("torch")
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        torch.device(*args)
    with pytest.raises(theirs.type):
        rg.device(*args)


@pytest.mark.parametrize("args", WRONG)
def test_what_is_no_name_is_a_type_error(args: Any):
    with pytest.raises(TypeError):
        rg.device(*args)


def test_a_device_is_a_value():
    assert rg.device("cuda:0") == rg.device("cuda", 0) == rg.device(rg.device("cuda:0")) == rg.device(0)
    assert len({rg.device("cuda:0"), rg.device("cuda", 0), rg.device("cuda")}) == 2
    assert rg.device("cpu") != "cpu"
    with pytest.raises(AttributeError, match="not writable"):
        rg.device("cpu").type = "cuda"
    with pytest.raises(AttributeError, match="not writable"):
        del rg.device("cpu").type
    with pytest.raises(RuntimeError, match="at most 127"):  # torch wraps it round
        rg.device("cuda:200")


def test_factories_make_tensors_where_the_block_says():
    with use_stand_in(2), rg.device("cuda:1") as entered:
        x = rg.zeros(2)
        assert entered == rg.device("cuda:1") == x.device
        made = [
            rg.tensor([1.0]), rg.as_tensor([1.0]), rg.arange(3), rg.randn(2), rg.rand(2), rg.randint(3, (2,)),
            rg.randperm(3), rg.eye(2), rg.linspace(0, 1, 3), rg.full((2,), 1.0), rg.empty(2), rg.ones(1),
        ]  # fmt: skip
        assert {one.device for one in made} == {entered}
        assert rg.zeros(1, device="cpu").device == rg.device("cpu")
        with rg.device("cpu"):
            assert rg.zeros(1).device == rg.device("cpu")
            assert rg.zeros_like(x).device == entered
        with rg.device("cuda"):  # the current one
            assert rg.zeros(1).device == rg.device("cuda:0")
        with entered, entered:  # one value, entered thrice
            assert rg.zeros(1).device == entered
        assert rg.zeros(1).device == entered
    assert rg.zeros(1).device == rg.device("cpu")


@pytest.mark.oracle
def test_torch_makes_them_there_too():
    """Of PyTorch's devices, one that needs no hardware shows which factories follow the block."""
    torch = pytest.importorskip("torch")

    def places(T: Any, there: Any) -> list[bool]:
        here = T.zeros(2)
        with there:
            made = [
                T.zeros(2), T.tensor([1.0]), T.as_tensor([1.0]), T.arange(3), T.randn(2), T.zeros_like(here),
                T.zeros(1, device="cpu"), T.as_tensor(here), here.new_zeros(2), T.ones_like(here), here.new_tensor([1]),
            ]  # fmt: skip
        return [one.device == there for one in made]

    with use_stand_in(1):
        ours = places(rg, rg.device("cuda:0"))
    theirs = places(torch, torch.device("meta"))
    theirs[7] = False  # PyTorch moves what `as_tensor` is given; here a tensor comes back as it is
    assert ours == theirs


def test_a_block_is_of_its_thread():
    found: list[rg.device] = []
    with use_stand_in(1), rg.device("cuda:0"):
        thread = threading.Thread(target=lambda: found.append(rg.zeros(1).device))
        thread.start()
        thread.join()
    assert found == [rg.device("cpu")]


def test_a_block_is_left_by_an_error():
    with use_stand_in(1):
        with pytest.raises(ZeroDivisionError), rg.device("cuda:0"):
            raise ZeroDivisionError
        assert rg.zeros(1).device == rg.device("cpu")
