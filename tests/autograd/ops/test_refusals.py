"""What functions of the catalogue refuse: the builtin exception that PyTorch raises there, naming what does not fit."""

# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

# fmt: off
REFUSALS: dict[str, tuple[type[BaseException], str, Callable[[Any], Any]]] = {
    # complex numbers
    "sign of complex": (RuntimeError, "complex", lambda T: T.sign(T.tensor([1j]))),
    "complex of two dtypes": (RuntimeError, "", lambda T: T.complex(T.ones(1), T.ones(1, dtype=T.float64))),
    "view_as_real of real": (RuntimeError, "complex", lambda T: T.view_as_real(T.ones(2))),
    "view_as_complex of three": (RuntimeError, "size 2", lambda T: T.view_as_complex(T.ones(3))),
    # special functions and running ones
    "polygamma below 0": (RuntimeError, "negative n", lambda T: T.polygamma(-1, T.ones(1))),
    "diff of a number": (RuntimeError, "one-dimensional", lambda T: T.diff(T.tensor(1.0))),
    "diff below 0": (RuntimeError, "non-negative", lambda T: T.diff(T.ones(3), -1)),
    "positive of bools": (RuntimeError, "bool", lambda T: T.positive(T.tensor([True]))),
    # order
    "kthvalue out of range": (RuntimeError, "out of range", lambda T: T.kthvalue(T.ones(3), 4)),
    "quantile beyond 1": (RuntimeError, r"\[0, 1\]", lambda T: T.quantile(T.ones(3), 1.5)),
    "quantile of a matrix": (RuntimeError, "1D", lambda T: T.quantile(T.ones(3), T.ones(1, 1))),
    "unknown interpolation": (RuntimeError, "interpolation", lambda T: T.quantile(T.ones(3), 0.5, interpolation="x")),
    "searchsorted of rows": (RuntimeError, "boundaries", lambda T: T.searchsorted(T.ones(2, 3), T.ones(3, 1))),
    "cov of three dimensions": (RuntimeError, "two or fewer", lambda T: T.cov(T.ones(1, 1, 1))),
    # selecting
    "index_fill by a vector": (
        RuntimeError, "0-dimensional", lambda T: T.ones(2).index_fill(0, T.tensor([0]), T.ones(2)),
    ),
    "scatter_reduce by another name": (
        RuntimeError, "reduce argument", lambda T: T.ones(2).scatter_reduce(0, T.tensor([0]), T.ones(1), "nope"),
    ),
    "masked_select of other shapes": (
        RuntimeError, "size of tensor",
        lambda T: T.masked_select(T.ones(2), T.ones(3) > 0),
    ),
    # rearranging
    "fliplr of a vector": (RuntimeError, ">= 2-d", lambda T: T.fliplr(T.ones(2))),
    "rot90 in one dimension": (RuntimeError, "rotation dims", lambda T: T.rot90(T.ones(2, 2), 1, (0, 0))),
    "chunk of a number": (RuntimeError, "at least a 1-dim", lambda T: T.chunk(T.tensor(1.0), 1)),
    "split of a number": (RuntimeError, "at least a 1-dim", lambda T: T.split(T.tensor(1.0), 1, 2)),
    "diagonal_scatter of another extent": (
        RuntimeError, "expected", lambda T: T.diagonal_scatter(T.ones(2, 3), T.ones(3)),
    ),
    "hsplit unevenly": (RuntimeError, "not divisible", lambda T: T.hsplit(T.ones(2, 3), 2)),
    "tensor_split into none": (RuntimeError, "larger than 0", lambda T: T.tensor_split(T.ones(3), 0)),
    "meshgrid of matrices": (RuntimeError, "0D or 1D", lambda T: T.meshgrid(T.ones(2, 2), indexing="ij")),
    "meshgrid of another indexing": (RuntimeError, "indexing", lambda T: T.meshgrid(T.ones(2), indexing="ab")),
    "diag_embed of one dimension": (RuntimeError, "identical", lambda T: T.diag_embed(T.ones(2), 0, 0, 0)),
    "unfold by no step": (RuntimeError, "step is 0", lambda T: T.ones(3).unfold(0, 1, 0)),
    "unfold beyond the end": (RuntimeError, "size", lambda T: T.ones(3).unfold(0, 4, 1)),
    # products
    "vdot of matrices": (RuntimeError, "1D tensors", lambda T: T.vdot(T.ones(2, 2), T.ones(2, 2))),
    "inner of other extents": (RuntimeError, "last dimension must match", lambda T: T.inner(T.ones(2), T.ones(3))),
    "tensordot of other extents": (
        RuntimeError, "contracted dimensions need to match", lambda T: T.tensordot(T.ones(2, 3), T.ones(2, 3), 1),
    ),
    "tensordot over two lists": (
        RuntimeError, "same length", lambda T: T.tensordot(T.ones(2, 3), T.ones(2, 3), ([0, 1], [0])),
    ),
    "cross of two": (RuntimeError, "", lambda T: T.linalg.cross(T.ones(2), T.ones(2))),
    "cdist of other columns": (RuntimeError, "columns", lambda T: T.cdist(T.ones(2, 3), T.ones(2, 2))),
    # matrices
    "cholesky of what is not definite": (RuntimeError, "linalg.cholesky", lambda T: T.linalg.cholesky(-T.eye(2))),
    "inverse of a singular matrix": (RuntimeError, "ingular", lambda T: T.linalg.inv(T.zeros(2, 2))),
    "solve with a singular matrix": (RuntimeError, "ingular", lambda T: T.linalg.solve(T.zeros(2, 2), T.ones(2))),
    "inverse of a rectangle": (RuntimeError, "square", lambda T: T.linalg.inv(T.ones(2, 3))),
    "inverse of a vector": (RuntimeError, "at least 2 dimensions", lambda T: T.linalg.inv(T.ones(2))),
    "qr of a vector": (RuntimeError, "at least 2 dimensions", lambda T: T.linalg.qr(T.ones(2))),
    "solve of other rows": (RuntimeError, "ncompatible", lambda T: T.linalg.solve(T.eye(2), T.ones(3, 1))),
    "solve_triangular of other rows": (
        RuntimeError, "ncompatible", lambda T: T.linalg.solve_triangular(T.eye(2), T.ones(3, 1), upper=True),
    ),
    "multi_dot of one": (RuntimeError, "at least 2 tensors", lambda T: T.linalg.multi_dot([T.ones(2, 2)])),
    "matrix_norm of another order": (RuntimeError, "not supported", lambda T: T.linalg.matrix_norm(T.eye(2), 3)),
    "matrix_norm of one dimension": (RuntimeError, "different", lambda T: T.linalg.matrix_norm(T.eye(2), dim=(0, 0))),
    # Fourier transforms
    "fft of none": (RuntimeError, "Invalid number of data points", lambda T: T.fft.fft(T.ones(2), 0)),
    "fft of another norm": (RuntimeError, "Invalid normalization mode", lambda T: T.fft.fft(T.ones(2), norm="no")),
    "fft twice": (RuntimeError, "unique", lambda T: T.fft.fftn(T.ones(2, 2), dim=(0, 0))),
    "fftn of two lists": (RuntimeError, "same length", lambda T: T.fft.fftn(T.ones(2, 2), (2,), (0, 1))),
    "rfft of complex": (RuntimeError, "real input", lambda T: T.fft.rfft(T.tensor([1j]))),
    "irfft of one": (RuntimeError, "Invalid number of data points", lambda T: T.fft.irfft(T.tensor([1j]))),
    # networks
    "conv of other channels": (
        RuntimeError, "channels", lambda T: T.nn.functional.conv1d(T.ones(1, 2, 3), T.ones(1, 1, 2)),
    ),
    "conv of too many dimensions": (
        RuntimeError, "input to conv1d", lambda T: T.nn.functional.conv1d(T.ones(1, 1, 2, 3), T.ones(1, 1, 2)),
    ),
    "conv beyond the end": (
        RuntimeError, "Kernel size can't be greater",
        lambda T: T.nn.functional.conv1d(T.ones(1, 1, 2), T.ones(1, 1, 3)),
    ),
    "conv of strides and same": (
        RuntimeError, "same", lambda T: T.nn.functional.conv1d(T.ones(1, 1, 3), T.ones(1, 1, 1), None, 2, "same"),
    ),
    "output padding": (
        RuntimeError,
        "output padding must be smaller",
        lambda T: T.nn.functional.conv_transpose1d(T.ones(1, 1, 3), T.ones(1, 1, 1), output_padding=1),
    ),
    "pool beyond the end": (RuntimeError, "too small", lambda T: T.nn.functional.max_pool2d(T.ones(1, 2, 2), 3)),
    "pool of too wide a border": (
        RuntimeError, "at most half",
        lambda T: T.nn.functional.max_pool1d(T.ones(1, 4), 2, 1, 2),
    ),
    "fold of other columns": (RuntimeError, "", lambda T: T.nn.functional.fold(T.ones(1, 3, 4), (3, 3), 2)),
    "reflection beyond the edge": (
        RuntimeError, "Padding size",
        lambda T: T.nn.functional.pad(T.ones(1, 2), (2, 0), "reflect"),
    ),
    "pad of another mode": (
        NotImplementedError, "adding mode",
        lambda T: T.nn.functional.pad(T.ones(1, 2), (1, 0), "x"),
    ),
    "interpolate of no size": (
        ValueError, "size or scale_factor",
        lambda T: T.nn.functional.interpolate(T.ones(1, 1, 2)),
    ),
    "corners of nearest": (
        ValueError, "align_corners", lambda T: T.nn.functional.interpolate(T.ones(1, 1, 2), 3, align_corners=True),
    ),
    "bilinear of one dimension": (
        NotImplementedError, "", lambda T: T.nn.functional.interpolate(T.ones(1, 1, 2), 3, mode="bilinear"),
    ),
    "layer_norm of another shape": (
        RuntimeError, "normalized_shape", lambda T: T.nn.functional.layer_norm(T.ones(2, 3), (2,)),
    ),
    "group_norm of other groups": (RuntimeError, "divisible", lambda T: T.nn.functional.group_norm(T.ones(1, 3, 2), 2)),
    "batch_norm of one": (
        ValueError, "more than 1 value", lambda T: T.nn.functional.batch_norm(T.ones(1, 2), None, None, training=True),
    ),
    "glu of odd": (RuntimeError, "Halving dimension must be even", lambda T: T.nn.functional.glu(T.ones(3))),
    "prelu of other channels": (RuntimeError, "channel", lambda T: T.nn.functional.prelu(T.ones(2, 3), T.ones(2))),
    "celu of 0": (RuntimeError, "alpha", lambda T: T.nn.functional.celu(T.ones(1), 0.0)),
    "softshrink below 0": (RuntimeError, "lambda", lambda T: T.nn.functional.softshrink(T.ones(1), -1.0)),
    "embedding by floats": (RuntimeError, "", lambda T: T.nn.functional.embedding(T.ones(2), T.ones(3, 2))),
    "huber of delta 0": (RuntimeError, "delta", lambda T: T.nn.functional.huber_loss(T.ones(1), T.ones(1), delta=0.0)),
    "loss of another reduction": (
        ValueError, "reduction",
        lambda T: T.nn.functional.huber_loss(T.ones(1), T.ones(1), "no"),
    ),
    "pixel_shuffle of other channels": (
        RuntimeError, "divisible",
        lambda T: T.nn.functional.pixel_shuffle(T.ones(1, 3, 1, 1), 2),
    ),
    "dropout beyond 1": (ValueError, "probability", lambda T: T.nn.functional.dropout1d(T.ones(1, 2), 1.5)),
    "mask and causal": (
        RuntimeError,
        "is_causal",
        lambda T: T.nn.functional.scaled_dot_product_attention(
            T.ones(1, 2, 2), T.ones(1, 2, 2), T.ones(1, 2, 2), T.ones(2, 2), is_causal=True
        ),
    ),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_as_torch_refuses(T: Any, name: str):
    kind, words, run = REFUSALS[name]
    with np.errstate(all="ignore"), pytest.raises(kind, match=words or None):
        run(T)
