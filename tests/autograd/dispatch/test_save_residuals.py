"""What nodes keep of an application: operands, results, only where wanted, with the version that they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.dispatch.save_residuals import keep_residuals
from raygrad.autograd.nodes.op_node import OpNode


def kept(saves: tuple[int, ...], gates: tuple[int | None, ...], *operands: Any, wants: tuple[bool, ...]) -> OpNode:
    node, result = OpNode.__new__(OpNode), rg.tensor([7.0])
    node.needs_input_grad = wants
    datas = [one._data if isinstance(one, rg.Tensor) else one for one in operands]
    keep_residuals(node, saves, gates, operands, datas, (result,))
    return node


def test_operands_and_results_are_kept_with_their_versions():
    x = rg.tensor([1.0])
    x.add_(1)
    node = kept((0, 1, -1), (), x, 3.0, wants=(True, False))
    assert node.saved_tensors is not None
    array, number, result = node.saved_tensors
    assert array is x._data
    assert number == 3.0
    assert np.asarray(result).tolist() == [7.0]
    assert [entry and entry[1] for entry in node.versions] == [1, None, 0]


def test_what_only_an_unwanted_gradient_needs_is_not_kept():
    x, y = rg.tensor([1.0]), rg.tensor([2.0])
    node = kept((0, 1), (1, 0), x, y, wants=(True, False))
    assert node.saved_tensors == (None, y._data)
    assert node.versions[0] is None


def test_a_rule_that_saves_nothing_keeps_nothing():
    node = kept((), (), rg.tensor([1.0]), wants=(True,))
    assert node.saved_tensors == node.versions == ()


def test_a_tensor_of_inference_mode_is_not_kept():
    with rg.inference_mode():
        x = rg.tensor([1.0])
    with pytest.raises(RuntimeError, match=r"(?i)inference"):
        kept((0,), (), x, wants=(True,))


def test_what_a_number_makes_needless_is_kept_beside_a_tensor_only():
    x, y = rg.tensor([1.0]), rg.tensor([2.0])
    beside_tensor = kept((-1,), (-1,), x, y, wants=(True, False))
    assert beside_tensor.saved_tensors is not None
    assert beside_tensor.saved_tensors[0] is not None
    assert kept((-1,), (-1,), x, 2.0, wants=(True, False)).saved_tensors == (None,)
