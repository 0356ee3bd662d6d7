"""The family of ops in `ops/layouts.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ROW_BY_ROW: dict[str, Callable[[Any, Any], Any]] = {
    "indices": lambda T, x: x[:, [0, 1]],
    "a mask": lambda T, x: x[:, T.tensor([True, False, True])],
    "index_select": lambda T, x: T.index_select(x, 1, T.tensor([0, 1])),
    "scatter_add": lambda T, x: T.scatter_add(x, 1, T.tensor([[[0, 0]]]), T.ones(1, 1, 2)),
    "tril": lambda T, x: T.tril(x),
    "triu": lambda T, x: T.triu(x),
    "einsum": lambda T, x: T.einsum("abc,abd->acd", x, x),
}


@pytest.mark.parametrize("library", ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
@pytest.mark.parametrize("made", ROW_BY_ROW)
def test_results_that_users_view_lie_row_by_row(library: str, made: str):
    T: Any = pytest.importorskip(library)
    turned = T.arange(12.0).reshape(2, 2, 3).transpose(1, 2)
    result = ROW_BY_ROW[made](T, turned)
    assert result.is_contiguous()
    assert result.view(-1).tolist() == result.reshape(-1).tolist()
