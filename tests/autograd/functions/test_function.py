"""Defining and applying Functions (FN) and what apply returns (OU)."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import raygrad as rg


def vector(T: Any, *values, requires_grad=True):
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def record_and_return(T: Any, body):
    """A Function of one argument that returns its double, and calls `body(ctx, x)` in forward."""

    class Doubling(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            body(ctx, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Doubling


def identity(T: Any):
    """A Function that returns its first argument unchanged and asks for a gradient of the others none."""

    class Identity(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, *others):
            ctx.others = len(others)
            return x

        @staticmethod
        def backward(ctx, g):
            return (g * 3, *(None for _ in range(ctx.others)))

    return Identity


# ---- FN: styles and arguments ---------------------------------------------------------------------------------------


def test_fn_01_the_combined_style_gets_a_context_first(T: Any):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = vector(T, 1, 2, 3)
    y = Square.apply(x)
    assert y.tolist() == [1, 4, 9]
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_fn_02_the_separate_style_sets_up_its_context_from_inputs_and_outputs(T: Any):
    seen = []

    class Scale(T.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((type(inputs), len(inputs), output.requires_grad, output.grad_fn))
            ctx.factor = inputs[1]
            return "ignored"

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    x = vector(T, 1, 2)
    y = Scale.apply(x, 3.0)
    assert seen == [(tuple, 2, False, None)]
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_fn_03_forward_runs_before_setup_context_both_inside_apply(T: Any):
    order = []

    class Logged(T.autograd.Function):
        @staticmethod
        def forward(x):
            order.append("forward")
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            order.append("setup_context")

        @staticmethod
        def backward(ctx, g):
            order.append("backward")
            return g * 2

    y = Logged.apply(vector(T, 1))
    assert order == ["forward", "setup_context"]
    y.sum().backward()
    assert order == ["forward", "setup_context", "backward"]


def test_fn_04_the_separate_style_fills_in_defaults(T: Any):
    class Power(T.autograd.Function):
        @staticmethod
        def forward(x, exponent=2):
            return x**exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.inputs_seen = len(inputs)

        @staticmethod
        def backward(ctx, g):
            assert ctx.inputs_seen == 2
            return g * 5, None

    x = vector(T, 3)
    y = Power.apply(x)
    assert y.tolist() == [9]
    y.sum().backward()
    assert x.grad.tolist() == [5]


def test_fn_04_the_combined_style_takes_what_is_passed_as_the_arguments(T: Any):
    class Power(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, exponent=2):
            return x**exponent

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True,)
            return g * 5

    x = vector(T, 3)
    Power.apply(x).sum().backward()
    assert x.grad.tolist() == [5]


def in_style(function, style, combined, separate):
    """Give a Function its forward, in one of the two styles."""
    if style == "combined":
        function.forward = staticmethod(combined)
    else:
        function.forward = staticmethod(separate)
        function.setup_context = staticmethod(lambda ctx, inputs, output: None)


@pytest.mark.parametrize("style", ["combined", "separate"])
def test_fn_05_keywords_are_moved_to_their_slots(T: Any, style):
    class Sub(T.autograd.Function):
        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad[:2] == (True, True)
            return (g * 2, g * 3, None)[: len(ctx.needs_input_grad)]

    def combined(ctx, a, b, scale=1.0):
        return (a - b) * scale

    def separate(a, b, scale=1.0):
        return (a - b) * scale

    in_style(Sub, style, combined, separate)
    a, b = vector(T, 5), vector(T, 2)
    assert Sub.apply(a, b=b).tolist() == [3]
    assert Sub.apply(b=b, a=a).tolist() == [3]
    y = Sub.apply(scale=2.0, b=b, a=a)
    assert y.tolist() == [6]
    y.sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2], [3])


@pytest.mark.parametrize("style", ["combined", "separate"])
@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [(1, ("a", "b"), "multiple values"), (2, ("c",), "unexpected keyword argument"), (0, ("a",), "missing")],
)
def test_fn_05_keywords_that_do_not_fit_raise(T: Any, style, arguments, names, message):
    class Add(T.autograd.Function):
        pass

    in_style(Add, style, lambda ctx, a, b: a + b, lambda a, b: a + b)
    with pytest.raises(TypeError, match=message):
        Add.apply(*[vector(T, 1)] * arguments, **dict.fromkeys(names, vector(T, 1)))


def test_fn_05_a_skipped_default_is_filled_in():
    class Scale(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor=2.0, shift=0.0):
            return x * factor + shift

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True, False, False)
            return g * 2, None, None

    x = vector(rg, 1)
    y = Scale.apply(x, shift=1.0)
    assert y.tolist() == [3]
    y.sum().backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize("style", ["combined", "separate"])
def test_fn_05_keyword_only_arguments_pass_through_but_not_tensors(style):
    class Scale(rg.autograd.Function):
        @staticmethod
        def backward(ctx, g):
            return g

    def combined(ctx, x, *, factor=1.0):
        return x * factor

    def separate(x, *, factor=1.0):
        return x * factor

    in_style(Scale, style, combined, separate)
    assert Scale.apply(vector(rg, 2), factor=4.0).tolist() == [8]
    assert Scale.apply(vector(rg, 2)).tolist() == [2]
    with pytest.raises(TypeError, match="'factor' is a tensor"):
        Scale.apply(vector(rg, 2), factor=vector(rg, 4))


def test_fn_05_a_decorated_forward_shows_its_own_signature():
    def logged(forward):
        @functools.wraps(forward)
        def inner(*args, **kwargs):
            return forward(*args, **kwargs)

        return inner

    class Scale(rg.autograd.Function):
        @staticmethod
        @logged
        def forward(x, factor=3.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            assert len(inputs) == 2

        @staticmethod
        def backward(ctx, g):
            return g, None

    assert Scale.apply(vector(rg, 2)).tolist() == [6]
    assert Scale.apply(factor=2.0, x=vector(rg, 2)).tolist() == [4]


def test_fn_06_only_direct_tensor_arguments_are_tracked(T: Any):
    seen = []

    class First(T.autograd.Function):
        @staticmethod
        def forward(ctx, items):
            seen.append((items[0].requires_grad, ctx.needs_input_grad))
            return items[0] * 2

        @staticmethod
        def backward(ctx, g):
            raise AssertionError

    x = vector(T, 1)
    y = First.apply([x])
    assert seen == [(True, (False,))]
    assert not y.requires_grad
    assert y.grad_fn is None


def test_fn_07_other_objects_are_passed_by_reference(T: Any):
    marker, seen = object(), []

    class Seeing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, thing, nothing):
            seen.extend((thing, nothing))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    Seeing.apply(vector(T, 1), marker, None)
    assert seen[0] is marker
    assert seen[1] is None


def test_fn_08_the_same_tensor_twice_has_two_slots_whose_gradients_add(T: Any):
    class Mul(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            assert a is b
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    x = vector(T, 3)
    y = Mul.apply(x, x)
    assert len(y.grad_fn.next_functions) == 2
    y.sum().backward()
    assert x.grad.tolist() == [6]


def test_fn_09_without_tensors_the_result_comes_back_raw(T: Any):
    class Constant(T.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return {"args": args}

    assert Constant.apply() == {"args": ()}
    assert Constant.apply(1, "two") == {"args": (1, "two")}


def test_fn_10_recording_is_off_inside_forward_and_setup_context(T: Any):
    seen = []

    class Inner(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise AssertionError

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(x):
            seen.append((T.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad, Inner.apply(x).requires_grad))
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((T.is_grad_enabled(), inputs[0].requires_grad))

        @staticmethod
        def backward(ctx, g):
            return g

    Outer.apply(vector(T, 1))
    assert seen == [(False, True, False, False), (False, True)]
    assert T.is_grad_enabled()


def test_fn_11_history_made_under_enable_grad_in_forward_is_lost(T: Any):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with T.enable_grad():
                return x * 100

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = vector(T, 1)
    y = Wrong.apply(x)
    assert y.grad_fn.name() == "WrongBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3]


@pytest.mark.parametrize("why", ["no_grad", "nothing requires grad"])
def test_fn_12_unrecorded_forward_has_a_working_context(T: Any, why):
    kept = []

    def body(ctx, x):
        ctx.save_for_backward(x, "not a tensor")
        ctx.mark_non_differentiable()
        kept.append((ctx, ctx.needs_input_grad))

    function = record_and_return(T, body)
    if why == "no_grad":
        with T.no_grad():
            y = function.apply(vector(T, 1))
    else:
        y = function.apply(vector(T, 1, requires_grad=False))
    (ctx, needs) = kept[0]
    assert needs == (why == "no_grad",)
    assert ctx.saved_tensors == ()
    assert not y.requires_grad
    assert y.grad_fn is None


def test_fn_14_forward_must_be_written(T: Any):
    class Empty(T.autograd.Function):
        pass

    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Empty.apply(vector(T, 1))
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        T.autograd.Function.apply(vector(T, 1))


def test_fn_15_a_missing_backward_is_an_error_when_the_node_runs(T: Any):
    class OneWay(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    y = OneWay.apply(vector(T, 1))
    with pytest.raises(NotImplementedError, match="must implement either the backward"):
        y.sum().backward()


def test_fn_16_vjp_is_another_name_for_backward(T: Any):
    class Named(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 7

    x = vector(T, 1)
    Named.apply(x).sum().backward()
    assert x.grad.tolist() == [7]


def test_fn_16_writing_both_is_an_error_when_the_node_runs(T: Any):
    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        vjp = backward

    y = Both.apply(vector(T, 1))
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        y.sum().backward()


def test_fn_18_class_methods_and_plain_functions_work(T: Any):
    class ByClass(T.autograd.Function):
        factor = 2

        @classmethod
        def forward(cls, x, power=1):
            return x * cls.factor

        @classmethod
        def setup_context(cls, ctx, inputs, output):
            ctx.count = len(inputs)

        @classmethod
        def backward(cls, ctx, g):
            return (g * cls.factor, None)[: ctx.count]

    class Plain(T.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g * 2

    for function in (ByClass, Plain):
        x = vector(T, 1)
        function.apply(x).sum().backward()
        assert x.grad.tolist() == [2]
    x = vector(T, 1)
    ByClass.apply(x, 3).sum().backward()
    assert x.grad.tolist() == [2]


def test_fn_19_subclasses_inherit_and_name_their_own_nodes(T: Any):
    class Base(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Derived(Base):
        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = vector(T, 1)
    base, derived = Base.apply(x), Derived.apply(x)
    assert (base.grad_fn.name(), derived.grad_fn.name()) == ("BaseBackward", "DerivedBackward")
    assert not issubclass(type(derived.grad_fn), type(base.grad_fn))
    derived.sum().backward()
    assert x.grad.tolist() == [5]


@pytest.mark.parametrize("where", ["forward", "setup_context"])
def test_fn_21_exceptions_reach_the_caller_and_modes_are_restored(T: Any, where):
    error = KeyError("mine")

    class Failing(T.autograd.Function):
        @staticmethod
        def forward(x):
            if where == "forward":
                raise error
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            raise error

    with pytest.raises(KeyError) as caught:
        Failing.apply(vector(T, 1))
    assert caught.value is error
    assert T.is_grad_enabled()


def test_fn_22_a_mode_flipped_in_forward_does_not_survive_apply(T: Any):
    function = record_and_return(T, lambda ctx, x: T.set_grad_enabled(True))
    with T.no_grad():
        function.apply(vector(T, 1))
        assert not T.is_grad_enabled()
    function.apply(vector(T, 1))
    assert T.is_grad_enabled()


# ---- OU: outputs ----------------------------------------------------------------------------------------------------


def test_ou_01_tuples_come_back_as_plain_tuples(T: Any):
    from typing import NamedTuple

    class Pair(NamedTuple):
        a: object
        b: object

    class Make(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, form):
            if form == "named":
                return Pair(x * 1, x * 2)
            return (x * 1,) if form == "one" else ()

        @staticmethod
        def backward(ctx, *gs):
            return sum(gs), None

    x = vector(T, 1)
    named = Make.apply(x, "named")
    assert type(named) is tuple
    assert [t.requires_grad for t in named] == [True, True]
    assert type(Make.apply(x, "one")) is tuple
    assert Make.apply(x, "none") == ()


def test_ou_01_other_containers_are_one_opaque_output(T: Any):
    class Make(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return [x * 2], x * 3, (x * 4,)

        @staticmethod
        def backward(ctx, a, g, b):
            assert a is None
            assert b is None
            return g * 3

    x = vector(T, 1)
    a, y, b = Make.apply(x)
    assert type(a) is list
    assert a[0].grad_fn is None
    assert not a[0].requires_grad
    assert b[0].grad_fn is None
    y.sum().backward()
    assert x.grad.tolist() == [3]


def test_ou_02_03_other_outputs_pass_through_and_get_none_in_backward(T: Any):
    got = []

    class Mixed(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return "text", x * 2, None, 7

        @staticmethod
        def backward(ctx, *gs):
            got.extend(gs)
            return gs[1] * 2

    x = vector(T, 1)
    text, y, nothing, seven = Mixed.apply(x)
    assert (text, nothing, seven) == ("text", None, 7)
    y.sum().backward()
    assert [g is None for g in got] == [True, False, True, True]
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize("materialize", [True, False])
def test_ou_04_integer_and_bool_outputs_carry_no_gradient(T: Any, materialize):
    got = []

    class Split(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, (x * 2).to(T.int64), x > 0

        @staticmethod
        def backward(ctx, *gs):
            got.extend(gs)
            return gs[0] * 2

    y, count, positive = Split.apply(vector(T, 1))
    assert not count.requires_grad
    assert positive.grad_fn is None
    y.sum().backward()
    if materialize:
        assert [str(g.dtype).removeprefix("torch.") for g in got] == ["float64", "int64", "bool"]
        assert got[1].tolist() == [0]
    else:
        assert got[1:] == [None, None]


def test_ou_05_a_node_with_no_differentiable_output_is_unreachable(T: Any):
    class Sign(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            positive = x > 0
            rounded = x * 2
            ctx.mark_non_differentiable(rounded)
            return positive, rounded

    positive, rounded = Sign.apply(vector(T, 1))
    assert positive.grad_fn is None
    assert rounded.grad_fn is None
    assert not rounded.requires_grad


def test_ou_06_gradients_arrive_in_the_outputs_dtype_and_leave_in_the_inputs(T: Any):
    seen = []

    class Cast(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to(T.float32)

        @staticmethod
        def backward(ctx, g):
            seen.append(g.dtype)
            return g

    x = vector(T, 1)
    Cast.apply(x).sum().backward()
    assert seen == [T.float32]
    assert x.grad.dtype == T.float64


def test_ou_07_unused_outputs_are_materialised_and_a_node_without_gradient_does_not_run(T: Any):
    got = []

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            got.append((a.tolist(), b.tolist()))
            return a * 2 + b * 3

    x = vector(T, 1, 2)
    unused = Two.apply(x)
    used, _ = Two.apply(x)
    used.sum().backward()
    assert got == [([1, 1], [0, 0])]
    assert x.grad.tolist() == [2, 2]
    del unused


def test_ou_08_one_new_tensor_in_two_slots_is_one_object_of_the_last_slot(T: Any):
    got = []

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, a, b):
            got.append((a.tolist(), b.tolist()))
            return a * 2 + b * 2

    x = vector(T, 1)
    a, b = Twice.apply(x)
    assert a is b
    assert a.output_nr == 1
    (a + b * 2).sum().backward()
    assert got == [([0], [3])]
    assert x.grad.tolist() == [6]


def test_ou_09_an_input_returned_unchanged_is_a_view_with_this_node_as_producer(T: Any):
    x = vector(T, 1)
    middle = x * 2
    out = identity(T).apply(middle)
    assert out is not middle
    assert out._base is middle
    assert out.grad_fn.name() == "IdentityBackward"
    assert middle.grad_fn.name().startswith("Mul")
    seen = []
    out.register_hook(lambda g: seen.append(g.tolist()))
    (out + middle * 10).sum().backward()
    assert seen == [[1]]
    assert x.grad.tolist() == [2 * (3 + 10)]


def test_ou_10_one_input_in_two_slots_gives_two_aliases(T: Any):
    got = []

    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x, x

        @staticmethod
        def backward(ctx, a, b):
            got.append((a.tolist(), b.tolist()))
            return a + b

    x = vector(T, 1)
    a, b = Both.apply(x)
    assert a is not b
    assert (a.output_nr, b.output_nr) == (0, 1)
    (a + b * 5).sum().backward()
    assert got == [([1], [5])]


def test_ou_10_aliases_of_inputs_that_need_no_gradient(T: Any):
    function = identity(T)
    plain, needing = vector(T, 1, requires_grad=False), vector(T, 1)
    beside = function.apply(plain, needing)
    assert beside.requires_grad
    assert not plain.requires_grad
    unrecorded = function.apply(plain)
    assert unrecorded is not plain
    assert not unrecorded.requires_grad
    with T.no_grad():
        silent = function.apply(needing)
    assert silent is not needing
    assert not silent.requires_grad
    assert silent._base is None


@pytest.mark.parametrize("materialize", [True, False])
def test_ou_25_marked_outputs_carry_no_gradient(T: Any, materialize):
    got = []

    class Split(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx, a, b):
            got.append(None if b is None else b.tolist())
            return a * 2

    x = vector(T, 1)
    a, b = Split.apply(x)
    assert not b.requires_grad
    assert b.grad_fn is None
    (a + b * 5).sum().backward()
    assert got == [[0] if materialize else None]
    assert x.grad.tolist() == [2]


def test_ou_26_marking_what_is_no_tensor_raises(T: Any):
    with pytest.raises(RuntimeError, match="only accepts variable arguments"):
        record_and_return(T, lambda ctx, x: ctx.mark_non_differentiable("x")).apply(vector(T, 1))


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_ou_28_empty_and_zero_dimensional_tensors(T: Any, shape):
    x = T.ones(shape, dtype=T.float64, requires_grad=True)
    y = record_and_return(T, lambda ctx, x: ctx.save_for_backward(x)).apply(x)
    assert tuple(y.shape) == shape
    y.sum().backward()
    assert tuple(x.grad.shape) == shape
    assert x.grad.sum().item() == 2 * x.numel()


def test_ou_29_outputs_know_their_slot_also_when_saved_elsewhere(T: Any):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return a + b

    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x = vector(T, 1)
    first, second = Two.apply(x)
    assert (x.output_nr, first.output_nr, second.output_nr) == (0, 0, 1)
    (kept,) = Saving.apply(second).grad_fn.saved_tensors
    assert kept.output_nr == 1


# ---- layouts, lifetimes ---------------------------------------------------------------------------------------------


def test_h1_a_function_sees_dense_arrays_whatever_it_is_given():
    seen = []

    class Look(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            seen.extend((x.numpy().strides, y.numpy().strides))
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            seen.extend((g.numpy().strides, x.detach().numpy().strides))
            return g, None

    x: Any = rg.tensor(np.arange(24.0).reshape(4, 6), requires_grad=True)
    out = Look.apply(x[:, ::2], x.detach().T)
    out.backward(rg.tensor(np.ones((4, 6)))[:, ::2])
    assert seen == [(24, 8), (8, 48), (24, 8), (24, 8)]
    assert x.grad.tolist() == [[1.0, 0.0] * 3] * 4


def test_h1_also_in_a_pass_that_is_to_be_differentiated():
    seen = []

    class Look(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(g.detach().numpy().strides)
            return g * 2

    x: Any = rg.tensor(np.ones((3, 4)), requires_grad=True)
    given: Any = rg.tensor(np.ones((3, 8)))[:, ::2].requires_grad_()
    (first,) = rg.autograd.grad(Look.apply(x), x, given, create_graph=True)
    (second,) = rg.autograd.grad(first.sum(), given)
    assert seen == [(32, 8)]
    assert second.tolist() == [[2.0] * 4] * 3


def test_h1_the_gradient_of_a_strided_leaf_reaches_the_leaf():
    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0

    leaf: Any = rg.from_numpy(np.arange(6.0)[::2]).requires_grad_()
    out = Double.apply(leaf)
    gc.collect()
    out.sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_an_applied_function_dies_by_reference_counting_alone():
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(x, factor=1.0):
            return x * x, x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[0])

        @staticmethod
        def backward(ctx, g, h):
            x, _ = ctx.saved_tensors
            return g * 2 * x + h, None

    gc.disable()
    try:
        x = vector(rg, 2)
        y, z = Square.apply(x)
        (y + z).sum().backward()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is not None  # its other output lives
        del z
        assert node() is None
        leaf = weakref.ref(x)
        del x
        assert leaf() is None
    finally:
        gc.enable()


def test_a_signature_is_not_kept_longer_than_its_class():
    def make():
        class Local(rg.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale=1.0):
                return x * scale

        Local.apply(vector(rg, 1), scale=2.0)
        return weakref.ref(Local)

    reference = make()
    gc.collect()
    assert reference() is None


def test_a_strided_argument_that_is_given_twice_is_one_tensor_in_forward() -> None:
    seen: list[bool] = []

    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append(a is b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    x = rg.ones(4, 4, requires_grad=True)[::2, 1:3]
    Product.apply(x, x)
    assert seen == [True]
