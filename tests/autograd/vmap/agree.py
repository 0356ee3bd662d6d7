"""A function over a batch against the function on one example after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import raygrad as rg


def agree(function: Callable[..., Any], *arrays: Any, in_dims: tuple[int | None, ...] | None = None) -> None:
    """Assert that both give the same, and that no op was run one example after the other."""
    dims = in_dims if in_dims is not None else (0,) * len(arrays)
    tensors = [rg.tensor(array) for array in arrays]
    got = rg.vmap(function, in_dims=dims)(*tensors)
    size = next(t.shape[d] for t, d in zip(tensors, dims, strict=True) if d is not None)
    each = [
        function(*[t if d is None else rg.select(t, d, n) for t, d in zip(tensors, dims, strict=True)])
        for n in range(size)
    ]
    outputs = got if isinstance(got, tuple) else (got,)
    for number, output in enumerate(outputs):
        wanted = [one[number] if isinstance(got, tuple) else one for one in each]
        np.testing.assert_allclose(output.numpy(), np.stack([w.numpy() for w in wanted]), rtol=1e-12, atol=1e-13)


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def ints(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, high, shape)


def leaf(tensor: Any) -> Any:
    """A leaf over the tensor's values that requires grad, made inside vmap (FT-07 refuses `requires_grad_`)."""
    made = tensor.detach()
    made.requires_grad = True
    return made
