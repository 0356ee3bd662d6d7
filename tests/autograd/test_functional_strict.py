"""`autograd.functional` with `strict` and `create_graph`, recorded or not: what PyTorch returns or refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import raygrad as rg

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

OF_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda T, x: x**2,
    "constant": lambda T, x: T.ones(3) * 2,
    "detached": lambda T, x: x.detach() * 2,
    "identity": lambda T, x: x,
}
SCALAR: dict[str, Callable[[Any, Any], Any]] = {
    "cube": lambda T, x: (x**3).sum(),
    "constant": lambda T, x: T.ones(3).sum(),
    "sum": lambda T, x: x.sum(),
    "one element": lambda T, x: x[0] ** 2,
    "half detached": lambda T, x: (x * x.detach()).sum(),
}
OF_TWO: dict[str, Callable[..., Any]] = {
    "first alone": lambda T, a, b: a**2,
    "one each": lambda T, a, b: (a**2, b * 2),
    "separate": lambda T, a, b: (a.sum(), b * 1),
}
SCALAR_OF_TWO: dict[str, Callable[..., Any]] = {
    "first alone": lambda T, a, b: (a**2).sum(),
    "product": lambda T, a, b: (a * b).sum(),
}
MODES = ("recorded", "no_grad", "session")


def _mode(T: Any, name: str) -> AbstractContextManager[Any]:
    if name == "no_grad":
        return T.no_grad()
    return rg.Session() if name == "session" and T is rg else nullcontext()


def _flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _flat(item)] if isinstance(result, tuple) else [result]


def _outcome(run: Callable[[], Any]) -> Any:
    """The values of a result and whether each has a graph, or the builtin type of the error."""
    try:
        return [(one.tolist(), one.requires_grad, one.grad_fn is None) for one in _flat(run())]
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _calls(T: Any, options: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Every call that is compared, by its name."""
    A, v = T.autograd.functional, T.ones(3)

    def x(requires_grad: bool = False) -> Any:
        return T.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad)

    calls: dict[str, Callable[[], Any]] = {}
    for name, f in OF_ONE.items():
        g = lambda t, f=f: f(T, t)  # noqa: E731
        calls[f"vjp {name}"] = lambda g=g: A.vjp(g, x(), v, **options)
        calls[f"jvp {name}"] = lambda g=g: A.jvp(g, x(), v, **options)
        calls[f"jacobian {name}"] = lambda g=g: A.jacobian(g, x(), **options)
        calls[f"jacobian of a leaf, {name}"] = lambda g=g: A.jacobian(g, x(True), **options)
        calls[f"vectorized {name}"] = lambda g=g: A.jacobian(g, x(), vectorize=True, **options)
    for name, f in SCALAR.items():
        g = lambda t, f=f: f(T, t)  # noqa: E731
        calls[f"hvp {name}"] = lambda g=g: A.hvp(g, x(), v, **options)
        calls[f"vhp {name}"] = lambda g=g: A.vhp(g, x(), v, **options)
        calls[f"hessian {name}"] = lambda g=g: A.hessian(g, x(), **options)
    for name, f in OF_TWO.items():
        g = lambda a, b, f=f: f(T, a, b)  # noqa: E731
        calls[f"jvp of two, {name}"] = lambda g=g: A.jvp(g, (x(), x()), (v, v), **options)
        calls[f"jacobian of two, {name}"] = lambda g=g: A.jacobian(g, (x(), x()), **options)
    for name, f in SCALAR_OF_TWO.items():
        g = lambda a, b, f=f: f(T, a, b)  # noqa: E731
        calls[f"hvp of two, {name}"] = lambda g=g: A.hvp(g, (x(), x()), (v, v), **options)
        calls[f"vhp of two, {name}"] = lambda g=g: A.vhp(g, (x(), x()), (v, v), **options)
        calls[f"hessian of two, {name}"] = lambda g=g: A.hessian(g, (x(), x()), **options)
    return calls


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_results_their_graphs_and_refusals_are_pytorchs(strict: bool, create_graph: bool, mode: str) -> None:
    torch = pytest.importorskip("torch")
    options = {"strict": strict, "create_graph": create_graph}
    found: dict[Any, dict[str, Any]] = {}
    for T in (torch, rg):
        with _mode(T, mode):
            found[T] = {name: _outcome(call) for name, call in _calls(T, options).items()}
    assert found[rg] == found[torch]
