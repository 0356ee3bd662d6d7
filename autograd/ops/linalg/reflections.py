"""Householder reflections: householder_product, ormqr and geqrf, the parts that a QR factorisation is made of.

A product is applied reflection by reflection, with ops alone, so that it can be differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core.array_layout import as_dense
from ...dispatch.dispatch import call
from ...registry.define_op import contiguous, define, like_operand, space_of
from ...registry.dtype_constraints import alike, floats_alone, takes
from ..elementwise.complex_numbers import conj
from ..layout.axis_order import zeros_as
from ..layout.diagonals import tril
from ..layout.shape import unsqueeze
from .factorizations import takes_matrices
from .matmul import conjugate_transpose, matmul

PUBLIC = "geqrf ormqr".split()

_linalg: Any = np.linalg


class Reflections(NamedTuple):
    """What `geqrf` returns."""

    a: Any
    tau: Any


def _raw(a: Any) -> Any:
    reflections, scales = _linalg.qr(as_dense(a), "raw")
    return contiguous(np.swapaxes(reflections, -1, -2)), contiguous(scales)


def _geqrf_backward(ctx: Any, grads: Any) -> Any:
    raise AutogradError("geqrf has no derivative; linalg.qr has one")


_GEQRF = define(
    "geqrf",
    ("a",),
    _raw,
    lambda params, a: [(a.shape, a.dtype), ((*a.shape[:-2], min(a.shape[-2:])), a.dtype)],
    _geqrf_backward,
    saves="none",
    outputs=2,
    host_only=True,
)


@takes_matrices
def geqrf(input: Any) -> Any:
    """Return the reflections and their scales of the QR factorisation, as LAPACK has them; see `householder_product`
    and `ormqr`. There is no derivative."""
    return Reflections(*call(_GEQRF, (input,)))


def _check(name: str, A: Any, tau: Any) -> None:
    if A.ndim < 2 or tau.ndim != A.ndim - 1 or tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise ShapeError(
            f"{name}: expected matrices and as many vectors of scales, got shapes {list(A.shape)} and {list(tau.shape)}"
        )
    if A.shape[-1] < tau.shape[-1]:
        raise ShapeError(f"{name}: there are {tau.shape[-1]} scales for {A.shape[-1]} reflections")
    if A.dtype != tau.dtype:
        raise AutogradError(f"{name}: expected one dtype, got {A.dtype} and {tau.dtype}")


def _applied(A: Any, tau: Any, other: Any, adjoint: bool) -> Any:
    """Return the product of the reflections, or its adjoint, times `other`."""
    rows, count = A.shape[-2], tau.shape[-1]
    ones: Any = space_of(A).eye(rows, count, dtype=A.dtype)
    vectors = tril(A[..., :count], -1) + like_operand(ones, A)
    for i in range(count) if adjoint else reversed(range(count)):
        vector = vectors[..., i : i + 1]
        scale = unsqueeze(unsqueeze(conj(tau[..., i]) if adjoint else tau[..., i], -1), -1)
        other = other - scale * matmul(vector, matmul(conjugate_transpose(vector), other))
    return other


@takes(floats_alone)
def householder_product(A: Any, tau: Any) -> Any:
    """Return the first columns of the product of reflections `I - tau[i] * v[i] @ v[i].mH`, whose vectors are below
    the diagonal of `A`.

    Raises:
        ShapeError: more columns than rows, or shapes that do not fit.
    """
    _check("linalg.householder_product", A, tau)
    rows, columns = A.shape[-2:]
    if columns > rows:
        raise ShapeError(
            f"linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1], got "
            f"{rows} and {columns}"
        )
    ones: Any = space_of(A).eye(rows, columns, dtype=A.dtype)
    return _applied(A, tau, zeros_as(A) + like_operand(ones, A), False)


@alike(0, 2)
@takes(floats_alone)
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Return the product of the reflections of `geqrf` (its adjoint for `transpose`) times `other`, or `other` times
    it unless `left`.

    Raises:
        ShapeError: shapes that do not fit.
    """
    _check("ormqr", input, tau)
    if other.ndim < 2 or other.shape[-2 if left else -1] != input.shape[-2]:
        raise ShapeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got {list(other.shape)} and "
            f"{list(input.shape)}"
        )
    if left:
        return _applied(input, tau, other, transpose)
    return conjugate_transpose(_applied(input, tau, conjugate_transpose(other), not transpose))
