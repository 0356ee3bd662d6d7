"""User code whose own kernel finds a device full runs again, if it may."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import backend_if_installed
from raygrad.errors import OutOfDeviceMemory
from raygrad.workers.interpreter.interruption import InterruptGate

from ..memory.test_evictor import ARRAY, trained
from .test_interruption import guarded

pytestmark = pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")


class Raw(rg.autograd.Function):
    """Its kernels are the library's own."""

    pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("forward", 1)
        ctx.save_for_backward(x)
        a = x.read()
        with np.errstate(over="ignore", invalid="ignore"):
            return rg.as_tensor(np.sin(a) * np.cos(a) * np.exp(a) * 2 + a)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]


class Guarded(Raw):
    pure = None


def test_a_kernel_of_a_users_own_runs_again_if_its_function_is_pure() -> None:
    free, peak, heard = trained(Raw, None)
    has = 5 * ARRAY
    assert peak > 2 * has
    bits, peak, again = trained(Raw, has)
    assert (bits, again) == (free, heard)
    assert peak <= has


def test_else_the_error_says_what_would_help() -> None:
    with pytest.raises(
        OutOfDeviceMemory, match=r"cuda:0 is out of memory in user code that was given \[20000\].*pure = True"
    ):
        trained(Guarded, 5 * ARRAY)


def test_the_second_run_and_its_errors_know_nothing_of_the_first() -> None:
    handled: list[Any] = []

    def twice(slots: Any) -> None:
        handled.append(sys.exc_info()[0])
        if len(handled) == 1:
            backend = backend_if_installed()
            assert backend is not None
            raise backend.exhausted("full")
        raise ValueError("of the user's own")

    with use_stand_in(), pytest.raises(ValueError, match="of the user's own") as caught:
        guarded(InterruptGate(), twice)([None])
    assert handled == [None, None]
    assert caught.value.__context__ is None
