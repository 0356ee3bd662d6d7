"""What code asks about the memory of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

FACTS = """
    x.nbytes|x.itemsize|x.is_sparse|x.is_sparse_csr|x.is_meta|x.is_quantized|x.is_nested|x.is_mkldnn|x.is_mps|x.is_xpu
    x.is_conj()|x.is_neg()|x.is_shared()|x.storage_offset()|x[1:].storage_offset()|x[1:, 2].storage_offset()
    x.T[2:].storage_offset()|x[1:][1:].storage_offset()|x.T.dim_order()|x.dim_order()|x.layout == T.strided
    x[1:].clone().storage_offset()|x.data_ptr() == x.T.data_ptr()|x[1:].data_ptr() - x.data_ptr()|T.is_inference(x)
    T.is_conj(x)|T.is_neg(x)|T.get_device(x)|x[:, :2].nbytes|isinstance(x.dtype, T.dtype)|isinstance(x.layout, T.layout)
    x.shape.numel()|x[1:].size().numel()|T.as_strided_(x * 1, (2, 2), (1, 2)).tolist()
"""


@pytest.mark.oracle
@pytest.mark.parametrize("fact", [fact.strip() for line in FACTS.strip().splitlines() for fact in line.split("|")])
def test_facts_as_torch(fact: str):
    torch: Any = pytest.importorskip("torch")
    data = np.arange(12.0).reshape(4, 3)
    found, expected = (eval(fact, {"T": T, "x": T.tensor(data)}) for T in (rg, torch))
    assert found == expected


def test_facts_of_pending_tensors():
    with rg.Session("local"):
        x = rg.zeros(4, 3) + 1
        assert x.nbytes == 48
        assert x[1:].storage_offset() == 3
        assert not x.is_sparse
        assert x.data_ptr() != 0


def test_an_address_counts_as_a_way_to_write_to_the_memory():
    x = rg.zeros(3)
    assert not x._shares_memory
    x.data_ptr()
    assert x._shares_memory
