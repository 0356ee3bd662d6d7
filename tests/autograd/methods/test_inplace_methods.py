"""Changes in place that are functions: each gives what the function gives, in place, in a graph and in a session."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.methods.inplace_methods import (
    ComparisonInPlace,
    ElementwiseInPlace,
    SameDtypeInPlace,
    ScatterInPlace,
    ViewInPlace,
)

from ..ops.check import array_of

BASE = np.array([[0.3, 0.6, 0.2], [0.5, 0.1, 0.4], [0.25, 0.75, 0.35]])
OTHER = np.array([[0.1, 0.9, 0.3], [0.5, 0.2, 0.6], [0.7, 0.15, 0.45]])
PLACES = [2, 0]
WHOLE = ("gcd_", "lcm_", "bitwise_left_shift_", "bitwise_not_", "bitwise_right_shift_")
TWO = """
    arctan2 atan2 clamp_max clamp_min copysign divide eq float_power ge greater greater_equal gt heaviside hypot ldexp
    le less less_equal logical_and logical_or logical_xor lt multiply ne not_equal subtract true_divide xlogy
    bitwise_left_shift bitwise_right_shift gcd lcm
""".split()
ARGUMENTS: dict[str, Any] = {
    **{f"{name}_": lambda T, y: (y,) for name in TWO},
    **dict.fromkeys(("cumsum_", "cumprod_"), lambda T, y: (1,)),
    **dict.fromkeys(("addmm_",), lambda T, y: (y, y * 2)),
    **dict.fromkeys(("addr_",), lambda T, y: (y[0], y[1])),
    **dict.fromkeys(("addbmm_", "baddbmm_"), lambda T, y: (y.reshape(1, 3, 3), y.reshape(1, 3, 3))),
    "clip_": lambda T, y: (0.2, 0.5),
    "mvlgamma_": lambda T, y: (1,),
    "index_copy_": lambda T, y: (0, T.tensor(PLACES), y[:2]),
    "index_fill_": lambda T, y: (1, T.tensor(PLACES), 7.0),
    "index_put_": lambda T, y: ((T.tensor(PLACES), T.tensor([1, 1])), y[0, :2], True),
    "masked_scatter_": lambda T, y: (T.tensor(BASE > 0.3), y),
    "as_strided_": lambda T, y: ((2, 2), (1, 3), 1),
    "swapaxes_": lambda T, y: (0, 1),
    "swapdims_": lambda T, y: (0, 1),
    "transpose_": lambda T, y: (0, -1),
    "unsqueeze_": lambda T, y: (1,),
    "index_reduce_": lambda T, y: (0, T.tensor(PLACES), y[:2], "prod"),
    "renorm_": lambda T, y: (2, 0, 0.5),
    "put_": lambda T, y: (T.tensor([0, 7]), y[0, :2]),
    "scatter_reduce_": lambda T, y: (0, T.tensor([[0, 1, 2], [2, 0, 1]]), y[:2], "amax"),
}
EXTRA: dict[str, Any] = {
    "fill_diagonal_": lambda T, x: x.fill_diagonal_(5.0),
    "fill_diagonal_ of a tall one": lambda T, x: x.reshape(9, 1).expand(9, 2).clone().fill_diagonal_(5.0, wrap=True),
    "fill_diagonal_ of a wide one": lambda T, x: x[:2].fill_diagonal_(5.0),
    "igamma_": lambda T, x: (x.detach() * 0 + 1.5).igamma_(x),
    "igammac_": lambda T, x: (x.detach() * 0 + 1.5).igammac_(x),
    "addmv_": lambda T, x: x[0].clone().addmv_(x, x[1] * 2),
    "tril_ of the second diagonal": lambda T, x: x.tril_(-1),
    "nextafter_": lambda T, x: x + x.detach().clone().nextafter_(T.tensor(OTHER)),
    "polygamma_": lambda T, x: x.polygamma_(2),
    "round_ to decimals": lambda T, x: x.round_(decimals=1) + x,
    "squeeze_ of one dimension": lambda T, x: x.unsqueeze_(1).squeeze_(1).unsqueeze_(-1).squeeze_(0),
    "t_ of a view": lambda T, x: x[:2].t_(),
    "transpose_ beside a view": lambda T, x: T.cat([x[:2].mul_(3), x.transpose_(0, 1).mul_(2)]),
}
KINDS = (ElementwiseInPlace, SameDtypeInPlace, ComparisonInPlace, ScatterInPlace, ViewInPlace)
NAMES = [name for methods in KINDS for name in methods.__annotations__ if name not in EXTRA]


def changed(T: Any, name: str, graph: bool) -> list[np.ndarray]:
    """What a change gives, and the gradients through it."""
    if name in EXTRA:
        x = T.tensor(BASE, requires_grad=graph)
        out = EXTRA[name](T, x * 1)
        if graph:
            (out * out).sum().backward()
        return [array_of(t) for t in (out, *([x.grad] if graph else []))]
    x, y = (T.tensor((a * 10).astype(int) if name in WHOLE else a, requires_grad=graph) for a in (BASE, OTHER))
    board = (x * 1).reshape(1, 3, 3) if name == "baddbmm_" else x * 1
    if name in ("acosh_", "arccosh_"):
        board = board + 1.5
    given = ARGUMENTS.get(name, lambda T, y: ())(T, y)
    out = getattr(board, name)(*given)
    assert out is board
    if not graph:
        return [array_of(out)]
    if out.requires_grad:
        (out * out).sum().backward()
    return [array_of(t) for t in (out, *[t.grad for t in (x, y) if t.grad is not None])]


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["eager", "session"])
@pytest.mark.parametrize("name", [*NAMES, *EXTRA])
def test_changes_in_place_are_those_of_torch(name: str, where: str):
    torch: Any = pytest.importorskip("torch")
    for graph in (False, True) if name not in WHOLE else (False,):
        try:
            theirs = changed(torch, name, graph)
        except RuntimeError as error:
            if "inplace version of" in str(error):  # which PyTorch lacks
                continue
            with pytest.raises(RuntimeError):
                changed(rg, name, graph)
            continue
        with rg.Session() if where == "session" else contextlib.nullcontext():
            mine = changed(rg, name, graph)
        for got, want in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12)


def test_operands_may_not_share_a_part_of_the_memory():
    x = rg.arange(6.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:4].atan2_(x[1:5])
    with pytest.raises(RuntimeError, match="single memory location"):
        x.index_copy_(0, rg.tensor([0, 1]), x[2:4])
    with pytest.raises(RuntimeError, match="leaf"):
        rg.ones(2, requires_grad=True).tan_()


def test_shifts_in_place():
    x = rg.tensor([1, 2])
    x <<= 2
    x >>= 1
    assert x.tolist() == [2, 4]


def test_random_numbers_in_place():
    x = rg.empty(2000)
    assert abs(x.normal_(3.0, 2.0).mean().item() - 3) < 0.3
    assert x.uniform_(-1, 1).min().item() >= -1
    assert x.max().item() < 1
    for change in (lambda: x.normal_(0, -1), lambda: x.uniform_(1, 0)):
        with pytest.raises(RuntimeError, match="expects"):
            change()


def test_a_diagonal_needs_dimensions_of_equal_extent():
    with pytest.raises(RuntimeError, match="larger than 1"):
        rg.ones(3).fill_diagonal_(1.0)
    with pytest.raises(RuntimeError, match="equal length"):
        rg.ones(2, 2, 3).fill_diagonal_(1.0)


def test_methods_say_what_they_do():
    for methods in KINDS:
        for name in methods.__annotations__:
            assert getattr(methods, name).__name__ == name
            assert name[:-1] in getattr(methods, name).__doc__
