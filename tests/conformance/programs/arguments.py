"""Arguments of Functions that are no tensors, keywords and defaults, and what ctx keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_mul, np_scale
from .registry import Log, constant, leaf, program


@program("FN-07", "BW-04", tags={"numpy"})
def arguments_of_many_kinds(T: Any, log: Log) -> Any:
    """Numbers, strings, None, tuples and dicts that arrive as something else."""

    class Apply(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, power, kind, nothing, axes, options):
            assert nothing is None
            assert isinstance(axes, tuple)
            ctx.power, ctx.kind, ctx.axes, ctx.options = power, kind, axes, options
            ctx.save_for_backward(x)
            return T.from_numpy(np.transpose(x.numpy() ** power, axes) * options["factor"])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("arguments", [ctx.power, ctx.kind, ctx.axes, ctx.options["factor"]])
            back = np.transpose(g.numpy(), np.argsort(ctx.axes)) * ctx.options["factor"]
            return T.from_numpy(back * ctx.power * x.numpy() ** (ctx.power - 1)), None, None, None, None, None

    x = leaf(T, 2, 3)
    y = Apply.apply(x, 3, "power", None, (1, 0), {"factor": 0.5})
    y.sum().backward()
    return [y, x.grad]


@program("FN-07", "H9", tags={"numpy"})
def a_number_that_changes(T: Any, log: Log) -> Any:
    """A cached plan or Function that keeps the first number it saw."""
    Scale = np_scale(T)
    x = leaf(T, 3)
    results = []
    for factor in (1.0, 0.5, 0.25, 2, True):
        x.grad = None
        y = Scale.apply(x * factor, factor)
        y.sum().backward()
        results.append([y, x.grad])
    return results


@program("FN-07", "H17", tags={"numpy"})
def array_as_an_argument(T: Any, log: Log) -> Any:
    """A NumPy array that is an argument, changed after the call that took it."""

    class Weighted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, weights):
            ctx.weights = weights
            return T.from_numpy(x.numpy() * weights)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * ctx.weights), None

    x = leaf(T, 4)
    y = Weighted.apply(x, np.arange(4.0))
    z = Weighted.apply(y, np.full(4, 3.0))
    z.sum().backward()
    return [y, z, x.grad]


@program("FN-07", tags={"numpy"})
def callable_as_an_argument(T: Any, log: Log) -> Any:
    """Functions given to a Function: NumPy's own and a closure."""

    class Map(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, function, derivative):
            ctx.save_for_backward(x)
            ctx.derivative = derivative
            return T.from_numpy(function(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return T.from_numpy(g.numpy() * ctx.derivative(x.numpy())), None, None

    frequency = 2.0
    x = leaf(T, 4)
    y = Map.apply(x, np.sin, np.cos)
    z = Map.apply(y, lambda a: np.sin(frequency * a), lambda a: frequency * np.cos(frequency * a))
    z.sum().backward()
    return [z, x.grad]


@program("FN-05", tags={"numpy"})
def keyword_arguments(T: Any, log: Log) -> Any:
    """Tensors given by name, in another order: gradients in the wrong slot."""
    Mul, Scale = np_mul(T), np_scale(T)
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = Scale.apply(factor=4.0, x=Mul.apply(y=y, x=x))
    z.sum().backward()
    return [z, x.grad, y.grad]


@program("FN-04", "BW-02", tags={"numpy"})
def defaults_in_separate_style(T: Any, log: Log) -> Any:
    """An omitted argument that `inputs` lacks, or whose slot backward must not fill."""

    class Affine(T.autograd.Function):
        @staticmethod
        def forward(x, factor=3.0, shift=1.0):
            return T.from_numpy(x.numpy() * factor + shift)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.factor, ctx.shift = inputs

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * ctx.factor), None, None

    x = leaf(T, 3)
    y = Affine.apply(Affine.apply(x), 2.0)
    y.sum().backward()
    return [y, x.grad]


@program("FN-04", "BW-02", tags={"numpy"})
def defaults_in_combined_style(T: Any, log: Log) -> Any:
    """An omitted argument for which backward is asked a gradient."""

    class Power(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, power=2):
            ctx.power = power
            ctx.given = len(ctx.needs_input_grad)
            ctx.save_for_backward(x)
            return T.from_numpy(x.numpy() ** power)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            grad = T.from_numpy(g.numpy() * ctx.power * x.numpy() ** (ctx.power - 1))
            return (grad,) if ctx.given == 1 else (grad, None)

    x = leaf(T, 3)
    y = Power.apply(x) + Power.apply(x, 3)
    y.sum().backward()
    return [y, x.grad]


@program("FN-06", tags={"numpy"})
def tensors_inside_a_list(T: Any, log: Log) -> Any:
    """Tensors inside containers that are tracked, or that do not arrive."""

    class Total(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, others):
            ctx.flags = ctx.needs_input_grad
            return T.from_numpy(x.numpy() + sum(o.numpy() for o in others))

        @staticmethod
        def backward(ctx, g):
            log("needs grad", ctx.flags)
            return T.from_numpy(g.numpy() * 1), None

    x, other = leaf(T, 3), leaf(T, 3, seed=1)
    y = Total.apply(x, [other, constant(T, 3)])
    y.sum().backward()
    return [y, x.grad, other.grad]


@program("FN-09", "FN-12", tags={"numpy"})
def nothing_requires_grad(T: Any, log: Log) -> Any:
    """A Function without a gradient to compute that is recorded, or whose result is wrapped anew."""
    Mul = np_mul(T)

    class Make(T.autograd.Function):
        @staticmethod
        def forward(ctx, n):
            return T.from_numpy(np.arange(n) / 4)

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("must not run")

    x = leaf(T, 3)
    made = Make.apply(3)
    y = Mul.apply(made, constant(T, 3))
    with T.no_grad():
        z = Mul.apply(x, y)
    flags = [made.requires_grad, y.requires_grad, z.requires_grad]
    (x * z).sum().backward()
    return [made, y, z, flags, x.grad]


@program("CX-18", "BW-05", tags={"numpy"})
def needs_input_grad(T: Any, log: Log) -> Any:
    """Flags of inputs that differ between forward and backward, or a dropped gradient that is used."""

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, factor, c):
            ctx.forward_flags = ctx.needs_input_grad
            ctx.save_for_backward(a, b, c)
            return T.from_numpy(a.numpy() * b.numpy() * c.numpy() * factor)

        @staticmethod
        def backward(ctx, g):
            a, b, c = (t.numpy() for t in ctx.saved_tensors)
            log("flags", [ctx.forward_flags, ctx.needs_input_grad])
            need = ctx.needs_input_grad
            return (
                T.from_numpy(g.numpy() * b * c * 2.0) if need[0] else None,
                T.from_numpy(g.numpy() * a * c * 2.0),
                None,
                T.from_numpy(g.numpy() * a * b * 2.0) if need[3] else None,
            )

    a, b, c = leaf(T, 3), constant(T, 3), leaf(T, 3, seed=2)
    y = Product.apply(a, b, 2.0, c)
    y.sum().backward()
    return [y, a.grad, b.grad, c.grad]


@program("CX-02", "DR-05", tags={"numpy"})
def plain_attributes_of_ctx(T: Any, log: Log) -> Any:
    """Attributes of ctx of any kind that are not there in backward."""

    class Smooth(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            n = len(x.numpy())
            ctx.matrix = np.eye(n) / 2 + np.eye(n, k=1) / 4 + np.eye(n, k=-1) / 4
            ctx.settings = {"n": n, "names": ["a", "b"], "dtype": x.numpy().dtype}
            ctx.twice = lambda a: 2 * a
            return T.from_numpy(ctx.matrix @ x.numpy())

        @staticmethod
        def backward(ctx, g):
            log("settings", [ctx.settings["n"], ctx.settings["names"], str(ctx.settings["dtype"])])
            return T.from_numpy(ctx.twice(ctx.matrix.T @ g.numpy()))

    x = leaf(T, 6)
    y = Smooth.apply(Smooth.apply(x))
    y.sum().backward()
    return [y, x.grad]


@program("CX-05", "CX-06", "CX-31", tags={"numpy"})
def saved_slots(T: Any, log: Log) -> Any:
    """None, the same tensor twice, inputs, outputs and intermediates among the saved: order or kind lost."""

    class Gaussian(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, width):
            square = T.from_numpy(x.numpy() ** 2)
            y = T.from_numpy(np.exp(-square.numpy() / width.numpy()))
            ctx.save_for_backward(y, None)
            ctx.save_for_backward(x, None, y, square, width, x)
            return y

        @staticmethod
        def backward(ctx, g):
            x, nothing, y, square, width, again = ctx.saved_tensors
            log("saved", [nothing, x is again, len(ctx.saved_tensors)])
            common = g.numpy() * y.numpy() / width.numpy()
            return T.from_numpy(-2 * x.numpy() * common), T.from_numpy(common * square.numpy() / width.numpy())

    x = leaf(T, 4)
    width = T.tensor([1.0, 2.0, 3.0, 4.0], dtype=T.float64, requires_grad=True)
    y = Gaussian.apply(x, width)
    y.sum().backward()
    return [y, x.grad, width.grad]


@program("FN-18", tags={"numpy"})
def kinds_of_method(T: Any, log: Log) -> Any:
    """Class methods, and `vjp` in the place of `backward`."""

    class Shift(T.autograd.Function):
        by = 2.0

        @classmethod
        def forward(cls, ctx, x):
            return T.from_numpy(x.numpy() * cls.by)

        @classmethod
        def backward(cls, ctx, g):
            return T.from_numpy(g.numpy() * cls.by)

    class Twice(Shift):
        by = 4.0

    class Halve(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def vjp(ctx, g):
            return g / 2

    x = leaf(T, 3)
    y = Halve.apply(Twice.apply(Shift.apply(x)))
    y.sum().backward()
    return [y, x.grad]


@program("BW-07", "BW-08", tags={"numpy"})
def gradients_of_another_shape_and_dtype(T: Any, log: Log) -> Any:
    """A gradient that is not summed down to its input's shape, or not converted to its dtype."""

    class AddRow(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, row):
            return T.from_numpy(x.numpy() + row.numpy())

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy().astype(np.float32)), T.from_numpy(g.numpy() * 1)

    x, row = leaf(T, 4, 3), leaf(T, 3, seed=1)
    y = AddRow.apply(x, row)
    (y * y).sum().backward()
    return [y, x.grad, row.grad]


@program("BW-16", "EN-07", tags={"numpy"})
def one_gradient_for_two_inputs(T: Any, log: Log) -> Any:
    """`.grad` of two leaves that share memory."""

    class Add(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return T.from_numpy(x.numpy() + y.numpy())

        @staticmethod
        def backward(ctx, g):
            same = T.from_numpy(g.numpy() * 3)
            return same, same

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    Add.apply(x, y).sum().backward()
    (x * 10).sum().backward()
    return [x.grad, y.grad]
