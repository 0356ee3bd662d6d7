"""The context object: what it is, what it keeps, when it gives it back (CX)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import AutogradError


def vector(T: Any, *values, requires_grad=True):
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def saving(T: Any, choose, backward=lambda ctx, g: g):
    """A Function `x -> 2x` that saves `choose(x, middle, y)` and runs `backward`."""

    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            middle = x + 0
            y = middle * 2
            ctx.save_for_backward(*choose(x, middle, y))
            return y

    Saving.backward = staticmethod(backward)
    return Saving


def reading(ctx, g):
    """A backward that reads what was saved."""
    assert ctx.saved_tensors is not None
    return g * 2


# ---- what ctx is ----------------------------------------------------------------------------------------------------


def test_cx_01_ctx_is_the_node(T: Any):
    seen = {}

    class Look(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen["forward"] = (ctx, isinstance(ctx, T.autograd.graph.Node), ctx.name(), len(ctx.next_functions))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen["backward"] = ctx
            return g

    y = Look.apply(vector(T, 1))
    ctx, *rest = seen["forward"]
    assert rest == [True, "LookBackward", 1]
    assert y.grad_fn is ctx
    assert y.grad_fn is y.grad_fn
    y.sum().backward()
    assert seen["backward"] is ctx


def test_cx_02_attributes_last_as_long_as_the_node(T: Any):
    class Counting(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.count = 0
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.count += 1
            return g * ctx.factor

    x = vector(T, 1)
    y = Counting.apply(x)
    y.grad_fn.factor = 5.0
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert y.grad_fn.count == 2
    assert x.grad.tolist() == [10]


def test_cx_02_an_attribute_may_be_called_name(T: Any):
    class Named(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.name = "mine"
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.name == "mine"
            return g, g

    y = Named.apply(vector(T, 1))
    assert "NamedBackward" in repr(y)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        y.sum().backward()


def test_cx_03_tensors_as_plain_attributes_are_neither_checked_nor_released(T: Any):
    class Keeping(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = x * 1
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.kept

    x = vector(T, 3)
    y = Keeping.apply(x)
    y.grad_fn.kept.add_(1)
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [8]
    assert y.grad_fn.kept.tolist() == [4]


def test_cx_04_an_output_as_a_plain_attribute_is_the_tensor_that_apply_returned(T: Any):
    class Keeping(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.out = x * 2
            return ctx.out

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = Keeping.apply(vector(T, 1))
    assert y.grad_fn.out is y
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None  # a cycle, but one that the collector can free


# ---- saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [1, "text", []])
def test_cx_07_only_tensors_can_be_saved(T: Any, wrong):
    with pytest.raises(
        TypeError, match=r"save_for_backward can only save variables.*argument 1.*" + type(wrong).__name__
    ):
        saving(T, lambda x, m, y: (x, wrong)).apply(vector(T, 1))


def test_cx_07_the_error_comes_at_the_call_and_names_the_way_out():
    class Careful(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with pytest.raises(TypeError, match=r"ctx\.name = value"):
                ctx.save_for_backward(3)
            return x * 2

    Careful.apply(vector(rg, 1))


def test_cx_08_nothing_is_saved_while_forward_runs(T: Any):
    seen = []

    class Look(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((ctx.saved_tensors, ctx.to_save))
            ctx.save_for_backward(x)
            seen.append((ctx.saved_tensors, len(ctx.to_save)))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    y = Look.apply(vector(T, 1))
    assert seen == [((), None), ((), 1)]
    assert y.grad_fn.to_save is None


def test_cx_09_what_comes_back_is_in_its_place_in_the_graph(T: Any):
    kept = {}

    def backward(ctx, g):
        kept["a"], kept["b"] = ctx.saved_tensors, ctx.saved_tensors
        return g * 2

    middles = []

    def choose(x, middle, y):
        middles.append(middle)
        return x, middle, y

    x = vector(T, 1) * 1
    y = saving(T, choose, backward).apply(x)
    y.sum().backward()
    inputs, middle, output = kept["a"]
    assert inputs is x
    assert middle is middles[0]
    assert not middle.requires_grad
    assert middle.grad_fn is None
    assert output is not y
    assert output.grad_fn is y.grad_fn
    assert output.tolist() == y.tolist()
    assert kept["b"][2] is not output


def test_cx_10_a_second_backward_raises_about_freed_buffers(T: Any):
    y = saving(T, lambda x, m, y: (x,), reading).apply(vector(T, 1))
    y.sum().backward()
    with pytest.raises(RuntimeError, match=r"(?s)after they have already been freed.*Specify retain_graph=True"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        _ = y.grad_fn.saved_tensors


def test_cx_11_freed_is_checked_on_read_not_on_run(T: Any):
    x = vector(T, 1)
    unread = saving(T, lambda x, m, y: (x,), lambda ctx, g: g * 2).apply(x)
    unread.sum().backward()
    unread.sum().backward()
    assert x.grad.tolist() == [4]
    for choose in (lambda x, m, y: (), lambda x, m, y: (None,)):
        y = saving(T, choose, reading).apply(x)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.sum().backward()


def test_cx_12_a_retained_graph_runs_any_number_of_times(T: Any):
    x = vector(T, 3)
    y = saving(T, lambda x, m, y: (x,), lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    for _ in range(3):
        y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [9]


@pytest.mark.parametrize("which", ["input", "middle", "output"])
def test_cx_13_a_change_in_place_is_found_when_the_value_is_read(T: Any, which):
    middles = []

    def choose(x, middle, y):
        middles.append(middle)
        return {"input": (x,), "middle": (middle,), "output": (y,)}[which]

    x = vector(T, 1, 2) * 1
    y = saving(T, choose, reading).apply(x)
    loss = y.sum()
    {"input": x, "middle": middles[0], "output": y}[which].add_(1)
    with pytest.raises(
        RuntimeError, match=r"(?s)modified by an inplace operation.*2\].*version 1; expected version 0.*anom"
    ):
        loss.backward()


def test_cx_13_a_change_is_no_error_if_nobody_reads_the_value(T: Any):
    x = vector(T, 1) * 1
    y = saving(T, lambda x, m, y: (x,), lambda ctx, g: g * 2).apply(x)
    loss = y.sum()
    x.add_(1)
    loss.backward()


def test_cx_13_a_change_of_a_strided_argument_is_found_too():
    x = rg.tensor(np.arange(8.0), requires_grad=True) * 1
    y = saving(rg, lambda x, m, y: (x,), reading).apply(x[::2])
    x.add_(1)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


def test_cx_13_views_and_detached_aliases_share_the_version_but_data_does_not(T: Any):
    for change, found in (
        (lambda x: x.detach().add_(1), True),
        (lambda x: x.view(2, 1).add_(1), True),
        (lambda x: x.data.add_(1), False),
    ):
        x = vector(T, 1, 2) * 1
        y = saving(T, lambda x, m, y: (x,), reading).apply(x)
        with T.no_grad():
            change(x)
        if found:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        else:
            y.sum().backward()


# ---- what is wanted, and undefined gradients ------------------------------------------------------------------------


def test_cx_18_needs_input_grad_is_one_flag_per_argument(T: Any):
    seen = []

    class Flags(T.autograd.Function):
        @staticmethod
        def forward(a, b, c):
            return a * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(ctx.needs_input_grad)

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, None

    Flags.apply(vector(T, 1), vector(T, 1, requires_grad=False), 3).sum().backward()
    assert seen == [(True, False, False)] * 2


def two_inputs(T: Any, seen):
    class Mul(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b, g * a

    return Mul


def test_cx_18_a_pass_to_some_inputs_needs_only_their_gradients():
    seen = []
    a, b = vector(rg, 2), vector(rg, 3)
    y = two_inputs(rg, seen).apply(a, b)
    hooked = []
    y.grad_fn.register_hook(lambda inputs, outputs: hooked.append([g is None for g in inputs]))
    (found,) = rg.autograd.grad(y.sum(), [b], retain_graph=True)
    assert found.tolist() == [2]
    y.sum().backward(inputs=[a], retain_graph=True)
    y.sum().backward()
    assert seen == [(False, True), (True, False), (True, True)]
    assert hooked == [[True, False], [False, True], [False, False]]
    assert y.grad_fn.needs_input_grad == (True, True)
    assert (a.grad.tolist(), b.grad.tolist()) == ([6], [2])


def test_cx_18_an_assigned_value_wins(T: Any):
    seen = []
    a, b = vector(T, 2), vector(T, 3)
    y = two_inputs(T, seen).apply(a, b)
    y.grad_fn.needs_input_grad = (True, False)
    T.autograd.grad(y.sum(), [b])
    assert seen == [(True, False)]


def test_cx_20_undefined_gradients_become_zeros_unless_switched_off(T: Any):
    got = []

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            if materialize is not None:
                ctx.set_materialize_grads(materialize)
            return x * 2, x.to(T.float32)

        @staticmethod
        def backward(ctx, a, b):
            got.append(b)
            return a, None

    x = vector(T, 1, 2)
    for materialize in (None, True, False):
        Two.apply(x, materialize)[0].sum().backward()
    for zeros in got[:2]:
        assert zeros.tolist() == [0, 0]
        assert zeros.dtype == T.float32
    assert got[2] is None


def test_cx_20_in_backward_it_counts_from_the_next_run_on(T: Any):
    got = []

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            got.append(b is None)
            ctx.set_materialize_grads(False)
            return a

    y = Two.apply(vector(T, 1))[0]
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert got == [False, True]


def test_cx_20_it_takes_a_bool(T: Any):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(1)

    with pytest.raises(TypeError):
        Wrong.apply(vector(T, 1))


def test_cx_20_it_can_be_read():
    class Look(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert ctx.materialize_grads is True
            ctx.set_materialize_grads(False)
            assert ctx.materialize_grads is False
            return x * 1

    Look.apply(vector(rg, 1))


# ---- what workers need ----------------------------------------------------------------------------------------------
