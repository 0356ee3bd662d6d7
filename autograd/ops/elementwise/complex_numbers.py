"""Complex numbers: real and imaginary part, conjugate, `complex`, `view_as_real`, `view_as_complex`.

Other elementwise ops take complex operands themselves; angle and polar are in `pointwise`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.dispatch import call_few
from ...dispatch.operand_errors import check_operand
from ...registry.define_op import broadcast_shape, conj as conjugated, define, infer_same, real_of, space_of
from ..layout.axis_order import zeros_as
from ..layout.joining import stack

PUBLIC = "complex conj imag is_complex real resolve_conj resolve_neg view_as_complex view_as_real".split()


def infer_real(params: tuple[Any, ...], a: Any) -> Any:
    """The shape rule of an op that gives a real number for each complex one."""
    return a.shape, real_of(a.dtype)


# ---- complex numbers -------------------------------------------------------------------------------------------------


def _imag_infer(params: tuple[Any, ...], a: Any) -> Any:
    if a.dtype.kind != "c":
        raise AutogradError("imag is not implemented for tensors with non-complex dtypes.")
    return a.shape, real_of(a.dtype)


def _imag_backward(ctx: Any, g: Any) -> Any:
    """The gradient by its parts: a product with the imaginary unit would make NaN of infinity."""
    return complex(zeros_as(g), g)


_REAL = define("real", ("a",), lambda a: a.real, infer_real, lambda ctx, g: g, saves="none", view=True)
_IMAG = define("imag", ("a",), lambda a: a.imag, _imag_infer, _imag_backward, saves="none", view=True)
_CONJ = define("conj", ("a",), np.conjugate, infer_same, lambda ctx, g: conjugated(g), saves="none")


def real(input: Any) -> Any:
    """Return the real part; real tensors unchanged."""
    return call_few(_REAL, input) if input.dtype.kind == "c" else input


def imag(input: Any) -> Any:
    """Return the imaginary part of a complex tensor."""
    if input.dtype.kind != "c":
        _imag_infer((), input)
    return call_few(_IMAG, input)


def conj(input: Any) -> Any:
    """Return the complex conjugate; real tensors unchanged."""
    return call_few(_CONJ, input) if input.dtype.kind == "c" else input


# ---- from real numbers, and back -------------------------------------------------------------------------------------


def _complex(a: Any, b: Any) -> Any:
    out = space_of(a).empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.result_type(a.dtype, np.complex64))
    out.real = a
    out.imag = b
    return out


def _complex_infer(params: tuple[Any, ...], a: Any, b: Any) -> Any:
    if a.dtype != b.dtype or a.dtype.kind != "f":
        raise AutogradError(
            f"Expected both real and imaginary to be of one floating dtype, got {a.dtype} and {b.dtype}"
        )
    return broadcast_shape("complex", (a.shape, b.shape)), np.dtype(f"c{2 * a.dtype.itemsize}")


_COMPLEX = define("complex", ("a", "b"), _complex, _complex_infer, lambda ctx, g: (real(g), imag(g)), saves="none")


def complex(real: Any, imag: Any) -> Any:
    """Return complex numbers of given real and imaginary parts."""
    _complex_infer((), real, imag)
    return call_few(_COMPLEX, real, imag)


def view_as_real(input: Any) -> Any:
    """Return the real and imaginary parts along a new last dimension. Unlike PyTorch's it is a copy."""
    if input.dtype.kind != "c":
        raise AutogradError("view_as_real is only supported for complex tensors")
    return stack([real(input), imag(input)], -1)


def view_as_complex(input: Any) -> Any:
    """Return complex numbers of the pairs along the last dimension. Unlike PyTorch's it is a copy."""
    if input.dtype.kind != "f" or not input.shape or input.shape[-1] != 2:
        raise AutogradError(
            f"view_as_complex: Tensor must be floating with a last dimension of size 2, got shape "
            f"{list(input.shape)} of {input.dtype}"
        )
    return complex(input[..., 0], input[..., 1])


def resolve_conj(input: Any) -> Any:
    """Return `input`: conjugation is never lazy here."""
    check_operand("resolve_conj", input)
    return input


def resolve_neg(input: Any) -> Any:
    """Return `input`: negation is never lazy here."""
    check_operand("resolve_neg", input)
    return input


def is_complex(input: Any) -> bool:
    """Tell whether the dtype is complex."""
    return input.dtype.kind == "c"
