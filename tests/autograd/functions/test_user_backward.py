"""What a user's backward may return, and what is done with it (BW)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.functions.user_backward import densified


def vector(T: Any, *values, requires_grad=True, dtype=None):
    return T.tensor(list(values), dtype=dtype or T.float64, requires_grad=requires_grad)


def returning(T: Any, make, shape=None):
    """A Function `x, *others -> x * 1` (in `shape`) whose backward returns `make(g)`."""

    class Returning(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, *others):
            return x * 1 if shape is None else x.sum() * T.ones(shape, dtype=x.dtype)

        @staticmethod
        def backward(ctx, g):
            return make(g)

    return Returning


def test_bw_01_a_bare_value_is_a_tuple_of_one(T: Any):
    for make in (lambda g: g * 2, lambda g: (g * 2,)):
        x = vector(T, 1)
        returning(T, make).apply(x).sum().backward()
        assert x.grad.tolist() == [2]


@pytest.mark.parametrize("count", [1, 3])
def test_bw_02_the_count_must_be_that_of_the_arguments(T: Any, count):
    y = returning(T, lambda g: (g,) * count).apply(vector(T, 1), 5.0)
    with pytest.raises(
        RuntimeError, match=rf"ReturningBackward.*incorrect number of gradients \(expected 2, got {count}\)"
    ):
        y.sum().backward()


def test_bw_02_extra_nones_are_ignored(T: Any):
    x = vector(T, 1)
    returning(T, lambda g: (g, None, None, None)).apply(x, 5.0).sum().backward()
    assert x.grad.tolist() == [1]


@pytest.mark.parametrize("others", [0, 1])
def test_bw_03_a_list_is_one_object(T: Any, others):
    y = returning(T, lambda g: [g, None]).apply(vector(T, 1), *range(others))
    with pytest.raises(RuntimeError, match="expected Variable or None" if others == 0 else "incorrect number"):
        y.sum().backward()


def test_bw_04_what_is_no_tensor_has_no_gradient(T: Any):
    y = returning(T, lambda g: (g, g)).apply(vector(T, 1), 5.0)
    with pytest.raises(RuntimeError, match="returned a gradient different than None at position 2"):
        y.sum().backward()


def test_bw_05_a_gradient_that_is_not_wanted_is_dropped(T: Any):
    x, plain = vector(T, 1), vector(T, 1, requires_grad=False)
    returning(T, lambda g: (g, g)).apply(x, plain).sum().backward()
    assert plain.grad is None
    assert x.grad.tolist() == [1]


@pytest.mark.parametrize("wrong", [1.0, "text", {}])
def test_bw_06_other_types_raise(T: Any, wrong):
    y = returning(T, lambda g: wrong).apply(vector(T, 1))
    with pytest.raises(RuntimeError, match=rf"expected Variable or None \(got {type(wrong).__name__}\)"):
        y.sum().backward()


@pytest.mark.parametrize("value", [np.array([3.0]), np.array([[3.0], [4.0]]), np.float32(3)])
def test_bw_06_arrays_are_taken_as_tensors(value):
    x: Any = vector(rg, 1) if value.ndim else rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
    returning(rg, lambda g: value).apply(x).sum().backward()
    assert x.grad.dtype == rg.float64
    assert float(x.grad.sum()) == value.sum()


@pytest.mark.parametrize(
    ("shape", "given"), [((3,), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (4, 2, 3)), ((), (1,)), ((), (2, 2))]
)
def test_bw_07_a_larger_gradient_is_summed_down(T: Any, shape, given):
    x = T.zeros(shape, dtype=T.float64, requires_grad=True)
    returning(T, lambda g: T.ones(given, dtype=T.float64)).apply(x).sum().backward()
    assert tuple(x.grad.shape) == shape
    assert float(x.grad.sum()) == np.prod(given)


@pytest.mark.parametrize(
    ("shape", "given"), [((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), (3, 2)), ((3,), ()), ((2,), (3,))]
)
def test_bw_07_any_other_shape_raises(T: Any, shape, given):
    y = returning(T, lambda g: T.ones(given, dtype=T.float64)).apply(
        T.zeros(shape, dtype=T.float64, requires_grad=True)
    )
    with pytest.raises(RuntimeError, match=r"(?s)ReturningBackward.*invalid gradient at index 0.*expected shape"):
        y.sum().backward()


@pytest.mark.parametrize("given", ["float32", "float16", "int64", "bool"])
def test_bw_08_dtypes_are_converted_to_the_inputs(T: Any, given):
    x = vector(T, 1, 2)
    returning(T, lambda g: T.ones(2, dtype=getattr(T, given))).apply(x).sum().backward()
    assert x.grad.dtype == T.float64
    assert x.grad.tolist() == [1, 1]


def test_bw_08_real_is_widened_to_complex(T: Any):
    x = T.ones(2, dtype=T.complex128, requires_grad=True)
    y = returning(T, lambda g: T.ones(2, dtype=T.float64)).apply(x)
    y.backward(T.ones(2, dtype=T.complex128))
    assert x.grad.dtype == T.complex128


def test_bw_08_complex_for_a_real_input_raises(T: Any):
    y = returning(T, lambda g: T.ones(1, dtype=T.complex128)).apply(vector(T, 1))
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_bw_10_none_means_undefined(T: Any):
    seen = []

    class Before(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(None if g is None else g.tolist())
            return g, None

    nothing = returning(T, lambda g: None)
    for materialize in (True, False):
        x = vector(T, 1)
        nothing.apply(Before.apply(x, materialize) * 3).sum().backward()
        assert (x.grad is None) is (not materialize)
    assert seen == [[0], None]
    x = vector(T, 1)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        T.autograd.grad(nothing.apply(x).sum(), x)
    assert T.autograd.grad(nothing.apply(x).sum(), x, allow_unused=True) == (None,)
    (zeros,) = T.autograd.grad(nothing.apply(x).sum(), x, materialize_grads=True)
    assert zeros.tolist() == [0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("ambient", [False, True])
def test_bw_11_the_mode_in_backward_is_create_graph(T: Any, create_graph, ambient):
    modes = []

    def flipping(g):
        modes.append(T.is_grad_enabled())
        T.set_grad_enabled(not create_graph)
        return g * 1

    x = vector(T, 1)
    function = returning(T, flipping)
    y = function.apply(function.apply(x)).sum()
    with T.set_grad_enabled(ambient):
        T.autograd.grad(y, x, create_graph=create_graph)
        assert T.is_grad_enabled() is ambient
    assert modes == [create_graph] * 2


def test_bw_12_without_create_graph_results_never_require_grad(T: Any):
    def enabling(g):
        with T.enable_grad():
            return g * vector(T, 2)

    x = vector(T, 1)
    y = returning(T, enabling).apply(x).sum()
    if T is rg:  # torch returns the tensor as it is if nothing stands between this node and the input
        (found,) = T.autograd.grad(y, x, retain_graph=True)
        assert not found.requires_grad
    y.backward()
    assert not x.grad.requires_grad
    assert x.grad.grad_fn is None


def test_bw_13_exceptions_reach_the_caller_as_they_are(T: Any):
    class Mine(ValueError):
        detail = 0

    error = Mine("once")
    error.detail = 42

    def failing(g):
        raise error

    y = returning(T, failing).apply(vector(T, 1))
    with pytest.raises(Mine) as caught:
        y.sum().backward()
    assert caught.value is error
    assert caught.value.detail == 42
    assert "failing" in [entry.name for entry in caught.traceback]


def test_bw_16_stored_gradients_never_alias(T: Any):
    class Sharing(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g

    a, b = vector(T, 1, 2), vector(T, 3, 4)
    gradient = vector(T, 1, 1, requires_grad=False)
    Sharing.apply(a, b).backward(gradient)
    a.grad.add_(5)
    assert b.grad.tolist() == [1, 1]
    assert gradient.tolist() == [1, 1]


def test_bw_16_stored_gradients_never_alias_with_create_graph(T: Any):
    x = vector(T, 1, 2)
    gradient = vector(T, 1, 1, requires_grad=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x.backward(gradient, create_graph=True)
    assert x.grad is not gradient
    gradient.add_(5)
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("what", ["input", "output"])
def test_bw_17_double_backward_through_saved_inputs_and_outputs(T: Any, what):
    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x if what == "input" else y)
            return y

        @staticmethod
        def backward(ctx, g):
            (saved,) = ctx.saved_tensors
            return g * (saved.exp() if what == "input" else saved)

    x = vector(T, 0.5, -1.0)
    y = Exp.apply(x)
    values = []
    for _ in range(4):
        (y,) = T.autograd.grad(y.sum(), x, create_graph=True)
        values.append(y.detach().numpy())
    for value in values:
        np.testing.assert_allclose(value, np.exp([0.5, -1.0]), rtol=1e-12)


def test_bw_17_double_backward_through_the_incoming_gradient(T: Any):
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x, w = vector(T, 2, 3), vector(T, 5, 7)
    (first,) = T.autograd.grad((Cube.apply(x) * w).sum(), x, create_graph=True)
    dx, dw = T.autograd.grad(first.sum(), [x, w])
    np.testing.assert_allclose(dx.numpy(), [5 * 6 * 2, 7 * 6 * 3])
    np.testing.assert_allclose(dw.numpy(), [3 * 4, 3 * 9])


def test_a_strided_tensor_is_made_dense_in_its_place_in_the_graph():
    leaf: Any = rg.from_numpy(np.arange(6.0)[::2]).requires_grad_()
    copy = densified(leaf)
    assert copy is not leaf
    assert copy._data.flags.c_contiguous
    assert copy.edge()[0] is leaf.edge()[0]
    (copy * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]
    assert densified(copy) is copy
    middle = (leaf * 1).reshape(3, 1).expand(3, 4)
    assert densified(middle) is middle  # an expansion of a dense array is one of the two layouts that exist


def test_a_gradient_has_to_fit_what_the_argument_was_when_it_was_made(T: Any):
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)
    y = x * 2
    y.data = T.ones(5, dtype=T.float64)
    with pytest.raises(RuntimeError, match=r"got \[5\] but expected shape compatible with \[3\]"):
        Doubled.apply(y).sum().backward()


def test_an_accumulator_knows_the_dtype_that_its_leaf_has_now(T: Any):
    x = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
    kept_alive = [x * 2]
    x.data = T.ones(2, dtype=T.float32)
    (x * 3).sum().backward()
    assert x.grad.dtype == T.float32
    assert len(kept_alive) == 1
