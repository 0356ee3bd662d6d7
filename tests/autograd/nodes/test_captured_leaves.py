"""What a captured tensor is on a worker, without its history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.nodes.captured_leaves import INNER, LEAF, PLAIN, captured_tensor, kind_of_capture


def leaf() -> Any:
    return rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)


def there(tensor: Any) -> Any:
    """The tensor as a worker has it."""
    return captured_tensor(np.array(tensor.detach().numpy()), kind_of_capture(tensor))


def test_it_is_what_it_was() -> None:
    x = leaf()
    for tensor, kind in ((x.detach(), PLAIN), (x, LEAF), (x * 2, INNER)):
        assert kind_of_capture(tensor) == kind
        back = there(tensor)
        assert (back.requires_grad, back.is_leaf) == (tensor.requires_grad, tensor.is_leaf)
        assert back.tolist() == tensor.tolist()


def test_gradients_by_it_are_had() -> None:
    w, h = there(leaf()), there(leaf() * 2)
    by_leaf, by_inner = rg.autograd.grad((w * h).sum(), [w, h])
    assert (by_leaf.tolist(), by_inner.tolist()) == ([2.0, 4.0], [1.0, 2.0])


def test_a_pass_that_would_add_to_the_leaf_s_gradient_raises() -> None:
    w = there(leaf())
    with pytest.raises(RuntimeError, match=r"\.grad of a captured leaf of shape \[2\].*client=True"):
        (w * 2).sum().backward()
    assert w.grad is None


def test_a_pass_that_would_leave_the_worker_raises() -> None:
    x, h = leaf(), there(leaf() * 2)
    with pytest.raises(RuntimeError, match=r"through a captured tensor of shape \[2\]"):
        (x * h).sum().backward()
    with pytest.raises(RuntimeError, match=r"through a captured tensor of shape \[2\]"):
        rg.autograd.grad(h, x, rg.ones(2, dtype=rg.float64), allow_unused=True)
    assert rg.autograd.grad((x * h).sum(), x)[0].tolist() == [2.0, 4.0]  # one that need not may be taken
