"""The functions of `torch.nn.functional` that the catalogue has.

Rules of this file: names alone; the functions stand in `raygrad.autograd.ops`, whose table FUNCTIONAL says which.
"""

from typing import TYPE_CHECKING, Any

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_ops.offered(_ops.FUNCTIONAL, __name__))
__all__ = sorted(_ops.FUNCTIONAL)  # pyright: ignore[reportUnsupportedDunderAll]
