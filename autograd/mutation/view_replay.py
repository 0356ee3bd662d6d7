"""View replay: views made again from their ops, and values of views written through to their parents.

It computes values only. `inplace.py` decides when a view is replayed; which node it then has, `rebase_history.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from .. import ops
from ..dispatch.dispatch import call
from ..storage.stride_geometry import reshapes_to_view, strides_of
from ..storage.view import UNKNOWN
from ..storage.view_geometry import GeometricView, Shape
from ..tensor.tensor import Tensor


def replay_view(tensor: Tensor, parent: Tensor) -> Tensor:
    """Return the same view of the present value of its parent."""
    view: Any = tensor._view
    if type(view.op) is GeometricView:
        return replay_geometry(view.op, parent)
    return parent.alias() if view.op is None else call(view.op, (parent, *view.operands), view.params)


def write_through_view(tensor: Tensor, parent: Tensor, value: Tensor) -> Tensor:
    """Return the value that the parent of a view has once the view has `value`.

    Raises:
        RuntimeError: the kind of view cannot be written through.
    """
    view: Any = tensor._view
    op = view.op
    if op is None:
        return value
    if not view.sure:
        check_sure(tensor)
    if type(op) is GeometricView:
        return write_through_geometry(op, parent, value)
    writer = _WRITERS.get(op.name)
    if writer is None:
        raise AutogradError(
            f"a view made by '{op.name}' cannot be changed in place here: clone it first, or use the out-of-place "
            "operation"
        )
    return writer(parent, value, view.operands, view.params)


def is_sure(tensor: Tensor) -> bool:
    """Tell whether a view shares the memory of its parent for certain; waits for its value, if that tells."""
    view: Any = tensor._view
    if view.sure:
        return True
    if view.op is None or view.op is UNKNOWN:
        return False
    if view.parent.numel() > 1:  # else it lies in one way only
        shares = (
            strides_of(tensor, wait=True)
            if type(view.op) is GeometricView
            else reshapes_to_view(view.parent, tensor.shape, wait=True)
        )
        if shares is None or shares is False:
            return False
    view.sure = True
    return True


def check_sure(tensor: Tensor) -> None:
    """Check that a view shares the memory that is being changed in place; waits for its value, if that tells.

    Raises:
        AutogradError: it may be a copy.
    """
    if is_sure(tensor):
        return
    view: Any = tensor._view
    raise AutogradError(
        f"in a session it is not known whether a result of '{'detach' if view.op is None else view.op.name}' (shape "
        f"{list(tensor.shape)}) shares the memory that is being changed in place: clone it, let it go before the "
        "change, or use the out-of-place operation"
    )


def replay_geometry(placed: GeometricView, parent: Tensor) -> Tensor:
    """Return what the view shows of its parent as it is now."""
    given, order = _counting(placed, parent)
    return ops.placed(given, placed.shape, placed.geometry.strides, placed.geometry.offset, order)


def write_through_geometry(placed: GeometricView, parent: Tensor, value: Tensor) -> Tensor:
    """Return the value that the parent has once the view has `value`.

    Raises:
        AutogradError: the view shows elements more than once.
    """
    given, order = _counting(placed, parent)
    whole = ops.put_placed(given, value, placed.shape, placed.geometry.strides, placed.geometry.offset, order)
    if placed.geometry.parts == 1:
        return whole
    whole = ops.view_as_complex(whole)
    return ops.permute(whole, [int(axis) for axis in np.argsort(placed.geometry.order)])


def _counting(placed: GeometricView, parent: Tensor) -> tuple[Tensor, Shape]:
    """Return what the elements are counted in (of complex numbers their parts), and in which order of axes."""
    order = placed.geometry.order
    if placed.geometry.parts == 1:
        return parent, order
    return ops.view_as_real(ops.permute(parent, order)), tuple(range(len(order) + 1))


# ---- writing through a view, by the op that made it ------------------------------------------------------------------


def _through_reshape(parent: Any, value: Any, rest: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return ops.reshape(value, parent.shape)


def _through_expand(parent: Any, value: Any, rest: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Write through an expansion that repeats nothing."""
    if math.prod(value.shape) != math.prod(parent.shape):
        raise AutogradError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location: "
            "clone() the expanded tensor before changing it in place"
        )
    return _through_reshape(parent, value, rest, params)


_WRITERS: dict[str, Callable[[Any, Any, Sequence[Any], tuple[Any, ...]], Any]] = {
    **dict.fromkeys(("reshape", "view", "squeeze", "unsqueeze"), _through_reshape),
    "expand": _through_expand,
    "transpose": lambda parent, value, rest, params: ops.transpose(value, *params),
    "permute": lambda parent, value, rest, params: ops.permute(value, [int(axis) for axis in np.argsort(params[0])]),
    "getitem": lambda parent, value, rest, params: ops.put_region(parent, value, rest[0]),
    "diagonal": lambda parent, value, rest, params: ops.put_diagonal(parent, value, *params),
    "unfold": lambda parent, value, rest, params: ops.put_windows(parent, value, *params),
    "as_strided": lambda parent, value, rest, params: ops.put_placed(parent, value, *params),
    "view_dtype": lambda parent, value, rest, params: ops.view_dtype(value, parent.dtype),
    "real": lambda parent, value, rest, params: ops.complex(value, parent.imag),
    "imag": lambda parent, value, rest, params: ops.complex(parent.real, value),
}
