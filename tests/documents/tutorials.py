"""Programs of the kind that PyTorch's tutorials on extending autograd teach, in this project's words.

Each takes the library under the name `torch`, and returns numbers: training with a Legendre polynomial, a Function that
saves its result, double backward with what forward returns beside its result, and layers that NumPy or SciPy compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], list[Any]]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def a_cubic_legendre_polynomial_fits_a_sine(torch: Any) -> list[Any]:
    class Cubic(torch.autograd.Function):
        """(5 x**3 - 3 x) / 2"""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return 0.5 * (5 * x**3 - 3 * x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 1.5 * (5 * x**2 - 1)

    x = torch.linspace(-math.pi, math.pi, 200, dtype=torch.float64)
    y = torch.sin(x)
    weights = [torch.full((), start, dtype=torch.float64, requires_grad=True) for start in (0.0, -1.0, 0.0, 0.3)]
    losses: list[float] = []
    for step in range(40):
        a, b, c, d = weights
        loss = (a + b * Cubic.apply(c + d * x) - y).square().sum()
        if step % 10 == 9:
            losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for weight in weights:
                weight -= 5e-6 * weight.grad
                weight.grad = None
    return [*losses, *[weight.item() for weight in weights]]


@program
def an_exponential_saves_its_result(torch: Any) -> list[Any]:
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (result,) = ctx.saved_tensors
            return grad * result

    x = torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(Exponential.apply(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)[0]
    checked = torch.autograd.gradcheck(Exponential.apply, x) and torch.autograd.gradgradcheck(Exponential.apply, x)
    return [first.tolist(), second.tolist(), checked]


@program
def a_line_is_a_function_of_optional_inputs(torch: Any) -> list[Any]:
    class Line(torch.autograd.Function):
        @staticmethod
        def forward(inputs: Any, weight: Any, bias: Any) -> Any:
            result = inputs.mm(weight.t())
            return result if bias is None else result + bias.unsqueeze(0).expand_as(result)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            inputs, weight, bias = ctx.saved_tensors
            wanted = ctx.needs_input_grad
            return (
                grad.mm(weight) if wanted[0] else None,
                grad.t().mm(inputs) if wanted[1] else None,
                grad.sum(0) if bias is not None and wanted[2] else None,
            )

    numbers = torch.arange(12, dtype=torch.float64).reshape(3, 4) / 10
    inputs, weight = numbers.clone().requires_grad_(), (numbers[:2] + 1).clone().requires_grad_()
    bias = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    Line.apply(inputs, weight, None).sum().backward()
    without = [inputs.grad.tolist(), weight.grad.tolist()]
    for one in (inputs, weight):
        one.grad = None
    (Line.apply(inputs, weight, bias) ** 2).sum().backward()
    checked = torch.autograd.gradcheck(Line.apply, (inputs, weight, bias))
    return [without, inputs.grad.tolist(), weight.grad.tolist(), bias.grad.tolist(), checked]


@program
def a_cube_returns_what_backward_needs(torch: Any) -> list[Any]:
    class Cube(torch.autograd.Function):
        """The derivative of an intermediate is right where forward returns it, too."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx: Any, grad: Any, grad_of_slope: Any) -> Any:
            x, slope = ctx.saved_tensors
            return grad * slope + grad_of_slope * 6 * x

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Cube.apply(x), (in_dims[0], in_dims[0])

    def cube(x: Any) -> Any:
        return Cube.apply(x)[0]

    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    checked = torch.autograd.gradcheck(cube, x) and torch.autograd.gradgradcheck(cube, x)
    derivatives: list[Any] = []
    value = cube(x).sum()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        derivatives.append(gradient.tolist())
        value = gradient.sum()
    return [checked, *derivatives, torch.func.vmap(torch.func.grad(cube))(x.detach()).tolist()]


@program
def a_hyperbolic_sine_saves_intermediates_that_it_returns(torch: Any) -> list[Any]:
    class Sinh(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            up, down = torch.exp(x), torch.exp(-x)
            ctx.save_for_backward(up, down)
            return (up - down) / 2, up, down

        @staticmethod
        def backward(ctx: Any, grad: Any, grad_up: Any, grad_down: Any) -> Any:
            up, down = ctx.saved_tensors
            return grad * (up + down) / 2 + grad_up * up - grad_down * down

    def sinh(x: Any) -> Any:
        return Sinh.apply(x)[0]

    x = torch.tensor([0.3, 1.1, -0.7], dtype=torch.float64, requires_grad=True)
    checked = torch.autograd.gradcheck(sinh, x) and torch.autograd.gradgradcheck(sinh, x)
    (first,) = torch.autograd.grad(sinh(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return [checked, first.tolist(), second.tolist()]


@program
def a_spectrum_by_numpy_without_parameters(torch: Any) -> list[Any]:
    class Spectrum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = tuple(x.shape)
            return torch.from_numpy(np.abs(np.fft.rfft2(x.detach().numpy())))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.from_numpy(np.fft.irfft2(grad.numpy(), s=ctx.shape, axes=(0, 1)))

    x = (torch.arange(16, dtype=torch.float64).reshape(4, 4) / 7).sin().requires_grad_()
    result = Spectrum.apply(x)
    result.backward(torch.ones(*result.shape, dtype=torch.float64))
    return [result.tolist(), x.grad.tolist()]


@program
def a_correlation_by_loops_of_numpy_with_parameters(torch: Any) -> list[Any]:
    def slid(image: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows, columns = image.shape[0] - kernel.shape[0] + 1, image.shape[1] - kernel.shape[1] + 1
        parts = [
            (image[i : i + kernel.shape[0], j : j + kernel.shape[1]] * kernel).sum()
            for i in range(rows)
            for j in range(columns)
        ]
        return np.array(parts).reshape(rows, columns)

    class Correlation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, image: Any, kernel: Any, bias: Any) -> Any:
            ctx.save_for_backward(image, kernel, bias)
            return torch.from_numpy(slid(image.detach().numpy(), kernel.detach().numpy()) + bias.detach().numpy())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            image, kernel, _ = ctx.saved_tensors
            grads, filters = grad.numpy(), kernel.detach().numpy()
            padded = np.pad(grads, [(n - 1, n - 1) for n in filters.shape])
            of_image = slid(padded, filters[::-1, ::-1])
            of_kernel = slid(image.detach().numpy(), grads)
            return torch.from_numpy(of_image), torch.from_numpy(of_kernel), torch.from_numpy(grads.sum(keepdims=True))

    image = (torch.arange(20, dtype=torch.float64).reshape(4, 5) / 3).cos().requires_grad_()
    kernel = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64, requires_grad=True)
    bias = torch.tensor([[0.25]], dtype=torch.float64, requires_grad=True)
    result = Correlation.apply(image, kernel, bias)
    (result * result).sum().backward()
    checked = torch.autograd.gradcheck(Correlation.apply, (image, kernel, bias))
    return [result.tolist(), image.grad.tolist(), kernel.grad.tolist(), bias.grad.tolist(), checked]
