"""Ops of several outputs have one node for all of them, as in PyTorch: outputs, hooks, views, and every transform."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

NUMBERS = np.random.default_rng(0).normal(size=(4, 4))

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "unbind": lambda T, x: x.unbind(),
    "unbind-columns": lambda T, x: T.unbind(x, 1),
    "iteration": lambda T, x: tuple(x),
    "split": lambda T, x: x.split(3),
    "split-sizes": lambda T, x: T.split(x, [1, 0, 3], 1),
    "split_with_sizes": lambda T, x: x.split_with_sizes([1, 3]),
    "chunk": lambda T, x: x.chunk(2, -1),
    "tensor_split": lambda T, x: x.tensor_split(3),
    "var_mean": lambda T, x: T.var_mean(x, 0),
    "var_mean-all": lambda T, x: T.var_mean(x),
    "std_mean": lambda T, x: T.std_mean(x, 1, keepdim=True),
    "aminmax": lambda T, x: T.aminmax(x),
    "aminmax-dim": lambda T, x: T.aminmax(x, dim=1),
    "max": lambda T, x: x.max(0),
    "sort": lambda T, x: x.sort(0),
    "svd": lambda T, x: T.linalg.svd(x)[1:2],
}

OTHER_NAMES = ("max", "sort", "svd")
"""Whose nodes are named otherwise here."""

each = pytest.mark.parametrize("name", OPS)


def graded(outputs: Any) -> list[Any]:
    return [one for one in outputs if one.requires_grad]


def nodes(T: Any, name: str) -> Any:
    outputs = graded(OPS[name](T, T.tensor(NUMBERS, requires_grad=True) * 1))
    made = [one.grad_fn for one in outputs]
    names = [] if name in OTHER_NAMES or name == "tensor_split" else [one.name() for one in made]
    return names, [one.output_nr for one in outputs], [made.index(one) for one in made]


def hooked(T: Any, name: str, of: Callable[[list[Any]], Any]) -> list[Any]:
    """What hooks of the node are given where some outputs have a gradient, and the gradient."""
    x = T.tensor(NUMBERS, requires_grad=True)
    outputs = graded(OPS[name](T, x * 1))
    seen: list[Any] = []
    node = outputs[-1].grad_fn

    def listed(grads: Any) -> Any:
        return [None if g is None else g.tolist() for g in grads]

    node.register_prehook(lambda grads: seen.append(("pre", listed(grads))))
    node.register_hook(lambda given, grads: seen.append(("post", np.shape(given[0].tolist()), listed(grads))))
    of(outputs).backward()
    return [seen, x.grad.tolist()]


def close(expected: Any, got: Any) -> None:
    if isinstance(expected, float):
        assert got == pytest.approx(expected, abs=1e-12)
    elif isinstance(expected, list | tuple):
        assert len(expected) == len(got)
        for one, other in zip(expected, got, strict=True):
            close(one, other)
    else:
        assert got == expected


@pytest.mark.oracle
@each
def test_outputs_share_a_node(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert nodes(rg, name) == nodes(torch, name)
    with rg.Session():
        assert nodes(rg, name) == nodes(torch, name)


@pytest.mark.oracle
@pytest.mark.parametrize("of", ["last", "all"])
@pytest.mark.parametrize("name", sorted({*OPS} - {"max"}))  # whose indices are no output to PyTorch's hooks
def test_hooks_of_the_node_see_a_gradient_for_each_output(name: str, of: str) -> None:
    torch = pytest.importorskip("torch")

    def loss(outputs: list[Any]) -> Any:
        used = outputs[-1:] if of == "last" else outputs
        return sum((one * one).sum() for one in used)

    expected = hooked(torch, name, loss)
    close(expected, hooked(rg, name, loss))


@pytest.mark.oracle
@each
def test_second_derivatives_tangents_and_batches_agree(name: str) -> None:
    torch = pytest.importorskip("torch")

    def values(T: Any, x: Any) -> Any:
        return sum([(one * one * one).sum() * (n + 1) for n, one in enumerate(graded_or_all(OPS[name](T, x)))])

    def graded_or_all(outputs: Any) -> list[Any]:
        return [one for one in outputs if one.is_floating_point()]

    def all_of(T: Any) -> list[Any]:
        x = T.tensor(NUMBERS, requires_grad=True)
        (first,) = T.autograd.grad(values(T, x * 1), x, create_graph=True)
        (second,) = T.autograd.grad((first * first).sum(), x)
        plain = T.tensor(NUMBERS)
        tangent = T.func.jvp(lambda x: values(T, x), (plain,), (plain * 2 + 1,))[1]
        out = [first, second, tangent]
        if name != "svd":
            batch = T.tensor(np.stack([NUMBERS, NUMBERS * 2]))
            out.append(T.vmap(lambda x: values(T, x))(batch))
            out.append(T.vmap(T.func.grad(lambda x: values(T, x)))(batch))
        return [one.tolist() for one in out]

    expected = all_of(torch)
    close(expected, all_of(rg))
    with rg.Session():
        close(expected, all_of(rg))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["unbind", "split", "split-sizes", "chunk", "tensor_split"])
def test_changes_in_place_of_several_views_agree(name: str) -> None:
    torch = pytest.importorskip("torch")

    def changes(T: Any) -> list[Any]:
        out: list[Any] = []
        for recorded in (True, False):
            base = T.tensor(NUMBERS, requires_grad=recorded) * 1
            parts = OPS[name](T, base)
            out.append([one._base is base for one in parts])
            try:
                parts[0].mul_(2)
            except RuntimeError:
                out.append("refused")
            else:
                out += [base.tolist(), parts[0].tolist()]
            base.add_(1)
            out.append(base.tolist())
            try:
                out.append([one.grad_fn is None for one in parts])
            except RuntimeError:
                out.append("stale")
        with T.no_grad():
            base = T.tensor(NUMBERS, requires_grad=True) * 1
            parts = OPS[name](T, base)
            parts[-1].mul_(2)
            out.append(base.tolist())
        return out

    expected = changes(torch)
    assert changes(rg) == expected
    with rg.Session():
        assert changes(rg) == expected


def test_parts_that_nobody_uses_have_no_gradient() -> None:
    x = rg.tensor(NUMBERS, requires_grad=True)
    parts = (x * 1).unbind()
    assert rg.autograd.grad(parts[1].sum(), parts[0], allow_unused=True) == (None,)
    parts[1].sum().backward()
    assert x.grad is not None
    assert x.grad.sum(1).tolist() == [0, 4, 0, 0]
