"""The public module `raygrad.special`: the functions of `torch.special`.

A list of names; the functions are in `raygrad.autograd.ops`, whose table SPECIAL lists them. Those that SciPy computes
raise `BackendUnavailable` where it is not installed.
"""

from typing import TYPE_CHECKING

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:
    from raygrad.stubs.special import *  # noqa: F403 (generated; the star makes the names public to type checkers)


globals().update(_ops.offered(_ops.SPECIAL, __name__))
__all__ = sorted(_ops.SPECIAL)  # pyright: ignore[reportUnsupportedDunderAll]
