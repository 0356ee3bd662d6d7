"""backward() and grad(): arguments, results and errors (EN)."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg


def vector(T: Any, *values, requires_grad=True) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def plain(T: Any, *values) -> Any:
    return vector(T, *values, requires_grad=False)


def counted(T: Any, log, name):
    """A Function `x -> 2x` that logs its backward."""

    class Counted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append(name)
            return g * 2

    return Counted


# ---- roots and their gradients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_en_01_one_element_needs_no_gradient(T: Any, shape):
    x = T.ones(shape, dtype=T.float64, requires_grad=True)
    (x * 3).backward()
    assert x.grad.reshape(-1).tolist() == [3]


def test_en_01_more_elements_do(T: Any):
    for count in (0, 2):
        with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
            (T.ones(count, requires_grad=True) * 2).backward()
    with pytest.raises(RuntimeError, match=r"real scalar outputs but got .*complex64"):
        (T.ones((), dtype=T.complex64, requires_grad=True) * 2).backward()


@pytest.mark.parametrize("shape", [(3,), (1, 2), ()])
def test_en_02_an_explicit_gradient_has_the_roots_shape(T: Any, shape):
    y = vector(T, 1, 2) * 2
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of"):
        y.backward(T.ones(shape, dtype=T.float64))


def test_en_03_its_dtype_is_converted_between_reals(T: Any):
    x = vector(T, 1, 2)
    (x * 2).backward(T.ones(2, dtype=T.float32))
    (x * 2).backward(T.ones(2, dtype=T.int64))
    assert x.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        (x * 2).backward(T.ones(2, dtype=T.complex128))


def test_en_03_other_objects_raise(T: Any):
    y = vector(T, 1) * 2
    for wrong in (3.0, [3.0], ["x"]):
        with pytest.raises(TypeError):
            T.autograd.backward([y], wrong)


def test_en_04_one_gradient_per_root(T: Any):
    x = vector(T, 1)
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        T.autograd.backward([x * 1, x * 2], [plain(T, 1)])
    T.autograd.backward([x * 1, x * 2], [None, plain(T, 10)])
    assert x.grad.tolist() == [21]


def test_en_04_too_many_gradients_raise():
    x = vector(rg, 1)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        rg.autograd.backward([x * 1], [plain(rg, 1), plain(rg, 1)])


def test_en_05_a_root_must_require_grad(T: Any):
    x = vector(T, 1)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        T.autograd.backward([(x * 2).sum(), plain(T, 1).sum()])
    with pytest.raises(RuntimeError, match="does not require grad"):
        plain(T, 1).backward()
    assert x.grad is None


def test_en_06_several_roots_add_up(T: Any):
    x = vector(T, 3)
    middle = x * 2
    top = middle * 5
    T.autograd.backward([top, top, middle, x])
    assert x.grad.tolist() == [2 * 10 + 2 + 1]


# ---- accumulation ---------------------------------------------------------------------------------------------------


def test_en_07_gradients_accumulate_in_place(T: Any):
    x = vector(T, 1)
    (x * 2).backward()
    first = x.grad
    (x * 3).backward()
    assert x.grad is first
    assert first.tolist() == [5]


def test_en_07_with_create_graph_a_new_tensor_replaces_the_old(T: Any):
    x = vector(T, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).backward(create_graph=True)
        first = x.grad
        (x * x).backward(create_graph=True)
    assert x.grad is not first
    assert first.tolist() == [6]
    assert x.grad.tolist() == [12]
    assert x.grad.requires_grad


def test_en_09_retain_graph_is_create_graph_unless_given(T: Any):
    x = vector(T, 3)
    y = (x * x).sum()
    T.autograd.grad(y, x, create_graph=True)
    T.autograd.grad(y, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        T.autograd.grad(y, x)


def test_en_10_buffers_are_freed_as_each_node_is_done(T: Any):
    freed = []

    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            freed.append(ctx.above)
            if ctx.above is not None:
                with pytest.raises(RuntimeError, match="already been freed"):
                    _ = ctx.above.saved_tensors
            return g + ctx.saved_tensors[0]

    x = vector(T, 1)
    below = Saving.apply(x)
    above = Saving.apply(below)
    above.grad_fn.above, below.grad_fn.above = None, above.grad_fn
    above.sum().backward()
    assert len(freed) == 2
    below.grad_fn.above = None


# ---- inputs= --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tensor", "list", "dict"])
def test_en_11_only_the_inputs_accumulate_and_only_their_paths_run(T: Any, form):
    log: list[str] = []
    a, b = vector(T, 1), vector(T, 1)
    y = counted(T, log, "a").apply(a) + counted(T, log, "b").apply(b)
    y.sum().backward(inputs={"tensor": a, "list": [a], "dict": {"a": a}}[form])
    assert log == ["a"]
    assert a.grad.tolist() == [2]
    assert b.grad is None


def test_en_11_errors(T: Any):
    x = vector(T, 1)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * 2).backward(inputs=[])
    with pytest.raises(RuntimeError, match=r"does not require grad|requires_grad=False"):
        (x * 2).backward(inputs=[plain(T, 1)])
    unrelated = vector(T, 1)
    (x * 2).backward(inputs=[unrelated])
    assert unrelated.grad is None
    assert x.grad is None


def test_en_11_other_mappings_raise():
    x = vector(rg, 1)
    with pytest.raises(TypeError, match="mappingproxy"):
        (x * 2).backward(inputs=types.MappingProxyType({"x": x}))


def test_en_12_a_non_leaf_among_the_inputs_accumulates(T: Any):
    x = vector(T, 1)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    for _ in range(2):
        (y * 3).sum().backward(inputs=[y, y], retain_graph=True)
    assert y.grad.tolist() == [60]
    assert y.retains_grad
    assert x.grad is None


def test_en_12_its_own_producer_does_not_run():
    log: list[str] = []
    x = vector(rg, 1)
    y = counted(rg, log, "producer").apply(x)
    (y * 3).sum().backward(inputs=[y])
    assert log == []
    y = counted(rg, log, "producer").apply(x)
    (y * 3).sum().backward(inputs=[y, x])
    assert log == ["producer"]
    assert x.grad.tolist() == [6]


# ---- grad() ---------------------------------------------------------------------------------------------------------


def test_en_13_results_are_aligned_with_the_inputs(T: Any):
    a, b = vector(T, 2), vector(T, 3)
    y = (a * b).sum()
    found = T.autograd.grad(y, [b, a], retain_graph=True)
    assert type(found) is tuple
    assert [g.tolist() for g in found] == [[2], [3]]
    found = T.autograd.grad(y, {"b": b, "a": a}, retain_graph=True)
    assert {key: g.tolist() for key, g in found.items()} == {"b": [2], "a": [3]}
    assert list(found) == ["b", "a"]
    (single,) = T.autograd.grad(y, a)
    assert single.tolist() == [3]
    assert a.grad is None
    assert b.grad is None


def test_en_13_a_non_leaf_that_retains_its_gradient_still_accumulates(T: Any):
    x = vector(T, 2)
    y = x * 3
    y.retain_grad()
    T.autograd.grad((y * y).sum(), x)
    assert y.grad.tolist() == [12]


def test_en_14_unused_inputs(T: Any):
    x, unused = vector(T, 1), vector(T, 1, 2)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match=r"(?s)index 1.*appears to not have been used.*Set allow_unused=True"):
        T.autograd.grad(y, [x, unused], retain_graph=True)
    used, nothing = T.autograd.grad(y, [x, unused], allow_unused=True, retain_graph=True)
    assert used.tolist() == [2]
    assert nothing is None
    for create_graph in (False, True):
        _, zeros = T.autograd.grad(y, [x, unused], materialize_grads=True, retain_graph=True, create_graph=create_graph)
        assert zeros.tolist() == [0, 0]
        assert zeros.dtype == T.float64
        assert zeros.requires_grad is create_graph
    with pytest.raises(ValueError, match="allow_unused"):
        T.autograd.grad(y, [x], materialize_grads=True, allow_unused=False)


def test_en_15_what_grad_accepts(T: Any):
    x = vector(T, 3)
    with pytest.raises(RuntimeError, match="does not require grad"):
        T.autograd.grad((x * 2).sum(), [plain(T, 1)])
    with pytest.raises(RuntimeError):
        T.autograd.grad((x * 2).sum(), [])
    first, second = T.autograd.grad((x * 2).sum(), [x, x])
    assert first.tolist() == second.tolist() == [2]
    y = x * 2
    (itself,) = T.autograd.grad(y, y, plain(T, 7))
    assert itself.tolist() == [7]


def test_en_16_an_unreachable_input_runs_nothing():
    log: list[str] = []
    y = counted(rg, log, "y").apply(vector(rg, 1))
    assert rg.autograd.grad(y.sum(), [vector(rg, 1)], allow_unused=True) == (None,)
    assert log == []


# ---- derivatives through .grad, empty gradients ---------------------------------------------------------------------


def test_en_37_the_stored_gradient_can_be_differentiated(T: Any):
    x = vector(T, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x**3).sum().backward(create_graph=True)
    assert x.grad.tolist() == [12]
    (second,) = T.autograd.grad(x.grad.sum(), x, retain_graph=True)
    assert second.tolist() == [12]
    (x.grad * 1).sum().backward()
    assert x.grad.tolist() == [24]


@pytest.mark.parametrize(
    ("small", "large"), [((0,), (0,)), ((0, 3), (0, 3)), ((1, 3), (0, 3)), ((3,), (0, 3)), ((1,), (0,))]
)
def test_en_38_gradients_of_size_zero(T: Any, small, large):
    x = T.ones(small, dtype=T.float64, requires_grad=True)
    (x * T.ones(large, dtype=T.float64)).sum().backward()
    assert tuple(x.grad.shape) == small
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(small))


def test_h5_a_gradient_that_never_arrives_stays_none(T: Any):
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, w = vector(T, 1), vector(T, 1)
    seen = []
    x.register_hook(seen.append)
    (Nothing.apply(x.exp().reshape(1).clone()) + w).sum().backward()
    assert [x.grad, *seen] == [None, None]
    (Nothing.apply(x) + x * 2).sum().backward()
    assert x.grad.tolist() == [2]
    (Nothing.apply(x) + Nothing.apply(x)).sum().backward()
    assert x.grad.tolist() == [2]
