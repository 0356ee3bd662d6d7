"""The public module `raygrad.linalg`: the functions of `torch.linalg`.

A list of names; the functions are in `raygrad.autograd.ops`, whose table LINALG lists them.
"""

from typing import TYPE_CHECKING

from raygrad.autograd import ops as _ops
from raygrad.errors import LinAlgError as LinAlgError

if TYPE_CHECKING:
    from raygrad.stubs.linalg import *  # noqa: F403 (generated; the star makes the names public to type checkers)


globals().update(_ops.offered(_ops.LINALG, __name__))
__all__ = sorted(_ops.LINALG)  # pyright: ignore[reportUnsupportedDunderAll]
