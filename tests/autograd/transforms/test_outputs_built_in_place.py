"""Outputs that are built in place, under every transform, eagerly and in a session: as PyTorch's (FW-14, VM-17)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def zeros_like(T: Any, x: Any) -> Any:
    y = T.zeros_like(x)
    for i in range(3):
        y[i] = x[i] * x[(i + 1) % 3]
    return y


@program
def new_zeros(T: Any, x: Any) -> Any:
    y = x.new_zeros(3)
    y[0] = x[0].sin()
    y[1:] = x[1:] ** 2
    return y


@program
def new_full(T: Any, x: Any) -> Any:
    y = x.new_full((2, 3), 1.5)
    y[0] = x
    y[1, 1] = x[1] * x[2]
    return y.sum(0)


@program
def new_ones(T: Any, x: Any) -> Any:
    return x.new_ones(3).add_(x * x).cumsum(0)


@program
def full_like(T: Any, x: Any) -> Any:
    y = T.full_like(x, 2.0)
    y *= x.exp()
    return y


@program
def empty_like(T: Any, x: Any) -> Any:
    y = T.empty_like(x)
    y[:] = 2 * x
    y[0] *= x[1]
    return y


@program
def clone(T: Any, x: Any) -> Any:
    y = x.clone()
    y.mul_(x)
    y[1] += x[0]
    return y


@program
def view_of_a_clone(T: Any, x: Any) -> Any:
    y = x.clone()
    y[1:].mul_(x[0])
    return y


@program
def indices(T: Any, x: Any) -> Any:
    y = T.zeros_like(x)
    y[T.tensor([0, 2])] = x[T.tensor([1, 0])] * 2
    return y


@program
def index_add(T: Any, x: Any) -> Any:
    return T.zeros_like(x).index_add_(0, T.tensor([0, 0, 1]), x * x)


@program
def scatter(T: Any, x: Any) -> Any:
    return T.zeros_like(x).scatter_(0, T.tensor([2, 0, 1]), x * x)


@program
def clamp(T: Any, x: Any) -> Any:
    return (x * 1).clamp_(min=2.0)


@program
def zero_and_fill(T: Any, x: Any) -> Any:
    y = x * 1
    y.zero_()
    y += x * x
    y[0].fill_(3.0)
    return y


@program
def select(T: Any, x: Any) -> Any:
    y = T.zeros_like(x)
    y.select(0, 1).copy_(x[0] * x[2])
    return y


@program
def unbind(T: Any, x: Any) -> Any:
    y = T.zeros_like(x)
    y.unbind(0)[0].add_(x[0] * x[1])
    return y


@program
def transposed(T: Any, x: Any) -> Any:
    y = x.new_zeros(3, 2)
    y.t()[1].add_(x**2)
    return y.sum(1)


@program
def swapped(T: Any, x: Any) -> Any:
    y = x.clone()
    y[0], y[1] = y[1].clone(), y[0].clone()
    return y * y


@program
def accumulated(T: Any, x: Any) -> Any:
    total = x.new_zeros(())
    for i in range(3):
        total += x[i] ** 2
    return total * x


@program
def diagonal(T: Any, x: Any) -> Any:
    y = x.new_zeros(3, 3)
    y[T.tensor([0, 1, 2]), T.tensor([0, 1, 2])] = x * x
    return y @ x


@program
def constant(T: Any, x: Any) -> Any:
    y = T.zeros(3)
    y[0] = 1.0
    return y * x


@program
def unbatched(T: Any, x: Any) -> Any:
    y = T.zeros(3)
    y[0] = x[0] * 2
    return y


def squared(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (f(x) ** 2).sum()


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "vmap": lambda F, f, x: F.vmap(f)(x),
    "vmap of vmap": lambda F, f, x: F.vmap(F.vmap(f))(x.unsqueeze(0)),
    "vmap of grad": lambda F, f, x: F.vmap(F.grad(squared(f)))(x),
    "grad of vmap": lambda F, f, x: F.grad(squared(F.vmap(f)))(x),
    "jvp of vmap": lambda F, f, x: F.jvp(F.vmap(f), (x,), (x * 0.5,))[1],
    "vmap of jvp": lambda F, f, x: F.vmap(lambda t: F.jvp(f, (t,), (t * 0.5,))[1])(x),
    "jacfwd": lambda F, f, x: F.jacfwd(f)(x[0]),
    "jacrev": lambda F, f, x: F.jacrev(f)(x[0]),
    "hessian": lambda F, f, x: F.hessian(squared(f))(x[0]),
    "vmap of hessian": lambda F, f, x: F.vmap(F.hessian(squared(f)))(x),
    "jacfwd of jacfwd": lambda F, f, x: F.jacfwd(F.jacfwd(squared(f)))(x[0]),
    "jacrev of jacrev": lambda F, f, x: F.jacrev(F.jacrev(squared(f)))(x[0]),
    "jacrev of jacfwd": lambda F, f, x: F.jacrev(F.jacfwd(squared(f)))(x[0]),
}

UPSTREAM = {("jacfwd of jacfwd", "clamp"), ("jacfwd of jacfwd", "zero_and_fill"), ("grad of vmap", "unbind")}
"""What PyTorch refuses for reasons of its own (immutable zeros, views of a factory), and raygrad computes."""

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {"eager": nullcontext, "session": rg.Session}

POINTS = [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_output_built_in_place_is_pytorchs(name: str, transform: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    run, built = TRANSFORMS[transform], PROGRAMS[name]

    def of(T: Any) -> Any:
        return run(T.func, lambda x: built(T, x), T.tensor(POINTS)).tolist()

    if (transform, name) in UPSTREAM:
        with pytest.raises(RuntimeError):
            of(torch)
        with MODES[mode]():
            of(rg)
        return
    try:
        expected = of(torch)
    except RuntimeError:
        with MODES[mode](), pytest.raises(RuntimeError):
            of(rg)
        return
    with MODES[mode]():
        np.testing.assert_allclose(of(rg), expected, rtol=1e-5)
