"""AC: the registry of derivatives: programs that show each id."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..programs.registry import constant, leaf, program, raises, values

_numbers = itertools.count()


def fresh(T: Any, operands: tuple[str, ...] = ("a",), kernel: Any = None, **options: Any) -> Any:
    """Declare an op under a name of its own, with a kernel that serves everywhere."""
    op = T.autograd.declare_op(f"contract_{next(_numbers)}", operands, **options)
    if kernel is not None:
        T.autograd.register_kernel(op.name)(kernel)
    return op


def derive(T: Any, op: Any, backward: Any, device: str = "*", replace: bool = False, **options: Any) -> None:
    """Register a derivative."""
    config = T.autograd.AutogradConfig(op=op.name, device=device, backward=backward, **options)
    T.autograd.register_autograd(config, replace=replace)


@program("AC-01", torch=False)
def an_entry_is_immutable_and_needs_op_device_and_backward(T: Any, log: Any) -> Any:
    """An entry can be changed after registration, or made without what it needs."""
    Config = T.autograd.AutogradConfig
    for missing in ({"op": "add", "device": "*"}, {"op": "add", "backward": len}, {"device": "*", "backward": len}):
        with raises(TypeError, "required"):
            Config(**missing)
    op = fresh(T, kernel=np.square)
    config = T.autograd.register_autograd(
        Config(op=op.name, device="*", backward=lambda ctx, g: {"a": 2 * ctx.saved_tensors[0] * g})
    )
    for name in ("op", "device", "dtype", "backward", "setup_context"):
        with raises(AttributeError, name):
            setattr(config, name, None)
    x = leaf(T, 3)
    op(x).sum().backward()
    return x.grad


@program("AC-02", torch=False)
def an_omitted_dtype_is_any(T: Any, log: Any) -> Any:
    """None, '*' and no dtype are different keys, or a concrete one serves another dtype."""
    op = fresh(T, kernel=lambda a: a * 2)
    derive(T, op, lambda ctx, g: g * 2)
    for dtype in (None, "*"):
        with raises(ValueError, op.name, "registered already"):
            derive(T, op, lambda ctx, g: g * 3, dtype=dtype)
    derive(T, op, lambda ctx, g: g * 5, dtype=T.float32)
    x, y = leaf(T, 2), leaf(T, 2, dtype="float32")
    op(x).sum().backward()
    op(y).sum().backward()
    return [x.grad, y.grad]


@program("AC-03", torch=False)
def a_device_must_be_given(T: Any, log: Any) -> Any:
    """An entry without device is taken for one for any, or one for another device serves the host."""
    with raises(TypeError, "device"):
        T.autograd.AutogradConfig(op="add", backward=lambda ctx, g: g)
    op = fresh(T, kernel=lambda a: a * 2)
    derive(T, op, lambda ctx, g: g * 7, device="cuda")
    derive(T, op, lambda ctx, g: g * 2, device="cpu")
    x = leaf(T, 2)
    op(x).sum().backward()
    return x.grad


@program("AC-04", torch=False)
def the_entry_chosen_in_forward_is_used_in_backward(T: Any, log: Any) -> Any:
    """A registration after forward changes what backward runs, or an operand's dtype is taken for the promoted."""
    op = fresh(T, ("a", "b"), lambda a, b: a + b, promotes="arith")
    derive(T, op, lambda ctx, g: (g * 2, g * 2), dtype=T.float64)
    derive(T, op, lambda ctx, g: (g * 3, g * 3), dtype=T.float32)
    x, y = leaf(T, 2, dtype="float32"), leaf(T, 2)
    out = op(x, y)
    derive(T, op, lambda ctx, g: (g * 9, g * 9), dtype=T.float64, replace=True)
    again = op(x, y)
    out.sum().backward()
    first = [x.grad * 1, y.grad * 1]
    again.sum().backward()
    return [first, x.grad, y.grad]


@program("AC-05", torch=False)
def the_most_specific_entry_wins(T: Any, log: Any) -> Any:
    """Entries are tried in the order of their registration, or a device counts for more than a dtype."""
    order = [("cpu", "float32", 2), ("*", "float32", 3), ("cpu", "*", 5), ("*", "*", 7)]
    seen = []
    for first in range(len(order)):
        op = fresh(T, kernel=lambda a: a * 1)
        for device, dtype, factor in reversed(order[first:]):
            derive(T, op, lambda ctx, g, factor=factor: g * factor, device=device, dtype=dtype)
        x = leaf(T, 1, dtype="float32")
        op(x).sum().backward()
        seen.append(x.grad)
    return seen


@program("AC-06", torch=False)
def a_key_is_taken_once_and_names_are_known(T: Any, log: Any) -> Any:
    """A second registration silently wins, or an unknown dtype or device is accepted."""
    op = fresh(T, kernel=lambda a: a * 1)
    derive(T, op, lambda ctx, g: g * 2, dtype=T.float64)
    with raises(ValueError, op.name, "*", "float64", "replace"):
        derive(T, op, lambda ctx, g: g * 3, dtype="float64")
    derive(T, op, lambda ctx, g: g * 4, dtype="float64", replace=True)
    with raises(ValueError, "unknown dtype", "float64"):
        derive(T, op, lambda ctx, g: g, dtype="float7")
    with raises(ValueError, "unknown device", "cuda"):
        derive(T, op, lambda ctx, g: g, device="abacus")
    x = leaf(T, 2)
    op(x).sum().backward()
    return x.grad


@program("AC-06", torch=False)
def an_op_may_be_registered_before_it_is_declared(T: Any, log: Any) -> Any:
    """An early registration is refused or lost, or a misspelt one cannot be found."""
    name = f"contract_early_{next(_numbers)}"
    listed = [name in T.autograd.list_undeclared()]
    T.autograd.register_kernel(name)(np.square)
    T.autograd.register_autograd(
        T.autograd.AutogradConfig(op=name, device="*", backward=lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
    )
    listed += [name in T.autograd.list_undeclared(), name in T.autograd.list_ops()]
    op = T.autograd.declare_op(name, ("a",))
    listed += [name in T.autograd.list_undeclared(), name in T.autograd.list_ops()]
    x = leaf(T, 2)
    op(x).sum().backward()
    return [listed, x.grad]


@program("AC-07", torch=False)
def without_a_derivative_forward_runs_and_backward_says_so(T: Any, log: Any) -> Any:
    """A missing derivative gives zeros, or fails in forward."""
    op = fresh(T, kernel=np.square)
    derive(T, op, lambda ctx, g: g, dtype=T.float32)
    x = leaf(T, 2)
    y = op(x)
    with raises(NotImplementedError, "derivative for", op.name, "is not implemented", "cpu", "float64", "float32"):
        (y * 2).sum().backward()
    return [y, y.requires_grad, x.grad]


@program("AC-08", torch=False)
def setup_context_gets_names_output_and_meta(T: Any, log: Any) -> Any:
    """setup_context gets inputs by position, runs while recording, or does not see what the kernel handed back."""
    op = fresh(T, ("x", "weights"), params=("power",))

    @T.autograd.register_kernel(op.name, returns_meta=True)
    def kernel(x, weights, power):
        scaled = x**power * weights
        return scaled, {"mask": scaled > 0, "shape": x.shape}

    def setup_context(ctx, inputs, output, meta: Any = None):
        log("setup", [sorted(inputs), inputs["power"], inputs["weights"], list(meta["shape"]), T.is_grad_enabled()])
        log("output", [output.requires_grad, output])
        ctx.save_for_backward(inputs["x"])
        ctx.mask, ctx.power, ctx.weights = meta["mask"], inputs["power"], inputs["weights"]
        return "ignored"

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        log("mask", ctx.mask)
        return {"x": g * ctx.power * x ** (ctx.power - 1) * ctx.weights}

    derive(T, op, backward, setup_context=setup_context)
    x = leaf(T, 3)
    op(x, 2.0, power=3).sum().backward()
    with T.no_grad():
        y = op(x, 2.0, power=2)
    return [x.grad, y]


@program("AC-08", torch=False)
def without_meta_it_is_none(T: Any, log: Any) -> Any:
    """meta is something where the kernel handed nothing back."""
    op = fresh(T, kernel=np.square)

    def setup_context(ctx, inputs, output, meta=None):
        log("meta", meta)
        ctx.save_for_backward(inputs["a"])

    derive(T, op, lambda ctx, g: 2 * ctx.saved_tensors[0] * g, setup_context=setup_context)
    x = leaf(T, 3)
    op(x).sum().backward()
    return x.grad


@program("AC-08", "AC-12", torch=False)
def three_operands_without_setup_context_save_nothing(T: Any, log: Any) -> Any:
    """An op of three operands keeps all of them although nobody asked for it."""
    op = fresh(T, ("a", "b", "c"), lambda a, b, c: a + b + c)

    def backward(ctx, g):
        log("saved", len(ctx.saved_tensors))
        return g, g * 2, g * 3

    derive(T, op, backward)
    a, b, c = leaf(T, 2), leaf(T, 2, seed=1), leaf(T, 2, seed=2)
    op(a, b, c).sum().backward()
    return [a.grad, b.grad, c.grad]


@program("AC-09", "CX-02", "CX-10", "OU-25", torch=False)
def the_context_of_an_entry_is_a_context(T: Any, log: Any) -> Any:
    """Attributes, marks, needs_input_grad or the freeing of saved values are not those of a Function's context."""
    op = fresh(T, ("a", "b"), lambda a, b: (a * b, a - b), outputs=2)

    def setup_context(ctx, inputs, output, meta=None):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs["a"], inputs["b"])
        ctx.factor = 2.0
        log("needs", ctx.needs_input_grad)

    def backward(ctx, grads):
        a, b = ctx.saved_tensors
        log("grads", [grads[0], grads[1]])
        return {"a": grads[0] * b * ctx.factor, "b": grads[0] * a * ctx.factor}

    derive(T, op, backward, setup_context=setup_context)
    a, b = leaf(T, 2), constant(T, 2)
    y, z = op(a, b)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with raises(RuntimeError, "Specify retain_graph=True"):
        y.sum().backward()
    return [a.grad, b.grad, y.requires_grad, z.requires_grad]


@program("AC-09", "CX-07", torch=False)
def an_entry_saves_tensors_only(T: Any, log: Any) -> Any:
    """A number is saved as if it were a tensor."""
    op = fresh(T, ("a", "b"), lambda a, b: a * b)
    derive(
        T,
        op,
        lambda ctx, g: None,
        setup_context=lambda ctx, inputs, output, meta=None: ctx.save_for_backward(inputs["b"]),
    )
    with raises(TypeError, "save_for_backward can only save variables"):
        op(leaf(T, 2), 2.0)


@program("AC-10", torch=False)
def gradients_come_by_name_or_in_order_or_alone(T: Any, log: Any) -> Any:
    """A mapping in another order goes to the wrong inputs, or a missing name is an error."""
    a, b = leaf(T, 2), leaf(T, 2, seed=1)
    found = []
    for backward in (
        lambda ctx, g: {"b": g * 3, "a": g * 2},
        lambda ctx, g: (g * 2, g * 3),
        lambda ctx, g: {"b": g * 3},
        lambda ctx, g: {"b": g * 3, "a": None},
        lambda ctx, g: (None, g * 3),
    ):
        op = fresh(T, ("a", "b"), lambda a, b: 2 * a + 3 * b)
        derive(T, op, backward)
        found.append(T.autograd.grad(op(a, b).sum(), [a, b], allow_unused=True))
    op = fresh(T, kernel=lambda a: a * 2)
    derive(T, op, lambda ctx, g: g * 2)
    return [found, T.autograd.grad(op(a).sum(), a)]


@program("AC-10", "BW-02", "BW-04", "BW-07", torch=False)
def wrong_gradients_of_an_entry_are_refused(T: Any, log: Any) -> Any:
    """Unknown names, wrong counts, gradients for numbers or of wrong shapes go through."""
    cases = [
        (lambda ctx, g: {"a": g, "c": g}, ["unknown inputs", "c"]),
        (lambda ctx, g: g, ["incorrect number of gradients", "expected 2", "got 1"]),
        (lambda ctx, g: (g, g, g), ["incorrect number of gradients", "expected 2", "got 3"]),
        (lambda ctx, g: {"b": g}, ["different than None"]),
        (lambda ctx, g: {"a": g[:1]}, ["invalid gradient at index 0", "expected shape"]),
        (lambda ctx, g: {"a": "text"}, ["expected Variable or None", "str"]),
    ]
    for backward, keywords in cases:
        op = fresh(T, ("a", "b"), lambda a, b: a * b)
        derive(T, op, backward)
        with raises(RuntimeError, *keywords):
            op(leaf(T, 2), 2.0).sum().backward()


@program("AC-10", "BW-07", torch=False)
def larger_gradients_of_an_entry_are_summed(T: Any, log: Any) -> Any:
    """A gradient that the input broadcasts to is refused, or stored in its larger shape."""
    op = fresh(T, ("a", "b"), lambda a, b: a + b)
    derive(T, op, lambda ctx, g: {"a": g, "b": g})
    a, b = leaf(T, 2, 3), leaf(T, 3, seed=1)
    op(a, b).sum().backward()
    return [a.grad, b.grad]


@program("AC-11", torch=False)
def an_op_of_several_outputs_gets_a_tuple(T: Any, log: Any) -> Any:
    """The gradients of several outputs come one by one, or an unused one is missing."""
    op = fresh(T, ("a",), lambda a: (a * 2, a * 3, a > 0), outputs=3)

    def backward(ctx, grads):
        log("grads", [len(grads), *grads])
        return grads[0] * 2 + (0 if grads[1] is None else grads[1] * 3)

    derive(T, op, backward)
    x = leaf(T, 3)
    first, second, sign = op(x)
    first.sum().backward()
    one = x.grad * 1
    first, second, sign = op(x)
    (first + second).sum().backward()
    return [one, x.grad, sign, sign.requires_grad]


@program("AC-11", "CX-20", torch=False)
def an_undefined_gradient_of_an_op_may_be_none(T: Any, log: Any) -> Any:
    """set_materialize_grads has no effect in an entry."""
    op = fresh(T, ("a",), lambda a: (a * 2, a * 3), outputs=2)

    def setup_context(ctx, inputs, output, meta=None):
        ctx.set_materialize_grads(False)

    def backward(ctx, grads):
        log("undefined", [grad is None for grad in grads])
        return {"a": grads[1] * 3}

    derive(T, op, backward, setup_context=setup_context)
    x = leaf(T, 3)
    op(x)[1].sum().backward()
    return x.grad


@program("AC-12", torch=False)
def an_entry_says_in_a_word_what_to_save(T: Any, log: Any) -> Any:
    """`saves` keeps something other than what it says."""
    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    found = []
    for saves in (None, "inputs", "output", "a", "b", "none", ("output", "left")):
        op = fresh(T, ("left", "right"), lambda left, right: left * right)

        def backward(ctx, g):
            log("saved", list(ctx.saved_tensors))
            return g * 2, g * 3

        saved: dict[str, Any] = {} if saves is None else {"saves": saves}
        derive(T, op, backward, **saved)
        found.append(T.autograd.grad(op(x, y).sum(), [x, y]))
    with raises(ValueError, "has no operand 'c'"):
        derive(T, op, backward, device="cpu", saves="c")
    return found


@program("AC-12", torch=False)
def a_saved_number_is_given_back(T: Any, log: Any) -> Any:
    """A number operand among what is saved is lost or becomes a tensor."""
    op = fresh(T, ("a", "b"), lambda a, b: a * b)

    def backward(ctx, g):
        _, b = ctx.saved_tensors
        log("number", b)
        return {"a": g * b}

    derive(T, op, backward)
    x = leaf(T, 2)
    op(x, 2.5).sum().backward()
    return x.grad


@program("AC-13", "ND-02", "CX-13", tags=["create_graph"], torch=False)
def a_registered_op_is_like_a_function(T: Any, log: Any) -> Any:
    """Name, node hooks, version checks or derivatives of any order differ from a Function's."""
    name = f"cube_{next(_numbers)}"
    op = T.autograd.declare_op(name, ("a",))
    T.autograd.register_kernel(name)(lambda a: a**3)
    derive(T, op, lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, saves="a")
    x = leaf(T, 3)
    y = op(x)
    named = y.grad_fn.name() == "".join(part.capitalize() for part in name.split("_")) + "Backward"
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1,))
    y.sum().backward()
    hooked = x.grad * 1
    (g,) = T.autograd.grad(op(x).sum(), x, create_graph=True)
    (gg,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (ggg,) = T.autograd.grad(gg.sum(), x)
    z = x * 1
    out = op(z)
    z.add_(1)
    with raises(RuntimeError, "modified by an inplace operation"):
        out.sum().backward()
    return [named, hooked, g, gg, ggg, len(y.grad_fn.next_functions)]


@program("AC-13", torch=False)
def a_built_in_op_takes_a_users_entry(T: Any, log: Any) -> Any:
    """An entry for a built-in op and one dtype is not used, or is used for other dtypes as well."""

    def backward(ctx, g):
        log("mine", str(g.dtype))
        return {"a": g * T.cosh(ctx.saved_tensors[0])}

    config = T.autograd.AutogradConfig(op="sinh", device="*", dtype="float16", backward=backward)
    T.autograd.register_autograd(config, replace=True)
    half = T.tensor(values(2).astype("float16"), requires_grad=True)
    found = [T.autograd.grad(T.sinh(x).sum(), x)[0].tolist() for x in (half, leaf(T, 2, dtype="float32"), leaf(T, 2))]
    rule = T.autograd.AutogradConfig(
        op="sinh", device="*", dtype="float16", backward=lambda ctx, g: g * ctx.saved_tensors[0].cosh()
    )
    T.autograd.register_autograd(rule, replace=True)
    return found


@program("AC-14", torch=False)
def an_entry_for_any_device_gets_the_arrays_where_they_are(T: Any, log: Any) -> Any:
    """An entry for any device gets copies, or arrays of another kind than the kernel's."""
    op = fresh(T, kernel=lambda a: a * 2)

    def setup_context(ctx, inputs, output, meta=None):
        ctx.save_for_backward(inputs["a"], output)
        log("kinds", [type(value.detach().numpy()).__name__ for value in (inputs["a"], output)])

    def backward(ctx, g):
        a, out = ctx.saved_tensors
        log("kinds", [str(value.device) for value in (a, out, g)])
        return g * 2 + 0 * a * out

    derive(T, op, backward, setup_context=setup_context)
    x = leaf(T, 2)
    op(x).sum().backward()
    return x.grad


@program("AC-15", tags=["create_graph"], torch=False)
def registrations_reach_the_workers_with_the_nodes_that_need_them(T: Any, log: Any) -> Any:
    """A worker runs another entry than the client chose, or does not know the op."""
    scale = values(3, seed=5)
    op = fresh(T, ("a", "b"), lambda a, b: a * b * scale)

    def backward(ctx, g):
        a, b = ctx.saved_tensors
        factor = T.tensor(scale)
        return {"a": g * b * factor, "b": g * a * factor}

    derive(T, op, backward)
    a, b = leaf(T, 3), leaf(T, 3, seed=1)
    out = op(a, b) * 2
    (ga,) = T.autograd.grad(out.sum(), a, create_graph=True)
    (gb,) = T.autograd.grad((ga * ga).sum(), b)
    derive(T, op, lambda ctx, g: {"a": g * 0, "b": g * 0}, replace=True)
    a.grad = b.grad = None
    op(a, b).sum().backward()
    out.sum().backward()
    return [ga, gb, a.grad, b.grad]


@program("AC-15", torch=False)
def a_function_may_call_a_declared_op(T: Any, log: Any) -> Any:
    """A user's Function that calls an op which the worker does not have fails there, or gets an older kernel."""
    op = fresh(T, kernel=lambda a: a * 3)
    derive(T, op, lambda ctx, g: g * 3)

    class Calls(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return op(x) + 1

        @staticmethod
        def backward(ctx, g):
            return op(g)

    x = leaf(T, 2)
    y = Calls.apply(x)
    y.sum().backward()
    before = [y.tolist(), x.grad.tolist()]
    T.autograd.register_kernel(op.name, replace=True)(lambda a: a * 5)

    class CallsAgain(Calls):
        pass

    return [before, CallsAgain.apply(x)]


@program("AC-15", tags=["infer"], torch=False)
def an_op_with_a_shape_rule_and_parameters_runs_anywhere(T: Any, log: Any) -> Any:
    """A declared op with parameters or a shape rule loses them on the way to a worker."""
    op = fresh(
        T,
        ("*rows",),
        lambda *args: np.stack(args[:-1], args[-1]),
        params=("dim",),
        infer=lambda params, *rows: ((len(rows), *rows[0].shape), rows[0].dtype),
    )
    derive(T, op, lambda ctx, g: {"rows": [g[i] * (i + 1) for i in range(2)]})
    a, b = leaf(T, 3), leaf(T, 3, seed=1)
    y = op(a, b, dim=0)
    (y * y).sum().backward()
    with raises(TypeError, "dim"):
        op(a, b)
    return [y, a.grad, b.grad]


@program("AC-15", torch=False)
def a_function_uses_the_clients_entries_of_built_in_ops(T: Any, log: Any) -> Any:
    """On a worker a Function that calls a built-in op gets raygrad's own entry, not the one that the client gave."""
    T.autograd.register_kernel("asinh", dtype="float16", replace=True)(lambda a: np.arcsinh(a) * 1 + 1)

    class Calls(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.asinh(x)

        @staticmethod
        def backward(ctx, g):
            return T.asinh(g)

    x = T.tensor(values(2).astype("float16"), requires_grad=True)
    y = Calls.apply(x)
    y.sum().backward()
    found = [y.tolist(), x.grad.tolist()]
    T.autograd.register_kernel("asinh", dtype="float16", replace=True)(np.arcsinh)
    return found
