"""Deprecated names of PyTorch: `InplaceFunction`, `variable` (LG-04, LG-13).

Nothing in raygrad needs them, and nothing new is added.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .function import Function


class InplaceFunction(Function):
    """A Function whose instances remember whether they were asked to work in place; `apply` is Function's own.

    Attributes:
        inplace: what an instance was made with. The context has no such flag: pass it to `apply` as an argument.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def variable(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: it was replaced by `raygrad.tensor`.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("raygrad.autograd.variable(...) is deprecated, use raygrad.tensor(...) instead")
