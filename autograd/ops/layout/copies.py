"""Copies of views: `permute_copy`, `unsqueeze_copy` and their kind give what the view shows, in memory of its own.

Each applies the function of the view, and copies its result. Those of several views are in `joining`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raygrad.errors import AutogradError

from ...registry.codegen import compile_wrapper
from ...registry.define_op import axis_of
from ..elementwise import complex_numbers
from . import diagonals, joining, shape, striding, windows

PUBLIC = """
    alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy slice_copy
    squeeze_copy t_copy transpose_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
""".split()


def _copied(view: Callable[..., Any], name: str) -> Any:
    """Return the function that copies what a function of views shows."""
    made = compile_wrapper(view, "    return _copy(_function({plain}))\n", {"_copy": shape.clone}, __name__)
    made.__name__ = made.__qualname__ = name
    made.__module__ = __name__
    made.__doc__ = f"Return a copy of what `{name.removesuffix('_copy')}` shows; see there."
    return made


def alias_copy(input: Any) -> Any:
    """Return a copy of `input`."""
    return shape.clone(input)


def detach_copy(input: Any) -> Any:
    """Return a copy of `input` without its history."""
    return shape.clone(input.detach())


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Return a copy of the elements from `start` to `end` of dimension `dim`, `step` apart.

    Raises:
        RuntimeError: a step that is not positive.
    """
    if step <= 0:
        raise AutogradError(f"slice step must be positive, got {step}")
    axis = axis_of(dim, input.ndim)
    return shape.clone(input[(*[slice(None)] * axis, slice(start, end, step))])


as_strided_copy = _copied(striding.as_strided, "as_strided_copy")
diagonal_copy = _copied(diagonals.diagonal, "diagonal_copy")
expand_copy = _copied(shape.expand, "expand_copy")
narrow_copy = _copied(joining.narrow, "narrow_copy")
permute_copy = _copied(shape.permute, "permute_copy")
select_copy = _copied(joining.select, "select_copy")
squeeze_copy = _copied(shape.squeeze, "squeeze_copy")
t_copy = _copied(shape.t, "t_copy")
transpose_copy = _copied(shape.transpose, "transpose_copy")
unfold_copy = _copied(windows.unfold, "unfold_copy")
unsqueeze_copy = _copied(shape.unsqueeze, "unsqueeze_copy")
view_as_complex_copy = _copied(complex_numbers.view_as_complex, "view_as_complex_copy")
view_as_real_copy = _copied(complex_numbers.view_as_real, "view_as_real_copy")
view_copy = _copied(shape.view, "view_copy")
