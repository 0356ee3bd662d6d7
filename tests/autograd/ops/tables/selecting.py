"""Selecting, rearranging, and products made of others."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np

from ..inputs import complex_, family, ints, mask, one, positive, real, two

add = family("selecting")
add("masked_select", lambda T, x, m: (T.masked_select(x, m), x.masked_select(m[0])), real(2, 3), mask(2, 3))
add(
    "masked_scatter",
    lambda T, x, m, s: (T.masked_scatter(x, m, s), x.masked_scatter(m[0], s)),
    real(2, 3),
    mask(2, 3),
    real(7),
)
_PLACES = np.array([2, 0])
add("index_copy", lambda T, x, i, s: (x.index_copy(0, i, s), T.index_copy(x, 0, i, s)), real(3, 2), _PLACES, real(2, 2))
add(
    "index_fill",
    lambda T, x, i, v: (x.index_fill(0, i, 1.5), T.index_fill(x, 1, i[1:], v)),
    real(3, 2),
    _PLACES,
    real(),
)
add(
    "index_put",
    lambda T, x, i, v: (
        x.index_put((i, i), v),
        T.index_put(x, (i, i), v, accumulate=True),
        x.index_put((None, i), v[0]),
    ),
    real(3, 3),
    np.array([2, 0, 1]),
    real(3),
    oracle=False,
)
add(
    "index_put-again",
    lambda T, x, i, v: T.index_put(x, (i, i), v, accumulate=True),
    real(3, 3),
    np.array([2, 0, 0]),
    real(3),
)
add(
    "index_put-apart",
    lambda T, x, i, v: (x.index_put((i,), v), T.index_put(x, (i, i), v[:, 0], True)),
    real(3, 3),
    _PLACES,
    real(2, 3),
)
add("take", lambda T, x, i: (T.take(x, i), x.take(i[0])), real(2, 3), ints(6, 2, 2))
add(
    "put",
    lambda T, x, i, s: (T.put(x, i, s), x.put(i, s, accumulate=True)),
    real(2, 3),
    np.array([[5, 1], [0, 3]]),
    real(2, 2),
)
add("take_along_axis", lambda T, x, i: T.take_along_axis(x, i, 1), real(3, 3), ints(3, 3, 2), oracle=False)
add(
    "select_scatter",
    lambda T, x, s: (T.select_scatter(x, s, 0, 1), x.select_scatter(s[:2], 1, -1)),
    real(2, 3),
    real(3),
)
add(
    "slice_scatter",
    lambda T, x, s: (T.slice_scatter(x, s, 0, 1), x.slice_scatter(s.T, 1, 1, 2)),
    real(2, 2),
    real(1, 2),
)
add("slice_scatter-step", lambda T, x, s: T.slice_scatter(x, s, 1, 0, 5, 2), real(2, 5), real(2, 3))
add("diagonal_scatter", lambda T, x, s: (T.diagonal_scatter(x, s), x.diagonal_scatter(s[:2], 1)), real(3, 3), real(3))
for _kind in ("sum", "mean", "prod", "amax", "amin"):
    for _own in (True, False):
        add(
            f"scatter_reduce-{_kind}-{_own}",
            lambda T, x, i, s, k=_kind, o=_own: (
                T.scatter_reduce(x, 1, i, s, k, include_self=o),
                x.scatter_reduce(0, i, s, k, include_self=o),
            ),
            real(3, 4) + 2.1,
            ints(3, 2, 3),
            positive(2, 3) + 0.013,
        )
add(
    "scatter_reduce-zero",
    lambda T, x, i, s: T.scatter_reduce(x, 0, i, s, "prod"),
    np.array([2.0, 0.0, 3.0, 1.0]),
    np.array([0, 0, 1, 2, 2, 2]),
    np.array([0.0, 3.0, 2.0, 0.0, 0.0, 5.0]),
    order=1,
)
add(
    "scatter_reduce-ties",
    lambda T, x, i, s: T.scatter_reduce(x, 0, i, s, "amax"),
    np.array([2.0, 1.0]),
    np.array([0, 0, 1, 1]),
    np.array([2.0, 2.0, 3.0, 3.0]),
    order=0,
)

add = family("windows")
add("unfold", lambda T, x: (x.unfold(0, 2, 1), x.unfold(1, 3, 2), x.unfold(-1, 1, 3)), real(3, 5))
add("unfold-scalar", lambda T, x: x.unfold(0, 1, 1), real())

add("unfold-complex", lambda T, x: x.unfold(-1, 2, 2) * x.unfold(-1, 2, 1)[:, :2], complex_(2, 4))
add("unfold-transposed", lambda T, x: x.T.unfold(0, 2, 3) * 2, real(2, 6))


def _written_windows(T: Any, x: Any, y: Any) -> Any:
    board = x * y[0, 0]
    board.unfold(1, 2, 3).mul_(y)
    return board * board


add("unfold-written", _written_windows, real(2, 5), real(2, 2))

add = family("striding")
add(
    "as_strided",
    lambda T, x: (x.as_strided((2, 2, 2), (3, 1, 1)) ** 2, T.as_strided(x, (3,), (2,), 1)),
    real(2, 3),
    layouts=False,
)
add("as_strided-to-one", lambda T, x: x.as_strided((), (), 2), real(3), layouts=False)
add("as_strided-to-none", lambda T, x: x.as_strided((0, 2), (1, 1)), real(3), order=1, layouts=False)
add(
    "as_strided-complex",
    lambda T, x: x.as_strided((2, 3), (0, 2)) * x.as_strided((2, 3), (1, 2), 0),
    complex_(6),
    layouts=False,
)


def _written_strides(T: Any, x: Any, y: Any) -> Any:
    board = x * y[0]
    board.as_strided((2,), (3,), 1).mul_(y)
    return board * board


add("as_strided-written", _written_strides, real(2, 4), real(2), layouts=False)
add(
    "view_dtype",
    lambda T, x: (x.view(T.float64), x.view(T.int32), x.view(dtype=T.uint8)),
    np.array([[1.0, -2.0], [0.5, 0.0]], np.float32),
    order=0,
    float32=False,
    layouts=False,
)

add = family("rearranging")
add("flips", lambda T, x: (T.fliplr(x), x.flipud()), real(2, 3))
add("rot90", lambda T, x: (*[T.rot90(x, k) for k in range(-1, 4)], x.rot90(1, (2, 0))), real(2, 3, 2))
add("adjoint", lambda T, x: T.adjoint(x), complex_(2, 3))
add("ravel", one("ravel"), real(2, 3))
add(
    "atleast",
    lambda T, a, b, c: (*T.atleast_1d(a, b), T.atleast_2d(a), *T.atleast_2d([b, c]), *T.atleast_3d(a, b, c)),
    real(),
    real(2),
    real(2, 3),
)
add(
    "stacks",
    lambda T, a, b: (
        T.dstack((a, b)),
        T.column_stack((a, b, a)),
        T.row_stack((a, b)),
        T.dstack((b[:, None], b[:, None])),
    ),
    real(3),
    real(3),
)
add("block_diag", lambda T, a, b, c: T.block_diag(a, b, c), real(2, 3), real(2), real())
add(
    "tensor_split",
    lambda T, x: (*T.tensor_split(x, 3), *x.tensor_split((1, 3), 1), *T.tensor_split(x, (-1, 9))),
    real(5, 4),
)
add("splits", lambda T, x: (*T.hsplit(x, 2), *x.vsplit((1,)), *T.dsplit(x, 3), *T.hsplit(x[0, 0], 3)), real(2, 2, 3))
add(
    "meshgrid",
    lambda T, a, b, c: (*T.meshgrid(a, b, indexing="ij"), *T.meshgrid((a, b, c), indexing="xy")),
    real(2),
    real(3),
    real(),
)
add("cartesian_prod", lambda T, a, b: (T.cartesian_prod(a, b), T.cartesian_prod(a)), real(2), real(3))
add(
    "combinations",
    lambda T, x: (T.combinations(x), T.combinations(x, 2, with_replacement=True), T.combinations(x, 3)),
    real(4),
)
add("kron", lambda T, a, b: (T.kron(a, b), b.kron(a), T.kron(a, a[0])), real(2, 2), real(2, 1, 3))
add("vander", lambda T, x: (T.vander(x), T.vander(x, 2, increasing=True)), real(3), oracle=False)
add("diag_embed", lambda T, x: (T.diag_embed(x), x.diag_embed(1), T.diag_embed(x, -2, 0, 2)), real(2, 3))
add("diagflat", lambda T, x: (T.diagflat(x), x.diagflat(-1)), real(2, 2))
add("triangles", lambda T, x: (T.tril_indices(3, 2, 0), T.triu_indices(2, 3, 1), x), ints(2, 1), order=0)

add = family("tensordot")
add("vdot", two("vdot"), real(3), real(3))
add("vdot-complex", two("vdot"), complex_(3), complex_(3))
add("vecdot", lambda T, a, b: T.linalg.vecdot(a, b) + T.linalg.vecdot(a, b, dim=0), complex_(2, 2), complex_(2, 2))
add("inner", lambda T, a, b: (T.inner(a, b), T.inner(a[0, 0], b), T.inner(b, b)), real(2, 3), real(3))
add(
    "tensordot",
    lambda T, a, b: (T.tensordot(a, b), T.tensordot(a, b, ([0, 1], [2, 0]))),
    real(2, 3, 2),
    real(3, 2, 2),
)
add(
    "tensordot-lists",
    lambda T, a, b: (T.tensordot(a, b, 1), T.tensordot(a, b, ([1, 2], [1, 0])), T.tensordot(a, b, 0)),
    real(2, 3, 2),
    real(2, 3),
)
add("chain_matmul", lambda T, a, b, c: T.chain_matmul(a, b, c), real(2, 3), real(3, 4), real(4, 2), oracle=False)
add("cross", lambda T, a, b: T.cross(a, b, dim=1) + T.cross(a, b[:1], dim=-1), real(2, 3), real(2, 3))
add("cdist", lambda T, a, b: (T.cdist(a, b), T.cdist(a, b, p=3.0), T.cdist(a, b, p=1.0)), real(3, 2), real(2, 2) + 0.1)
add("cdist-same", lambda T, a: T.cdist(a, a), np.array([[0.5, 1.0], [2.0, 0.3], [1.5, 1.2]]), order=0)
add("addmv", lambda T, a, m, v: T.addmv(a, m, v) + a.addmv(m, v, beta=0.5, alpha=2), real(2), real(2, 3), real(3))
add("addr", lambda T, a, x, y: T.addr(a, x, y) + a.addr(x, y, beta=0.5, alpha=2), real(2, 3), real(2), real(3))
add(
    "baddbmm",
    lambda T, a, x, y: T.baddbmm(a, x, y, beta=0.5) + a.baddbmm(x, y),
    real(2, 2),
    real(2, 2, 3),
    real(2, 3, 2),
)
add("addbmm", lambda T, a, x, y: T.addbmm(a, x, y, alpha=2) + a.addbmm(x, y), real(2, 2), real(2, 2, 3), real(2, 3, 2))

add = family("rearranging")
add("sum_to_size", lambda T, x: (x.sum_to_size(2, 1), x.sum_to_size((3,)), x.moveaxis(0, 1)), real(2, 3))
add("split_with_sizes", lambda T, x: (*T.split_with_sizes(x, [1, 2]), *x.split_with_sizes((2, 2), 1)), real(3, 4))
