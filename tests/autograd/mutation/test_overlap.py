"""Operands that share a part of the memory that is written to, as PyTorch tells them from those that may."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg

OVERLAP = "refer to a single memory location"


def base(T, *shape):
    """Return a tensor of its own memory, of numbers that tell its elements apart."""
    return T.arange(24, dtype=T.float64)[: max(1, T.ones(shape).numel())].clone().view(shape)


REFUSED = {
    "a row": lambda T, x: x.add_(x[0]),
    "its last row": lambda T, x: x.add_(x[2:]),
    "an element": lambda T, x: x.copy_(x[0, 0]),
    "transposed": lambda T, x: x.mul_(x.T),
    "one further": lambda T, x: x.view(9)[1:].add_(x.view(9)[:-1]),
    "in another shape": lambda T, x: x.view(9).sub_(x.view(9)[:1]),
    "between dimensions of extent one": lambda T, x: x[0].unsqueeze(0).add_(x[0].reshape(3, 1).T),
    "an element beside a dimension": lambda T, x: x[0, :1].add_(x[0, 0]),
    "as a limit": lambda T, x: x.clamp_(max=x[0]),
    "as an end": lambda T, x: x.lerp_(x[0], 0.5),
    "as a factor": lambda T, x: x.addcmul_(x.clone(), x[0]),
    "as a divisor": lambda T, x: x.addcdiv_(x.clone(), x[0]),
    "as an exponent": lambda T, x: x.pow_(x[0]),
    "put in a region": lambda T, x: x.view(9).__setitem__(slice(1, 9), x.view(9)[:-1]),
    "put at indices": lambda T, x: x.__setitem__(T.tensor([0, 2]), x[:2]),
    "put at indices as a whole": lambda T, x: x.__setitem__(T.tensor([0, 1, 2]), x),
    "put under a mask": lambda T, x: x.__setitem__(x > 4, x.view(9)[:4]),
    "added at indices": lambda T, x: x.index_add_(0, T.tensor([0, 1, 2]), x),
    "scattered": lambda T, x: x.scatter_(0, T.zeros(3, 3, dtype=T.int64), x),
    "scattered and added": lambda T, x: x.scatter_add_(0, T.zeros(1, 3, dtype=T.int64), x[:1]),
}

ALLOWED = {
    "itself": lambda T, x: x.add_(x),
    "an alias": lambda T, x: x.add_(x.detach()),
    "the same view": lambda T, x: x[0].add_(x[0]),
    "a view of all": lambda T, x: x.add_(x.view(9).view(3, 3)),
    "an equal row": lambda T, x: x[:1].add_(x[0].unsqueeze(0)),
    "another row": lambda T, x: x[0].add_(x[1]),
    "a column of its own": lambda T, x: x[:, 0].add_(x[:, 1]),
    "a number": lambda T, x: x.fill_(x[0, 0]),
    "put where it is": lambda T, x: x.__setitem__(0, x[0]),
    "put beside": lambda T, x: x.__setitem__(slice(1, 2), x[:1]),
    "a number put": lambda T, x: x.__setitem__(slice(None), x[0, 0]),
    "a number put where it is": lambda T, x: x.__setitem__((slice(1), slice(1)), x[0, 0]),
    "a number put under a mask": lambda T, x: x.__setitem__(x > 4, x[0, 0]),
    "from beside at indices": lambda T, x: x[:1].__setitem__(T.tensor([0]), x[1:2]),
    "nothing": lambda T, x: x[:0].add_(x[:0]),
    "the mask of its own elements": lambda T, x: x.masked_fill_(x > 4, 0.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operand_that_shares_a_part_is_refused(T, name):
    x = base(T, 3, 3)
    before, version = x.tolist(), x._version
    with pytest.raises(RuntimeError, match=OVERLAP):
        REFUSED[name](T, x)
    assert (x.tolist(), x._version) == (before, version)


@pytest.mark.parametrize("name", ALLOWED)
def test_operand_that_shares_all_or_nothing_is_taken(T, name):
    x, apart = base(T, 3, 3), base(T, 3, 3)
    ALLOWED[name](T, x)
    twin = apart.clone()
    if name in ("itself", "an alias", "a view of all"):
        assert x.tolist() == (apart + twin).tolist()
    assert x.shape == apart.shape


@pytest.mark.parametrize("name", REFUSED)
def test_operand_that_shares_a_part_is_refused_in_a_session(name):
    with rg.Session(workers=1):
        x = base(rg, 3, 3)
        with pytest.raises(RuntimeError, match=OVERLAP):
            REFUSED[name](rg, x)
        assert x.tolist() == base(rg, 3, 3).tolist()


@pytest.mark.parametrize("name", ALLOWED)
def test_operand_that_shares_all_or_nothing_is_taken_in_a_session(name):
    eager = base(rg, 3, 3)
    ALLOWED[name](rg, eager)
    with rg.Session(workers=1):
        x = base(rg, 3, 3)
        ALLOWED[name](rg, x)
        assert x.tolist() == eager.tolist()


def test_mask_that_shares_a_part_is_refused(T):
    mask = T.tensor([[True, False], [False, True]])
    with pytest.raises(RuntimeError, match=OVERLAP):
        mask.masked_fill_(mask[0], True)
    with pytest.raises(RuntimeError, match=OVERLAP):
        mask[mask[0]] = True
    mask[mask] = False
    assert mask.tolist() == [[False, False], [False, False]]


def test_indices_that_are_written_to_are_refused(T):
    x = T.tensor([1, 0])
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[x] = T.tensor([5, 6])


def test_part_of_a_complex_number_is_not_all_of_it(T):
    z = T.tensor([1 + 2j])
    with pytest.raises(RuntimeError, match=OVERLAP):
        z.add_(z.real)
    z.real.add_(z.imag)
    assert z.tolist() == [3 + 2j]


def test_operand_that_shares_a_part_is_refused_where_a_gradient_flows(T):
    x = T.ones(3, dtype=T.float64, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match=OVERLAP):
        y.mul_(y[0])
    y.mul_(y[0].clone())
    y.sum().backward()
    assert x.grad.tolist() == [16, 4, 4]


def test_operand_that_shares_a_part_of_every_example_is_refused(T):
    def change(x):
        x.add_(x.T)
        return x

    with pytest.raises(RuntimeError, match=OVERLAP):
        T.func.vmap(change)(base(T, 2, 2, 2))


def test_what_lies_behind_all_examples_is_not_shared(T):
    memory, diagonal = np.arange(24.0), T.arange(3)
    examples, behind = (T.from_numpy(part) for part in (memory[:18].reshape(2, 3, 3), memory[18:].reshape(2, 3)))

    def change(y, value):
        y[diagonal, diagonal] = value
        return y.clone()

    expected = memory[:18].reshape(2, 3, 3).copy()
    expected[:, range(3), range(3)] = behind.numpy()
    assert T.func.vmap(change)(examples, behind).tolist() == expected.tolist()


def test_every_example_that_is_put_at_indices_of_itself_is_refused(T):
    def change(y):
        y[T.arange(2)] = y
        return y

    with pytest.raises(RuntimeError, match=OVERLAP):
        T.func.vmap(change)(base(T, 2, 2, 2))


def test_expansion_that_repeats_nothing_can_be_changed(T):
    x = base(T, 2, 3)
    x.expand(1, 2, 3).mul_(2)
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    y = T.ones(2, dtype=T.float64, requires_grad=True) * 3
    y.expand(1, 2).mul_(2)
    assert y.tolist() == [6, 6]


def test_single_value_is_put_without_the_ones_before_it(T):
    x = base(T, 2)
    x[0] = T.tensor([[7.0]], dtype=T.float64)
    assert x.tolist() == [7, 1]
