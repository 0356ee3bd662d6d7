"""Nodes of the backward graph: identity, edges, hooks, lifetimes (ND)."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest

import raygrad as rg


def vector(T: Any, *values, requires_grad=True) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def two_of_three(T: Any):
    """A Function of (tensor, number, tensor) with two outputs; its gradients are 2 and 3 times the first's."""

    class Mixed(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, number, b):
            return a * number, b * 1

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, None, g * 3

    return Mixed


def accumulator_of(leaf) -> Any:
    return (leaf * 1).grad_fn.next_functions[0][0]


# ---- what nodes are -------------------------------------------------------------------------------------------------


def test_nd_02_names(T: Any):
    x = vector(T, 1)
    y = two_of_three(T).apply(x, 2.0, x)[0]
    assert y.grad_fn.name() == "MixedBackward"
    assert (x * 2).grad_fn.name() == "MulBackward0"
    assert accumulator_of(x).name() == "torch::autograd::AccumulateGrad"  # as PyTorch's
    assert "MixedBackward" in repr(y)


def test_nd_03_next_functions_has_one_entry_per_tensor(T: Any):
    x, plain = vector(T, 1), vector(T, 1, requires_grad=False)
    function = two_of_three(T)
    first, second = function.apply(x, 2.0, plain)
    assert first.grad_fn.next_functions == ((accumulator_of(x), 0), (None, 0))
    above = function.apply(second, 2.0, first)[0]
    assert above.grad_fn.next_functions == ((second.grad_fn, 1), (first.grad_fn, 0))


def test_nd_05_metadata_is_the_users_dictionary(T: Any):
    y = vector(T, 1) * 2
    y.grad_fn.metadata["mine"] = [1, 2]
    assert y.grad_fn.metadata == {"mine": [1, 2]}
    y.sum().backward(retain_graph=True)
    assert y.grad_fn.metadata["mine"] == [1, 2]
    assert (y * 1).grad_fn.metadata == {}


def test_nd_06_creation_numbers_decide_which_ready_node_runs_first(T: Any):
    order = []
    x = vector(T, 1)
    a, b = x * 2, x * 3
    assert a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr() < accumulator_of(x)._sequence_nr()
    a.grad_fn.register_prehook(lambda grads: order.append("a"))
    b.grad_fn.register_prehook(lambda grads: order.append("b"))
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 1000)
    T.autograd.backward([a, b], [vector(T, 1, requires_grad=False)] * 2)
    assert order == ["a", "b"]


def test_nd_08_function_nodes_cannot_be_called_or_pickled(T: Any):
    y = two_of_three(T).apply(vector(T, 1), 2.0, vector(T, 1))[0]
    with pytest.raises(TypeError):
        y.grad_fn()
    if T is not rg:  # raygrad's can be: sessions move contexts that way
        with pytest.raises(TypeError):
            pickle.dumps(y.grad_fn)


# ---- hooks ----------------------------------------------------------------------------------------------------------


def test_nd_09_posthooks_see_both_sides_and_may_replace_the_gradients_of_inputs(T: Any):
    class Mul(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b, a + b

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, g * 3

    seen = []
    x, plain = vector(T, 1), vector(T, 1, requires_grad=False)

    def hook(inputs, outputs):
        seen.append([None if g is None else g.tolist() for g in (*inputs, *outputs)])
        assert type(inputs) is type(outputs) is tuple
        return inputs[0] * 10, None

    y, _ = Mul.apply(x, plain)
    y.grad_fn.register_hook(hook)
    y.sum().backward()
    assert seen == [[[2], None if T is rg else [3], [1], None]]  # torch drops what is not wanted later than that
    assert x.grad.tolist() == [20]


def test_nd_09_posthooks_see_one_entry_per_tensor(T: Any):
    seen = []
    y, _ = two_of_three(T).apply(vector(T, 1), 2.0, vector(T, 1))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    y.sum().backward()
    assert seen == [2]


def test_nd_09_posthooks_may_make_gradients_undefined(T: Any):
    x = vector(T, 1)
    y = x.exp()
    y.grad_fn.register_hook(lambda inputs, outputs: (None,))
    y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("kind", ["post", "pre"])
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (list, TypeError, "expected tuple, but hook returned 'list'"),
        (lambda grads: grads[0], TypeError, "expected tuple, but hook returned"),
        (lambda grads: (*grads, None), RuntimeError, r"incorrect number of values \(got 2, but expected 1\)"),
        (lambda grads: (3.0,), TypeError, "expected Variable, but hook returned"),
        (lambda grads: (grads[0].float(),), RuntimeError, "changed the type of value"),
        (lambda grads: (grads[0].sum(),), RuntimeError, "changed the size of value"),
    ],
)
def test_nd_09_10_wrong_returns_raise(T: Any, kind, make, error, message):
    y = vector(T, 1).exp()
    if kind == "post":
        y.grad_fn.register_hook(lambda inputs, outputs: make(inputs))
    else:
        y.grad_fn.register_prehook(make)
    with pytest.raises(error, match=message):
        y.sum().backward()


def test_nd_10_prehooks_see_raw_gradients_and_may_replace_them(T: Any):
    seen = []
    x = vector(T, 1)

    def hook(outputs):
        seen.append([None if g is None else g.tolist() for g in outputs])
        return outputs[0] * 5, outputs[1]

    y, _ = two_of_three(T).apply(x, 2.0, vector(T, 1))
    y.grad_fn.register_prehook(hook)
    y.sum().backward()
    assert seen == [[[1], None]]  # undefined ones are materialised only afterwards
    assert x.grad.tolist() == [10]


def test_nd_11_hooks_run_in_order_each_seeing_the_result_of_the_one_before(T: Any):
    seen = []
    x = vector(T, 1)
    y = x.neg()
    node = y.grad_fn
    for number in (1, 2):
        node.register_prehook(lambda grads, n=number: seen.append(("pre", n, grads[0].item())) or (grads[0] * 2,))
        node.register_hook(lambda ins, outs, n=number: seen.append(("post", n, ins[0].item())) or (ins[0] * 3,))
    y.sum().backward()
    assert seen == [("pre", 1, 1), ("pre", 2, 2), ("post", 1, -4), ("post", 2, -12)]
    assert x.grad.tolist() == [-36]


def test_nd_13_a_hook_registered_in_forward_works_from_the_first_pass_on(T: Any):
    seen = []

    class Early(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.register_prehook(lambda grads: seen.append("pre"))
            ctx.register_hook(lambda ins, outs: seen.append("post"))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    Early.apply(vector(T, 1)).sum().backward()
    assert seen == ["pre", "post"]


@pytest.mark.parametrize("before", [0, 1])
def test_nd_13_a_posthook_registered_in_its_own_backward_runs_but_sees_no_outputs(T: Any, before):
    seen = []

    class Late(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.register_hook(lambda ins, outs: seen.append((len(ins), len(outs))))
            return g * 2

    y = Late.apply(vector(T, 1))
    for _ in range(before):
        y.grad_fn.register_hook(lambda ins, outs: None)
    y.sum().backward()
    assert seen == [(1, before)]  # the outputs are kept only for hooks that are known before the node runs


def test_nd_15_node_hooks_run_only_if_the_node_runs(T: Any):
    seen = []
    x, w = vector(T, 1), vector(T, 1)
    accumulator = accumulator_of(x)
    accumulator.register_prehook(lambda grads: seen.append("accumulator"))
    accumulator.register_hook(lambda ins, outs: seen.append("accumulator"))
    x.register_hook(lambda g: seen.append("leaf"))
    w.register_hook(lambda g: seen.append("other leaf"))
    off = w.exp()
    off.grad_fn.register_prehook(lambda grads: seen.append("off the path"))
    on = x.exp()
    on.grad_fn.register_prehook(lambda grads: seen.append("on the path"))
    T.autograd.grad((on * off).sum(), x)
    assert seen == ["on the path", "leaf"]


# ---- deep graphs and lifetimes --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["op", "function"])
def test_nd_16_a_chain_of_150_000_nodes_is_built_run_and_freed(kind):
    class Step(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = rg.ones(1, requires_grad=True)
    y: Any = x
    if kind == "op":
        for _ in range(150_000):
            y = y + 1
    else:
        for _ in range(150_000):
            y = Step.apply(y)
    assert type(y) is rg.Tensor
    y.backward(retain_graph=True)
    assert x.grad is not None
    assert x.grad.tolist() == [1]
    alive = weakref.ref(y.grad_fn)
    del y
    assert alive() is None


@pytest.mark.slow
def test_nd_16_a_deep_graph_is_differentiated_twice():
    x = rg.ones(1, requires_grad=True)
    y: Any = x
    for _ in range(10_000):
        y = y * x
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    (h,) = rg.autograd.grad(g, x)
    assert h.tolist() == [10_001 * 10_000]


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("retain", [False, True])
def test_nd_18_a_graph_dies_by_reference_counting_alone(no_collector, retain):
    function = two_of_three(rg)
    x, w = vector(rg, 1, 2), vector(rg, 3, 4)
    a, b = function.apply(x.exp(), 2.0, w)
    middle = a * b + x[0] - x.reshape(2, 1).sum() + rg.cat([x, w])[1:3]
    middle.retain_grad()
    middle.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: None)
    a.grad_fn.register_hook(lambda ins, outs: None)
    loss = (middle * middle).sum()
    loss.backward(retain_graph=retain)
    rg.autograd.grad((x * w).sum(), [x, w], retain_graph=retain)
    alive = [weakref.ref(thing) for thing in (loss, loss.grad_fn, a.grad_fn, middle, middle.grad_fn, x, w, x.edge()[0])]
    del a, b, middle, loss
    assert [reference() is None for reference in alive] == [True] * 5 + [False, False, True]
    del x, w
    assert [reference() is None for reference in alive] == [True] * 8


def test_nd_18_a_graph_of_gradients_dies_by_reference_counting_alone(no_collector):
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x**3
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * 3 * y / x

    x = vector(rg, 1, 2)
    y = Cube.apply(x).exp().sum()
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    (h,) = rg.autograd.grad(g.sum(), x, create_graph=True)
    alive = [weakref.ref(thing) for thing in (y.grad_fn, g.grad_fn, h.grad_fn, y, g, h, x)]
    del y, g, h, x
    assert [reference() for reference in alive] == [None] * 7


@pytest.mark.parametrize("fails", ["backward", "hook", "forward"])
def test_nd_18_a_failed_pass_leaves_nothing_behind(no_collector, fails):
    class Failing(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if fails == "forward":
                raise ValueError
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if fails == "backward":
                raise ValueError
            return g

    def hook(g):
        raise ValueError

    def attempt():
        x = vector(rg, 1)
        middle = x.exp()
        alive.append(weakref.ref(middle.grad_fn))
        y = Failing.apply(middle)
        if fails == "hook":
            y.register_hook(hook)
        y.sum().backward()

    alive = []
    with pytest.raises(ValueError):  # noqa: PT011 - it says nothing
        attempt()
    assert alive[0]() is None


def test_nd_18_saved_tensors_are_freed_by_a_backward_that_does_not_retain(no_collector):
    class Saving(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept = x + 1
            ctx.save_for_backward(kept)
            alive.append(weakref.ref(kept))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    alive = []
    y = Saving.apply(vector(rg, 1))
    y.sum().backward(retain_graph=True)
    assert alive[0]() is not None
    y.sum().backward()
    assert alive[0]() is None


def test_nd_18_a_node_lives_until_its_last_output_does(no_collector):
    a, b = two_of_three(rg).apply(vector(rg, 1), 2.0, vector(rg, 1))
    node = weakref.ref(a.grad_fn)
    del a
    assert node() is not None
    del b
    assert node() is None


def test_nd_18_handing_a_leaf_to_a_graph_does_not_keep_it(no_collector):
    x = vector(rg, 1)
    y = x * 2
    leaf = weakref.ref(x)
    del x
    assert leaf() is not None  # the graph holds it
    del y
    assert leaf() is None
