"""A program with typical mistakes: type checkers report the lines marked `# error`, and no others.

`test_installed` has pyright and mypy check it against an installed wheel; it is never run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad import Tensor
from raygrad.autograd import Function
from raygrad.autograd.function import once_differentiable


class Scale(Function):
    """The combined style."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float = 2.0) -> Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


class Product(Function):
    """The separate style, with everything that a Function may have."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x: Tensor, y: Tensor, *, negate: bool = False) -> tuple[Tensor, Tensor]:
        return x * y, -x if negate else x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return first * y + second, first * x

    @staticmethod
    def jvp(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, y

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor) -> tuple[Any, Any]:
        return Product.apply(x, y), (0, 0)


class Once(Function):
    """A decorated backward."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Tensor:
        return rg.stack(list(tensors)).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, grad


x, y = rg.ones(3, requires_grad=True), rg.tensor([1.0, 2.0, 3.0])

# ---- apply: forward's parameters without ctx ----

scaled: Tensor = Scale.apply(x)
scaled = Scale.apply(x, 3.0)
scaled = Scale.apply(x, factor=3.0)
Scale.apply()  # error
Scale.apply(x, 3.0, 4.0)  # error
Scale.apply(x, "3")  # error
Scale.apply(x, scale=3.0)  # error
Scale.apply([1.0, 2.0])  # error
number: int = Scale.apply(x)  # error

first, second = Product.apply(x, y)
first, second = Product.apply(x, y, negate=True)
Product.apply(x)  # error
Product.apply(x, y, True)  # error
Product.apply(x, y, negated=True)  # error
one, two, three = Product.apply(x, y)  # error

total: Tensor = Once.apply(x, y, x)
Once.apply(x, 2.0)  # error

# ---- functions of the package ----

z: Tensor = rg.sin(x) + rg.cos(y) * 2
z = rg.sum(x, dim=0) + rg.sum(x, axis=0) + rg.mean(x, 0, keepdim=True)
z = rg.clamp(rg.add(x, 1.0, alpha=2), min=0.0)
z = rg.linalg.det(rg.outer(x, y)) + rg.fft.fft(x).real.sum()
z = rg.nn.functional.softmax(x, dim=0) + rg.special.expit(y)
z = rg.cat([x, y], dim=0).reshape(2, 3).t()
z = rg.matmul(np.ones((3, 3)), x)
parts: tuple[Tensor, ...] = rg.split(x, 1)
count: int = rg.numel(x)
same: bool = rg.allclose(x, y)
rg.sinus(x)  # error
rg.sin(x, y)  # error
rg.sin()  # error
rg.sin("x")  # error
rg.sum(x, dims=0)  # error
rg.sum(x, dim="0")  # error
rg.add(x, y, beta=2)  # error
rg.allclose(x, y, tol=1e-3)  # error
rg.linalg.determinant(x)  # error
rg.fft.fft3(x)  # error
rg.special.sigmoid_(x)  # error
rg.nn.functional.soft_max(x, dim=0)  # error
text: str = rg.sin(x)  # error
rg.zeros(3, type=rg.float64)  # error
rg.manual_sead(0)  # error
rg.float46  # error  # noqa: B018

# ---- methods of tensors ----

z = x.sum(axis=0) + x.mean(axis=(0,), keepdims=True) + x.softmax(axis=0) + x.sort(axis=0).values + x.amax(axis=0)
elements: int = x.shape.numel() + x.shape[1:].numel() + x.nbytes + x.storage_offset()
shape: rg.Size = x.size()
z = rg.conv1d(x, y) + rg.layer_norm(x, (3,)) + rg.nn.functional.relu_(z) + x.prelu(y)
x.sum(axes=0)  # error
x.sum(axis="0")  # error
x.mean(keepdimz=True)  # error
x.sort(reverse=True)  # error
x.prelu()  # error
x.shape.numels()  # error
rg.conv1d(x)  # error
rg.layer_norm(x, (3,), epsilon=1e-5)  # error
rg.nn.functional.gumbel_softmax(x, temperature=2.0)  # error

x.sin().sum().backward()
z = x.mul_(y).clone().detach().requires_grad_()
x.sinus()  # error
x.sum(dims=0)  # error
x.backwards()  # error
x.reshape()
x.shapes  # error  # noqa: B018
x.grad.numpy()  # error
if x.grad is not None:
    x.grad.numpy()

# ---- transforms, modes, sessions ----

gradient = rg.func.grad(lambda t: (t * t).sum())(x)
rg.func.gard(lambda t: t.sum())  # error
rg.func.jacrev(rg.sin, argnum=0)  # error
with rg.no_grad():
    pass
with rg.Session("local", workers=2, seed=1) as session:
    session.run()
rg.Session(worker=2)  # error
rg.autograd.grad(z.sum(), x, create_grph=True)  # error
rg.optim.SGD([x], lr=0.1).step()
rg.optim.SDG([x], lr=0.1)  # error
