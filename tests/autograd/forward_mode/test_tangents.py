"""Forward mode of built-in ops: each case of the catalogue against finite differences, and mixed with reverse mode."""

# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw
from raygrad.autograd.registry.registry import AutogradConfig, Op, declare, register_autograd, register_kernel

from ..ops.cases import FAMILIES
from ..ops.check import STEP, Case, array_of, leaves, outputs_of, weighted

CASES = [
    pytest.param(case, id=f"{family}-{case.name}-{number}")
    for family, cases in FAMILIES.items()
    for number, case in enumerate(cases)
    if case.order >= 1
]
TWICE = [param for number, param in enumerate(CASES) if number % 4 == 0 and param.values[0].order >= 2]


def directions(case: Case) -> list[np.ndarray | None]:
    """A fixed direction for each input that can be differentiated."""
    rng = np.random.default_rng(5)
    out: list[np.ndarray | None] = []
    for array in case.inputs:
        along = rng.uniform(0.5, 1.5, array.shape)
        out.append(along + 0.7j if array.dtype.kind == "c" else along if array.dtype.kind == "f" else None)
    return out


def duals(tensors: Sequence[Any], along: Sequence[np.ndarray | None]) -> list[Any]:
    """The tensors, carrying the directions."""
    return [t if d is None else fw.make_dual(t, rg.tensor(d)) for t, d in zip(tensors, along, strict=True)]


def moved(case: Case, along: Sequence[np.ndarray | None], by: float) -> list[np.ndarray]:
    return [a if d is None else a + by * d for a, d in zip(case.inputs, along, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_the_tangent_of_each_case_is_its_directional_derivative(case: Case) -> None:  # FW, FT-02
    along = directions(case)
    with fw.dual_level():
        outputs = outputs_of(case.run(rg, *duals([rg.tensor(a) for a in case.inputs], along)))
        got = [fw.unpack_dual(output) for output in outputs]
    sides = [outputs_of(case.run(rg, *[rg.tensor(a) for a in moved(case, along, s * STEP)])) for s in (1, -1)]
    for dual, up, down in zip(got, *sides, strict=True):
        if dual.primal.dtype.kind not in "fc":
            assert dual.tangent is None
            continue
        want = (array_of(up) - array_of(down)) / (2 * STEP)
        have = np.zeros_like(want) if dual.tangent is None else array_of(dual.tangent)
        assert have.shape == want.shape
        assert dual.tangent is None or dual.tangent.dtype == dual.primal.dtype
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("case", TWICE)
def test_reverse_over_forward_and_forward_over_reverse_agree(case: Case) -> None:  # FW-13
    along = directions(case)
    with fw.dual_level():
        tensors = leaves(rg, case.inputs)
        total = weighted(rg, case, duals(tensors, along))
        slope = fw.unpack_dual(total).tangent
    wanted = [t for t in tensors if t.requires_grad]
    zero = [np.zeros(t.shape, t.dtype) for t in wanted]
    first = zero
    if slope is not None and slope.requires_grad:
        grads = rg.autograd.grad(slope, wanted, allow_unused=True)
        first = [z if g is None else array_of(g) for g, z in zip(grads, zero, strict=True)]
    with fw.dual_level():
        tensors = leaves(rg, case.inputs)
        primals = duals(tensors, along)
        wanted = [t for t in primals if t.requires_grad]
        grads = rg.autograd.grad(weighted(rg, case, primals), wanted, allow_unused=True)
        tangents = [None if g is None else fw.unpack_dual(g).tangent for g in grads]
    for want, tangent in zip(first, tangents, strict=True):
        have = np.zeros_like(want) if tangent is None else array_of(tangent)
        np.testing.assert_allclose(have, want, rtol=1e-8, atol=1e-10)


# ---- what has no rule ------------------------------------------------------------------------------------------------


@pytest.fixture
def unregistered() -> Any:
    """An op of one operand, with no derivative; the test may register one."""
    from raygrad.autograd.registry import registry

    op = declare(Op("test_tangents_cube", ("a",)))
    register_kernel(op.name)(lambda a: a**3)
    yield op
    del registry._ops[op.name]


def test_an_op_without_a_derivative_says_so(unregistered: Op) -> None:  # FW-15
    from raygrad.autograd.dispatch.dispatch import apply_op

    with fw.dual_level():
        dual = fw.make_dual(rg.ones(2), rg.ones(2))
        with pytest.raises(NotImplementedError, match="test_tangents_cube that does not support it"):
            apply_op(unregistered.name, dual)


@pytest.mark.parametrize("written_with_ops", [True, False])
def test_a_registered_backward_gives_forward_mode_too(unregistered: Op, written_with_ops: bool) -> None:  # FW-15
    from raygrad.autograd.dispatch.dispatch import apply_op

    def backward(ctx: Any, grad: Any) -> Any:
        (a,) = ctx.saved_tensors
        return grad * a * a * 3 if written_with_ops else rg.tensor(3 * grad.detach().numpy() * a.detach().numpy() ** 2)

    register_autograd(AutogradConfig(op=unregistered.name, device="*", backward=backward))
    with fw.dual_level():
        dual = fw.make_dual(rg.tensor([2.0, 3.0]), rg.tensor([1.0, 10.0]))
        if written_with_ops:
            assert fw.unpack_dual(apply_op(unregistered.name, dual)).tangent.tolist() == [12.0, 270.0]
        else:
            with pytest.raises(NotImplementedError, match="does not support it"):
                apply_op(unregistered.name, dual)


def test_the_tables_name_ops_that_there_are() -> None:
    from raygrad.autograd.forward_mode import tangents
    from raygrad.autograd.registry.registry import get_op

    for name in (*tangents._LINEAR, *tangents._PRODUCTS, *tangents._ELEMENTWISE):
        assert get_op(name).name == name
