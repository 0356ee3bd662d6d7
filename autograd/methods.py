"""Operators and methods of tensors that are ops; `tensor.Tensor` inherits them."""

from __future__ import annotations

from typing import Any


class TensorMethods:
    """Operators and methods of tensors; each calls the op of the same name."""

    def __add__(self, other: Any) -> Any:
        from . import ops

        return ops.add(self, other)

    def __mul__(self, other: Any) -> Any:
        from . import ops

        return ops.mul(self, other)

    __rmul__ = __mul__
