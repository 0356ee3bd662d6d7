"""Shapes, indices, and putting tensors together."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np

from ..check import functional
from ..inputs import (
    complex_,
    family,
    ints,
    mask,
    real,
)

# ---- shape -----------------------------------------------------------------------------------------------------------

add = family("shape")
add("reshape", lambda T, x: (x.reshape(3, 2), x.reshape((-1,)), x.reshape(1, -1, 2), T.reshape(x, (6,))), real(2, 3))
add("reshape-transposed", lambda T, x: x.T.reshape(-1), real(2, 3))
add("reshape-scalar", lambda T, x: (x.reshape(1, 1), x.reshape(1).reshape(())), real())
add("view", lambda T, x: (x.view(6), x.view(-1, 2), x.view_as(x.T.contiguous())), real(2, 3))
add("flatten", lambda T, x: (x.flatten(), x.flatten(1), T.flatten(x, 0, 1), x.ravel()), real(2, 3, 2))
add("unflatten", lambda T, x: x.unflatten(1, (2, -1)), real(2, 4))
add("squeeze", lambda T, x: (x.squeeze(), x.squeeze(0), x.squeeze(1), T.squeeze(x, (0, 2))), real(1, 3, 1))
add("unsqueeze", lambda T, x: (x.unsqueeze(0), x.unsqueeze(-1), T.unsqueeze(x, 1)), real(3))
add("transpose", lambda T, x: (x.transpose(0, 2), T.transpose(x, -1, 1), x.mT, x.swapaxes(0, 1)), real(2, 3, 2))
add("t", lambda T, x, y: (x.t(), y.t(), x.T, T.t(x)), real(2, 3), real(3))
add("permute", lambda T, x: (x.permute(2, 0, 1), T.permute(x, (-1, 0, 1))), real(2, 3, 2))
add("H", lambda T, x: x.H, complex_(2, 3))
add("movedim", lambda T, x: (x.movedim(0, 2), T.movedim(x, (0, 1), (2, 0)), T.moveaxis(x, -1, 0)), real(2, 3, 2))
add("expand", lambda T, x: (x.expand(4, 2, 3), x.expand(2, -1, -1), x.broadcast_to((2, 2, 3))), real(1, 3))
add("expand-scalar", lambda T, x: (x.expand(2, 3), x.expand(0)), real())
add("expand-transposed", lambda T, x: x.T.expand(2, 3, 2), real(2, 3))
add("expand_as", lambda T, x, y: x.expand_as(y), real(3), real(2, 3))
add("clone", lambda T, x: (x.clone(), T.clone(x.T)), real(2, 3))
add("contiguous", lambda T, x: (x.contiguous(), x.T.contiguous()), real(2, 3))
add("flip", lambda T, x: (x.flip(0), T.flip(x, (0, 1)), x.flip([-1])), real(2, 3))
add("roll", lambda T, x: (x.roll(1, 0), T.roll(x, (1, -2), (0, 1)), T.roll(x, 2)), real(2, 3))

add = family("joining")
add("cat", lambda T, a, b: (T.cat((a, b)), T.cat([b, a, a], dim=0), T.concat((a, a), -1)), real(2, 3), real(1, 3))
add("cat-empty-vector", lambda T, a, b: T.cat((a, b)), np.zeros(0), real(2, 3))
add("cat-promotes", lambda T, a, b: T.cat((a, b)), ints(3, 2), real(3))
add("stack", lambda T, a, b: (T.stack((a, b)), T.stack([a, b], dim=1), T.stack((a, b), -1)), real(2, 3), real(2, 3))
add("stack-scalars", lambda T, a, b: T.stack((a, b)), real(), real())
add("vstack", lambda T, a, b: (T.vstack((a, b)), T.hstack((a, a)), T.hstack((b, b))), real(3), real(2, 3))
add("split", lambda T, x: (*x.split(2), *T.split(x, [1, 4]), *x.T.split(2, 1)), real(5, 2))
add("chunk", lambda T, x: (*x.chunk(2), *T.chunk(x, 4, 0)), real(5, 2))
add("unbind", lambda T, x: (*x.unbind(), *T.unbind(x, 1)), real(2, 3))
add("iteration", lambda T, x: [row * i for i, row in enumerate(x)], real(3, 2))
add("narrow", lambda T, x: (x.narrow(0, 1, 2), T.narrow(x, 1, 0, 1), x.select(0, 1), T.select(x, 1, -1)), real(3, 2))
add("repeat", lambda T, x: (x.repeat(2, 3), x.repeat(2, 1, 2), T.tile(x, (2,)), x.tile(2, 1, 1)), real(2, 3))
add("repeat_interleave", lambda T, x: (x.repeat_interleave(2), T.repeat_interleave(x, 3, 1)), real(2, 3))

# ---- indices ---------------------------------------------------------------------------------------------------------

add = family("indexing")
BASIC = "0 -1 1: :2 ::2 1:1 5: -2: ... None 0,1 :,0 ...,0 0,... None,:,None 1,None,: :,1:3 ::2,::2 0,:,None ...,None,0"
for _text in BASIC.split():
    add(f"[{_text}]", eval(f"lambda T, x: x[{_text}]"), real(3, 4))
add("scalar[()]", lambda T, x: (x[()], x[...], x[None]), real())
add("[list]", lambda T, x: (x[[0, 2, 2]], x[[0, 1], [1, 1]]), real(3, 4))
add("[tensor]", lambda T, x, i: (x[i], x[:, i], x[i, 1:], x[..., i], x[i, None]), real(3, 3), np.array([0, 2, 2, -1]))
add(
    "[tensors]",
    lambda T, x, i, j: (x[i, j], x[i, :, j], x[:, i, j], x[i[:, None], j]),
    real(3, 3, 3),
    ints(3, 2),
    ints(3, 2),
)
add("[int beside tensor]", lambda T, x, i: (x[0, :, i], x[i, 0], x[:, 1, i], x[i, None, 0]), real(3, 3, 3), ints(3, 2))
add("[0-d tensor]", lambda T, x, i: (x[i], x[:, i], x[i, i]), real(3, 3), np.array(1))
add("[mask]", lambda T, x, m: x[m], real(3, 4), mask(3, 4))
add("[row mask]", lambda T, x, m: (x[m], x[m, 1], x[m, :2], x[1:][m[1:]]), real(3, 4), mask(3))
add("[column mask]", lambda T, x, m: (x[:, m], x[0, m]), real(3, 4), mask(4))
add("[array]", lambda T, x: (x[np.array([0, 1])], x[np.array([True, False, True])]), real(3, 4))
add("[empty]", lambda T, x: (x[[]], x[T.tensor([], dtype=T.int64)]), real(3, 4))
add("nonzero", lambda T, m: (T.nonzero(m), *T.nonzero(m, as_tuple=True)), mask(2, 3), order=0)


def _put(index: Any) -> Any:
    def run(T: Any, x: Any, value: Any) -> Any:
        y = x * 2
        y[index] = value
        return y * y

    return run


for _label, _index, _value in [
    ("int", 0, (4,)), ("slice", slice(1, 3), (2, 4)), ("broadcast", slice(None), ()), ("column", (..., 1), (3,)),
    ("leading ones", 0, (1, 4)), ("list", [0, 2], (2, 4)), ("pairs", ([0, 1], [1, 2]), (2,)),
    ("mixed", (1, [0, 2]), (2,)), ("mask", np.array([True, False, True]), (2, 4)),
    ("mask of one", np.array([True, False, True]), ()),
    ("row and mask", (1, np.array([True, False, True, False])), ()),
]:  # fmt: skip
    add(f"put {_label}", _put(_index), real(3, 4), real(*_value))


def _fill(T: Any, x: Any) -> Any:
    y = x * 2
    y[0] = 3.0
    y[:, 1] = 4
    y[y > 100] = 0.5
    y[1:, [0]] = -1.0
    return y * y


add("put numbers", _fill, real(3, 4))

add = family("gathering")
add("gather-squared", lambda T, x, i: x.gather(1, i) ** 2, real(2, 3), ints(3, 2, 2))
add("gather", lambda T, x, i: (x.gather(1, i), T.gather(x, 0, i)), real(3, 3), ints(3, 3, 3))
add("gather-smaller", lambda T, x, i: (x.gather(0, i), x.gather(-1, i)), real(3, 4), ints(3, 2, 3))
add("gather-scalar", lambda T, x, i: T.gather(x, 0, i), real(), np.array(0))
add("index_select", lambda T, x, i: (x.index_select(0, i), T.index_select(x, 1, i)), real(3, 3), np.array([0, 2, 2]))
add(
    "index_add",
    lambda T, x, i, s: x.index_add(0, i, s) + T.index_add(x, 0, i, s, alpha=2),
    real(3, 2),
    np.array([0, 2, 0]),
    real(3, 2),
)
add(
    "take_along_dim",
    lambda T, x, i: (T.take_along_dim(x, i, 1), x.take_along_dim(i[:1], 0), T.take_along_dim(x, i)),
    real(3, 3),
    ints(3, 3, 3),
)
add("scatter", lambda T, x, i, s: x.scatter(1, i, s), real(3, 4), np.array([[0, 2], [3, 1], [1, 0]]), real(3, 2))
add(
    "scatter-part",
    lambda T, x, i, s: x.scatter(0, i, s),
    real(3, 4),
    np.array([[0, 2], [2, 1]]),
    real(3, 3),
    oracle=False,
)
add("scatter-number", lambda T, x, i: T.scatter(x, 0, i, 2.5), real(3, 4), np.array([[0, 2, 1, 1]]))
add("scatter_add", lambda T, x, i, s: x.scatter_add(0, i, s), real(3, 4), ints(3, 2, 4), real(2, 4))

add = family("diagonals")
add("diagonal", lambda T, x: (x.diagonal(), x.diagonal(1), T.diagonal(x, -1, 1, 0)), real(3, 4))
add(
    "put_diagonal",
    lambda T, x, s: (T.diagonal_scatter(x, s, -1, 2, 0), x.diagonal_scatter(s * 2, 1, 2, 0)),
    real(3, 2, 3),
    real(2, 2),
)
add("diagonal-batch", lambda T, x: (x.diagonal(0, 1, 2), x.diagonal(1, 0, -1)), real(2, 3, 3))
add("diag", lambda T, x, y: (T.diag(x), x.diag(1), T.diag(y), T.diag(y, 1), y.diag(-2)), real(3, 4), real(3))
add("tril", lambda T, x: (x.tril(), T.tril(x, 1), T.tril(x, -1)), real(2, 3, 4))
add("triu", lambda T, x: (x.triu(), T.triu(x, 1), T.triu(x, -1)), real(2, 3, 4))
add = family("padding")
add("pad", lambda T, x: (functional(T).pad(x, (1, 2)), functional(T).pad(x, (0, 1, 2, 0), value=1.5)), real(2, 3))
add("pad-negative", lambda T, x: functional(T).pad(x, (-1, 1)), real(2, 3))

for _mode in ("reflect", "replicate", "circular"):
    add(
        f"pad-{_mode}",
        lambda T, x, m=_mode: (functional(T).pad(x, (1, 2), mode=m), functional(T).pad(x[None], (0, 1, 2, 1), mode=m)),
        real(2, 3, 4),
    )
