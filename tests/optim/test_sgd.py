"""What SGD does besides what all optimisers do: its first steps, and what it keeps."""

from __future__ import annotations

import raygrad as rg


def test_momentum_starts_with_the_whole_first_gradient():
    p = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.5, dampening=0.5)
    p.grad = rg.tensor([1.0])
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.0]
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.0]
    assert p.tolist() == [0.0]


def test_the_momentum_is_not_the_gradient_itself():
    p = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.5)
    p.grad = rg.tensor([1.0])
    optimizer.step()
    optimizer.step()
    assert p.grad.tolist() == [1.0]
