"""The public module `raygrad.nn.functional`: the functions of `torch.nn.functional`.

A list of names; the functions are in `raygrad.autograd.ops`, whose table FUNCTIONAL lists them.
"""

from typing import TYPE_CHECKING

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:
    from raygrad.stubs.nn_functional import *  # noqa: F403 (generated; the star makes the names public to type checkers)


globals().update(_ops.offered(_ops.FUNCTIONAL, __name__))
__all__ = sorted(_ops.FUNCTIONAL)  # pyright: ignore[reportUnsupportedDunderAll]
