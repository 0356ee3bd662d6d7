"""Ready-made Functions: `GradFactor`, which scales a gradient.

Each class is an ordinary Function, as a user would write it, for use through `apply`. Not to be mistaken for
`raygrad.nn.functional` and `raygrad.autograd.functional`.
"""

from __future__ import annotations

from typing import Any

from raygrad.autograd import Function
from raygrad.autograd.tensor.tensor import Tensor

__all__ = ["GradFactor"]


class GradFactor(Function):
    """Passes a tensor on as it is, and scales the gradient that comes back: `GradFactor.apply(x, f)`.

    What runs before it learns `f` times as fast: a factor below one protects a pretrained part of a model, zero freezes
    it for this path alone, and a negative one turns the gradient round, for adversarial training.

    Args of `apply`:
        x: a tensor of any shape; the result is a view of it.
        f: the factor: a number, or a tensor that broadcasts to x's shape. It gets no gradient itself.

    Forward mode and vmap see the function that is computed, the identity: tangents are passed on as they are.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, f: Any) -> Tensor:
        """Return a view of all of `x`, and save the factor: a tensor as a saved tensor, a number as an attribute."""
        if isinstance(f, Tensor):
            ctx.save_for_backward(f)
        else:
            ctx.factor = f
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, None]:
        """Return the gradient times the factor, and none for the factor."""
        (grad,) = grad_outputs
        saved = ctx.saved_tensors
        return grad * (saved[0].detach() if saved else ctx.factor), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return a view of x's tangent."""
        return tangents[0].view_as(tangents[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        """Return the batched result and its out_dim; a batched factor is reshaped to broadcast over its examples."""
        x, factor = args
        where, of_factor = in_dims
        if of_factor is None:
            return GradFactor.apply(x, factor), where
        x = x.expand(info.batch_size, *x.shape) if where is None else x.movedim(where, 0)
        factor = factor.movedim(of_factor, 0)
        factor = factor.reshape(factor.shape[0], *[1] * (x.ndim - factor.ndim), *factor.shape[1:])
        return GradFactor.apply(x, factor), 0
