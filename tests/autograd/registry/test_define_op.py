"""The catalogue as a whole, and the helpers that define it."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import inspect
from typing import Any

import msgpack
import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.registry import define_op
from raygrad.errors import ShapeError

from ..ops.cases import FAMILIES
from ..ops.check import Case, Noting, array_of, catalogue, differentiated, leaves, outputs_of, watched

INTERNAL = {
    "full": "the seed of a pass and the constant gradients of a session; no operand to differentiate",
    "to_device": "moves, and computes nothing: tested in test_transfer",
    "row_order": "an order of rows, without a gradient: tested in test_distinct",
    "in_order": "the axis order of a leaf's gradient (EN-32), tested with the engine",
    "in_order_of": "the same where only a kernel knows the order, tested in client/recording/test_axis_order.py",
}


@pytest.fixture(scope="module")
def cases_by_op() -> dict[str, Case]:
    """For each op, the smallest case that goes through its derivative to second order."""
    found: dict[str, Case] = {}
    cases = [case for family in FAMILIES.values() for case in family if case.order >= 2]
    for case in sorted(cases, key=lambda case: sum(a.size or 99 for a in case.inputs)):
        for name in differentiated(case):
            found.setdefault(name, case)
    return found


def test_each_op_has_a_case():
    with watched() as ran:
        for cases in FAMILIES.values():
            for case in cases:
                case.run(rg, *leaves(rg, case.inputs))
                if case.order >= 2:
                    differentiated(case)
    inner = {name for name, op in catalogue().items() if op.sole_rule is not None}  # those of rules are reached by them
    assert sorted(set(catalogue()) - ran - inner - set(INTERNAL)) == []


def test_each_op_with_a_derivative_has_a_case_to_second_order(cases_by_op: dict[str, Case]):
    known = {name for name, op in catalogue().items() if op.sole_rule is not None}
    assert sorted(known - set(cases_by_op) - set(INTERNAL)) == []


def test_hundreds_of_functions_are_differentiated_twice():
    public = {
        *ops.__all__,
        *(f"nn.functional.{name}" for name in ops.FUNCTIONAL),
        *(f"linalg.{name}" for name in ops.LINALG),
        *(f"fft.{name}" for name in ops.FFT),
    }
    noted: set[str] = set()
    for cases in FAMILIES.values():
        for case in cases:
            if case.order >= 2:
                case.run(Noting(rg, noted), *leaves(rg, case.inputs))
    assert len(noted & public) >= 350


def test_gradcheck_and_gradgradcheck_pass_for_each_op(cases_by_op: dict[str, Case]):
    wrong: list[str] = []
    for case in {id(case): case for case in cases_by_op.values()}.values():
        for check in (rg.autograd.gradcheck, rg.autograd.gradgradcheck):
            try:
                check(lambda *tensors, case=case: case.run(rg, *tensors), leaves(rg, case.inputs))
            except Exception as error:
                ops_of = [name for name, chosen in cases_by_op.items() if chosen is case]
                wrong.append(f"{check.__name__} of {case} ({', '.join(ops_of)}): {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_case_names_are_unique():
    for cases in FAMILIES.values():
        assert len({case.name for case in cases}) == len(cases)


def test_public_functions_have_docstrings_and_are_names_of_the_package():
    for name in ops.__all__:
        assert getattr(ops, name).__doc__, name
        offered: Any = getattr(rg, name)
        assert inspect.unwrap(offered) is inspect.unwrap(getattr(ops, name))


def test_parameters_of_ops_travel():
    """Parameters are hashable and plain: a plan is known by them, and they go through msgpack."""
    seen: list[tuple] = []

    def walk(node):
        if node is not None and hasattr(node, "params"):
            seen.append(node.params)
            for below, _ in node.next_functions:
                walk(below)

    for cases in FAMILIES.values():
        for case in cases:
            if case.order:
                for output in outputs_of(case.run(rg, *leaves(rg, case.inputs))):
                    walk(output.grad_fn)
    assert len(seen) > 500
    for params in seen:
        hash(params)
        msgpack.packb(params)


def test_results_are_arrays_also_without_dimensions():
    x = rg.tensor(2.0)
    for result in (x + 1, x.exp(), x.sum(), x.max(), x @ x if x.ndim else x * x, x.var(correction=0)):
        assert type(result._data) is np.ndarray


def test_rules_take_bare_arrays_and_tensors_alike():
    a = np.array([1.0, 2.0])
    assert type(ops.exp(a)) is np.ndarray
    np.testing.assert_array_equal(ops.exp(a), array_of(ops.exp(rg.tensor(a))))


def test_axis_out_of_range_says_the_range():
    assert define_op.axis_of(-1, 3) == 2
    assert define_op.axis_of(0, 0) == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 5"):
        define_op.axis_of(5, 2)


def test_axes_are_sorted_and_none_means_all():
    assert define_op.axes_of(None, 3) == (0, 1, 2)
    assert define_op.axes_of((), 2) == (0, 1)
    assert define_op.axes_of((-1, 0), 3) == (0, 2)
    with pytest.raises(ShapeError, match="dim 1 appears multiple times"):
        define_op.axes_of((1, -1), 2)


def test_broadcasting_says_which_dimension():
    assert define_op.broadcast_shape("add", [(2, 1), (3,)]) == (2, 3)
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(4\).*dimension 1"
    ):
        rg.ones(2, 3) + rg.ones(4)


def test_sizes_come_separately_or_as_one_sequence():
    assert (
        define_op.sizes_of((2, 3)) == define_op.sizes_of(((2, 3),)) == define_op.sizes_of(([2, np.int64(3)],)) == (2, 3)
    )


def test_infinities_come_without_warnings():
    x = rg.tensor([0.0, -1.0], requires_grad=True)
    for name in ("log", "sqrt", "rsqrt", "reciprocal", "log1p", "acosh", "asin"):
        getattr(x * 2, name)().sum().backward()
    (1 / x).sum().backward()
    (x**-1).sum().backward()
    rg.atan2(x * 0, x * 0).sum().backward()


def test_a_residual_is_kept_only_for_a_gradient_that_is_wanted():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = rg.tensor([3.0, 4.0])
    assert [s is None for s in (x * y).grad_fn.saved_tensors] == [True, False]
    assert [s is None for s in (x.unsqueeze(0) @ y).grad_fn.saved_tensors] == [True, False]
    assert (x * 3).grad_fn.saved_tensors == (None, 3)
