"""FT: function transforms: programs that show each id."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..programs.registry import Log, constant, leaf, program, raises, values


def _cube(T: Any) -> Any:
    """x**3 in the separate style, with backward and jvp; vmap is generated."""

    class Cube(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * 3 * x * x

    return Cube


# ---- FT-01: grad and grad_and_value ----------------------------------------------------------------------------------


@program("FT-01")
def grad_of_a_scalar_function(T: Any, log: Log) -> Any:
    """A gradient, its value or its auxiliary output in another place or order."""
    x, y = constant(T, 3), constant(T, 3, seed=1)
    f = T.func
    return [
        f.grad(lambda x: (x * x).sum())(x),
        f.grad(lambda x, y: (x * y * y).sum(), argnums=1)(x, y),
        f.grad(lambda x, y: (x * y * y).sum(), argnums=-2)(x, y),
        f.grad(lambda x, y: (x * y * y).sum(), argnums=(1, 0))(x, y),
        f.grad_and_value(lambda x: (x * x).sum())(x),
        f.grad(lambda x: ((x * x).sum(), x * 3), has_aux=True)(x),
        f.grad_and_value(lambda x: ((x * x).sum(), {"aux": x * 3}), has_aux=True)(x),
        f.grad(lambda x, k=1.0: (x * k).sum())(x, k=y),
        f.grad(lambda v: (v["a"] * v["b"][0]).sum())({"a": x, "b": [y]}),
    ]


@program("FT-01")
def grad_of_what_is_not_used(T: Any, log: Log) -> Any:
    """None, where zeros are meant."""
    x, y = constant(T, 3), constant(T, 2, seed=1)
    return [
        T.func.grad(lambda x, y: x.sum(), argnums=(0, 1))(x, y),
        T.func.grad(lambda x: T.ones(2).sum())(x),
    ]


@program("FT-01")
def grad_refuses_what_is_no_scalar_tensor(T: Any, log: Log) -> Any:
    """A function that returns something else than one scalar tensor."""
    x = constant(T, 2)
    for returned in (lambda x: x * 2, lambda x: x[:1], lambda x: 3.0, lambda x: (x.sum(), x.sum())):
        with raises(RuntimeError, "to return a"):
            T.func.grad(returned)(x)
    with raises(RuntimeError, "should be a tuple"):
        T.func.grad(lambda x: x.sum(), has_aux=True)(x)
    with raises(RuntimeError, "unsupported type"):
        T.func.grad(lambda x: (x.sum(), "text"), has_aux=True)(x)
    return None


@program("FT-01")
def grad_refuses_wrong_argnums(T: Any, log: Log) -> Any:
    """An argument number that is out of range, there twice, missing or no number."""
    x = constant(T, 2)
    for argnums in (2, -3, (0, 0), (), "a", (0, "a")):
        with raises(RuntimeError, "argnum"):
            T.func.grad(lambda x, y: (x * y).sum(), argnums=argnums)(x, x)
    return None


# ---- FT-02: vjp, jvp, linearize --------------------------------------------------------------------------------------


@program("FT-02")
def vjp_gives_a_pullback_for_any_number_of_calls(T: Any, log: Log) -> Any:
    """Buffers that the first call frees, or a structure that is lost."""
    x, y = constant(T, 3), constant(T, 3, seed=1)
    output, pullback = T.func.vjp(lambda x, y: {"a": x * y, "b": (x * x,)}, x, y)
    value, pull, aux = T.func.vjp(lambda x: (x.sin(), x.cos()), x, has_aux=True)
    return [
        output,
        pullback({"a": y, "b": (x,)}),
        pullback({"a": x, "b": (y,)}),
        value,
        pull(y),
        aux,
        T.func.vjp(lambda x, y: x * 2, x, y)[1](y),
    ]


@program("FT-02")
def vjp_refuses_other_cotangents(T: Any, log: Log) -> Any:
    """Cotangents of another structure or shape than the output."""
    x = constant(T, 2)
    _, pullback = T.func.vjp(lambda x: (x * 2, x), x)
    with raises(RuntimeError, "structure of cotangents"):
        pullback(x)
    _, pullback = T.func.vjp(lambda x: x * 2, x)
    with raises(RuntimeError, "Mismatch in shape"):
        pullback(constant(T, 3))
    with raises(RuntimeError, "only tensors"):
        T.func.vjp(lambda x: 3, x)
    with raises(RuntimeError, "floating-point or complex"):
        T.func.vjp(lambda x: x.long(), x)
    return None


@program("FT-02")
def jvp_gives_value_and_tangent(T: Any, log: Log) -> Any:
    """A tangent of another structure, or none where zeros are meant."""
    x, t = constant(T, 3), constant(T, 3, seed=1)
    f = T.func
    return [
        f.jvp(lambda x: x * x.sin(), (x,), (t,)),
        f.jvp(lambda x, y: {"a": x * y, "b": [x.exp()]}, (x, t), (t, x)),
        f.jvp(lambda x: (x * x, x * 3), (x,), (t,), has_aux=True),
        f.jvp(lambda v: v["a"] * 2, ({"a": x},), ({"a": t},)),
        f.jvp(lambda x: T.ones(2), (x,), (t,)),
        f.jvp(lambda x: (x * 10).long(), (x,), (t,)),
    ]


@program("FT-02")
def jvp_refuses_what_does_not_fit(T: Any, log: Log) -> Any:
    """Primals and tangents of other shapes, structures or types."""
    x = constant(T, 2)
    with raises(RuntimeError, "has a different size"):
        T.func.jvp(lambda x: x * x, (x,), (constant(T, 3),))
    with raises(RuntimeError, "primals to be a tuple"):
        T.func.jvp(lambda x: x * x, x, x)
    with raises(RuntimeError, "same python structure"):
        T.func.jvp(lambda x: x * x, (x,), (x, x))
    with raises(RuntimeError, "at least one Tensor"):
        T.func.jvp(lambda: x, (), ())
    with raises(ValueError, "Expected primal to be floating point"):
        T.func.jvp(lambda x: x * 1.0, (T.ones(2, dtype=T.int64),), (x,))
    with raises(RuntimeError, "only tensors"):
        T.func.jvp(lambda x: 3, (x,), (x,))
    with raises(RuntimeError, "independent of the inputs"):
        T.func.jvp(lambda x: T.ones(2), (x,), (x,), strict=True)
    return None


@program("FT-02")
def linearize_gives_a_function_of_tangents(T: Any, log: Log) -> Any:
    """A derivative at another point, or one that can be used only once."""
    x, t = constant(T, 3), constant(T, 3, seed=1)
    value, derivative = T.func.linearize(lambda x: x.sin() * x, x)
    with raises(RuntimeError, "doesn't match the shape"):
        derivative(constant(T, 2))
    with raises(RuntimeError, "same argspec"):
        derivative(t, t)
    return [value, derivative(t), derivative(x)]


# ---- FT-03: Jacobians ------------------------------------------------------------------------------------------------


@program("FT-03")
def jacobians_of_functions_of_operations(T: Any, log: Log) -> Any:
    """Rows and columns exchanged, or blocks of several inputs and outputs."""
    x, y = constant(T, 3), constant(T, 2, seed=1)
    f = T.func

    def both(x: Any, y: Any) -> Any:
        return x[:2] * y, (x * x).sum()

    out: list[Any] = []
    for jac in (f.jacrev, f.jacfwd):
        out.append(jac(lambda x: x[:2] * x[1:])(x))
        out.append(jac(both, argnums=(0, 1))(x, y))
        out.append(jac(both, argnums=1)(x, y))
        out.append(jac(lambda x: (x * x, x), has_aux=True)(x))
        out.append(jac(lambda v: {"r": v["a"] * 2})({"a": y}))
    out.append(f.jacrev(lambda x: x * x, chunk_size=2)(x))
    out.append(f.hessian(lambda x: (x**3).sum() * x[0])(x))
    out.append(f.hessian(lambda x, y: (x[:2] * y * y).sum(), argnums=(0, 1))(x, y))
    with raises(ValueError, "chunk_size"):
        f.jacrev(lambda x: x, chunk_size=0)(x)
    return out


@program("FT-03", "VM-01")
def jacobians_through_a_function(T: Any, log: Log) -> Any:
    """A transform that goes past a Function's own derivatives."""
    Cube = _cube(T)
    x = constant(T, 3)
    f = T.func
    return [f.jacrev(Cube.apply)(x), f.jacrev(lambda x: Cube.apply(x) * x, chunk_size=2)(x)]


@program("FT-03", "FT-05")
def forward_jacobians_through_a_function(T: Any, log: Log) -> Any:
    """A Jacobian by forward mode, alone or over reverse mode, that misses a Function's jvp."""
    Cube = _cube(T)
    x = constant(T, 3)
    f = T.func
    found = [
        f.jacfwd(Cube.apply)(x),
        f.hessian(lambda x: Cube.apply(x).sum())(x),
        f.jacrev(f.jacfwd(lambda x: Cube.apply(x).sum()))(x),
    ]
    return [one + 0.0 for one in found]  # column by column some zeros are negative, all at once they are not


@program("FT-05", torch=False)
def nested_forward_mode_through_a_function(T: Any, log: Log) -> Any:
    """A second tangent through a jvp that is silently zero."""
    Cube = _cube(T)
    x, t = constant(T, 3), constant(T, 3, seed=1)
    f = T.func
    inner = f.jacfwd(lambda x: Cube.apply(x).sum())
    twice = f.jvp(lambda x: f.jvp(Cube.apply, (x,), (t,))[1], (x,), (t,))
    third = f.jacfwd(f.jacfwd(inner))(x)
    return [f.jacfwd(inner)(x), twice, third, 6 * x * t * t - twice[1]]


@program("FT-05")
def nested_forward_mode_through_operations(T: Any, log: Log) -> Any:
    """Tangents of one level that are taken for those of another."""
    x = constant(T, 3)
    f = T.func

    def confused(x: Any) -> Any:
        return x * f.jvp(lambda y: x + y, (T.ones(3),), (T.ones(3),))[1]

    return [
        f.jacfwd(f.jacfwd(lambda x: (x**3).sum() * x.exp()[0]))(x),
        f.jacfwd(f.jacfwd(f.jacfwd(lambda x: (x**4).sum())))(x),
        f.jvp(confused, (x,), (T.ones(3),)),
    ]


# ---- FT-04: ambient modes --------------------------------------------------------------------------------------------


@program("FT-04")
def transforms_and_gradient_modes(T: Any, log: Log) -> Any:
    """A transform that obeys the caller's no_grad, or does not obey its function's."""
    x = constant(T, 3)

    def part(x: Any) -> Any:
        with T.no_grad():
            fixed = x * 2
        return (fixed * x).sum()

    with T.no_grad():
        outside = T.func.grad(lambda x: (x * x).sum())(x)
        moved = T.func.jvp(part, (x,), (x,))
        enabled = T.is_grad_enabled()
    return [outside, moved, enabled, T.func.grad(part)(x), T.func.vjp(part, x)[1](T.tensor(2.0, dtype=T.float64))]


@program("FT-04")
def a_constant_gradient_inside_a_gradient(T: Any, log: Log) -> Any:
    """An inner gradient under no_grad through which the outer one flows."""
    x = constant(T, 3)
    f = T.func

    def outer(x: Any) -> Any:
        with T.no_grad():
            fixed = f.grad(lambda x: (x**3).sum())(x)
        return (fixed * x).sum() + (f.grad(lambda x: (x**3).sum())(x) * x).sum()

    return [f.grad(outer)(x)]


@program("FT-04")
def transforms_of_what_requires_grad(T: Any, log: Log) -> Any:
    """A graph around a transform that is cut, or one that is kept for nothing."""
    x, w = leaf(T, 3), leaf(T, 3, seed=1)
    c = constant(T, 3)
    f = T.func
    by_argument = f.grad(lambda x: (x**3).sum())(x)
    captured, value = f.grad_and_value(lambda c: (c * c * w).sum())(c)
    pulled = f.vjp(lambda c: c * w, c)[1](x)[0]
    moved = f.jvp(lambda c: c * c * w, (c,), (x,))[1]
    plain = f.grad(lambda c: (c**3).sum())(c)
    flags = [t.requires_grad for t in (by_argument, captured, value, pulled, moved, plain)]
    (by_argument.sum() + captured.sum() + value + pulled.sum() + moved.sum()).backward()
    return [flags, x.grad, w.grad]


# ---- nested transforms -----------------------------------------------------------------------------------------------


@program("FT-02", "FT-03")
def transforms_of_transforms(T: Any, log: Log) -> Any:
    """Gradients of gradients that stop at the inner transform."""
    x, t = constant(T, 3), constant(T, 3, seed=1)
    f = T.func

    def g(x: Any) -> Any:
        return (x**3).sum() * x[0]

    def pulled(x: Any) -> Any:
        return f.vjp(lambda x: x**3, x)[1](t)[0].sum()

    return [
        f.grad(lambda x: (f.grad(g)(x) * t).sum())(x),
        f.grad(lambda x: f.grad(lambda x: (f.grad(g)(x) * t).sum())(x).sum())(x),
        f.jvp(f.grad(g), (x,), (t,)),
        f.grad(lambda x: f.jvp(g, (x,), (t,))[1])(x),
        f.grad(pulled)(x),
        f.grad(lambda x: T.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum())(x),
        f.jvp(lambda c: f.vjp(lambda x: x**3, x)[1](c)[0], (t,), (x,)),
    ]


@program("FT-02")
def transforms_of_functions_in_the_middle(T: Any, log: Log) -> Any:
    """Reverse mode through a Function inside two transforms."""
    Cube = _cube(T)
    x, t = constant(T, 3), constant(T, 3, seed=1)
    f = T.func

    def g(x: Any) -> Any:
        return (Cube.apply(x) * x).sum()

    return [f.grad(g)(x), f.grad(lambda x: (f.grad(g)(x) * t).sum())(x), f.vjp(Cube.apply, x)[1](t)]


# ---- FT-06 to FT-10 --------------------------------------------------------------------------------------------------


@program("FT-06", torch=False)
def once_differentiable_in_nested_transforms(T: Any, log: Log) -> Any:
    """A second derivative that is silently zero."""

    class Once(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = constant(T, 3)
    first = T.func.grad(lambda x: Once.apply(x).sum())
    with raises(RuntimeError, "once_differentiable"):
        T.func.grad(lambda x: first(x).sum())(x)
    return [first(x)]


@program("FT-07")
def what_a_transformed_function_may_not_do(T: Any, log: Log) -> Any:
    """A change of the tape by hand inside a transform."""
    x = constant(T, 3)
    f = T.func

    def backward(x: Any) -> Any:
        x.sum().backward()
        return x.sum()

    def requires(x: Any) -> Any:
        T.ones(2).requires_grad_()
        return x.sum()

    def retains(x: Any) -> Any:
        (x * 2).retain_grad()
        return x.sum()

    for forbidden, word in ((backward, "backward()"), (requires, "requires_grad_()"), (retains, "retain_grad()")):
        for transform in (f.grad(forbidden), lambda x, g=forbidden: f.vjp(g, x)):
            with raises(RuntimeError, word):
                transform(x)
    with raises(RuntimeError, "a leaf Variable that requires grad"):
        f.grad(lambda x: x.mul_(2).sum())(x)
    return [f.grad(lambda x: (x * x).sum())(x)]


@program("FT-07")
def saved_tensor_hooks_and_transforms(T: Any, log: Log) -> Any:
    """Saved-tensor hooks that a transform of reverse mode runs into, or that forward mode is refused."""
    x = constant(T, 3)
    f = T.func

    def hooked(x: Any) -> Any:
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return (x * x).sum()

    for transform in (f.grad(hooked), f.jacrev(hooked), f.hessian(hooked), lambda x: f.vjp(hooked, x)):
        with raises(RuntimeError, "saved tensor hooks"):
            transform(x)
    return [f.jvp(hooked, (x,), (x,)), hooked(x), f.grad(lambda x: (x * x).sum())(x)]


@program("FT-07")
def hooks_in_a_transformed_function(T: Any, log: Log) -> Any:
    """A tensor hook that a transform does not call."""
    x = constant(T, 3)

    def hooked(x: Any) -> Any:
        z = x * 2
        z.register_hook(lambda g: g * 10)
        return z.sum()

    return [T.func.grad(hooked)(x)]


@program("FT-08")
def a_function_under_grad_is_as_outside(T: Any, log: Log) -> Any:
    """Flags, undefined gradients or an input returned as it is that change under a transform."""

    class Two(T.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            y = ctx.saved_tensors[1]
            log("undefined", [g is None, h is None])
            return g * y, None

    x, y = constant(T, 3), constant(T, 3, seed=1)

    def f(x: Any) -> Any:
        out, _ = Two.apply(x, y)
        return out.sum(), T.tensor([float(out.grad_fn.name() == "TwoGeneratedBackward")], dtype=T.float64)

    return T.func.grad(f, has_aux=True)(x)


@program("FT-10")
def a_value_that_outlives_its_transform(T: Any, log: Log) -> Any:
    """A tensor kept from inside a transform that is of no use afterwards."""
    x = constant(T, 3)
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return x.sum()

    T.func.grad(f)(x)
    T.func.jvp(f, (x,), (x,))
    return [(kept[0] + 1).detach(), kept[1] + 1]


@program("FT-09", torch=False)
def a_captured_tensor_under_grad(T: Any, log: Log) -> Any:
    """A tensor that a function of operations captures and whose gradient goes elsewhere."""
    x, w = constant(T, 3), constant(T, 3, seed=1)

    def outer(w: Any) -> Any:
        return (T.func.grad(lambda x: (x * x * w).sum())(x) * np.arange(1.0, 4.0).sum()).sum()

    return [T.func.grad(outer)(w), values(1)[0]]
