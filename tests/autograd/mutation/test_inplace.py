"""Changes in place: their values, their place in the graph, version counters and errors."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg

VALUES = [0.3, 0.7, 1.2]


def leaf(T, values=VALUES):
    return T.tensor(values, dtype=T.float64, requires_grad=True)


UNARY = "neg abs sign exp expm1 log log1p sqrt rsqrt square reciprocal sin cos tanh sigmoid relu floor ceil trunc round"


@pytest.mark.parametrize("name", UNARY.split())
def test_functions_of_one_operand(T, name):
    x = leaf(T)
    y = x * 1
    assert getattr(y, name + "_")() is y
    z = leaf(T)
    want = getattr(z, name)()
    assert y.tolist() == want.tolist()
    y.sum().backward()
    want.sum().backward()
    assert x.grad.tolist() == pytest.approx(z.grad.tolist())


@pytest.mark.parametrize(
    "change",
    [
        lambda T, y: y.add_(2.0),
        lambda T, y: y.add_(y.detach() * 3, alpha=0.5),
        lambda T, y: y.sub_(2, alpha=2),
        lambda T, y: y.mul_(3),
        lambda T, y: y.div_(2),
        lambda T, y: y.pow_(2),
        lambda T, y: y.remainder_(0.5),
        lambda T, y: y.fmod_(0.5),
        lambda T, y: y.clamp_(0.5, 1),
        lambda T, y: y.lerp_(T.ones(3, dtype=T.float64), 0.25),
        lambda T, y: y.addcmul_(T.ones(3, dtype=T.float64), T.ones(3, dtype=T.float64), value=2),
        lambda T, y: y.addcdiv_(T.ones(3, dtype=T.float64), T.ones(3, dtype=T.float64), value=2),
        lambda T, y: y.masked_fill_(T.tensor([True, False, True]), 5.0),
        lambda T, y: y.index_add_(0, T.tensor([0, 0]), T.ones(2, dtype=T.float64)),
        lambda T, y: y.scatter_(0, T.tensor([1]), T.ones(1, dtype=T.float64)),
        lambda T, y: y.scatter_add_(0, T.tensor([1]), T.ones(1, dtype=T.float64)),
        lambda T, y: y.zero_(),
        lambda T, y: y.fill_(2.5),
        lambda T, y: y.copy_(T.arange(3)),
        lambda T, y: y.__setitem__(0, 4.0),
    ],
)
def test_values_and_gradients_are_torchs(change):
    torch = pytest.importorskip("torch")
    results = []
    for T in (rg, torch):
        x = leaf(T)
        y = x * 2
        change(T, y)
        (y * y).sum().backward()
        results.append((y.tolist(), x.grad.tolist()))
    assert results[0][0] == pytest.approx(results[1][0])
    assert results[0][1] == pytest.approx(results[1][1])


def test_leaves_that_require_grad_are_protected(T):
    x = leaf(T)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x[0] = 1.0
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[1:].add_(1)
    with T.no_grad():
        x.add_(1)
        x[0] = 9.0
        x[1:].zero_()
    assert x.tolist() == [9.0, 0.0, 0.0]


def test_the_version_moves_once(T):
    x = T.ones(3)
    v = x[1:]
    before = x._version
    x.add_(1)
    x[0] = 5
    v.mul_(2)
    assert (x._version) == before + 3


def test_a_saved_value_changed_later_is_an_error(T):
    x = leaf(T)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_what_the_change_itself_saved_is_kept(T):
    x, w = leaf(T), leaf(T, [2.0, 3.0, 4.0])
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert w.grad.tolist() == pytest.approx(VALUES)
    assert x.grad.tolist() == [2.0, 3.0, 4.0]


def test_a_tensor_without_grad_takes_part_once_grad_flows_in(T):
    x = leaf(T)
    total = T.zeros(3, dtype=T.float64)
    for _ in range(3):
        total += x * x
    assert total.requires_grad
    total.sum().backward()
    assert x.grad.tolist() == pytest.approx([6 * v for v in VALUES])


def test_dtypes_that_cannot_be_cast_are_refused(T):
    i = T.tensor([1, 2])
    with pytest.raises(RuntimeError, match="can't be cast"):
        i.add_(1.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        i.div_(2)
    f = T.tensor([1.0, 2.0])
    f.add_(T.tensor([1.0, 1.0], dtype=T.float64))
    assert f.dtype == T.float32
    f.add_(i)
    assert f.tolist() == [3, 5]
    b = T.tensor([True, False])
    b.copy_(T.tensor([0.0, 2.0]))
    assert b.tolist() == [False, True]


def test_a_result_of_another_shape_is_refused(T):
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        T.ones(2).add_(T.ones(3, 2))


def test_expanded_memory_is_refused(T):
    with pytest.raises(RuntimeError, match="unsupported operation"):
        T.ones(1, 3).expand(2, 3).add_(1)


def test_it_writes_through_to_the_array():
    array = np.zeros(3)
    x = rg.from_numpy(array)
    x.add_(1)
    x[1:] = 7
    x[[0]] = 4
    x[x > 6] = 8
    assert array.tolist() == [4, 8, 8]


def test_setitem_of_all_kinds(T):
    x = T.zeros(3, 4)
    x[0] = 1
    x[:, 1] = T.tensor([2, 3, 4])
    x[1, 2:] = T.tensor([5.0, 6.0])
    x[..., 0] = 9.5
    x[[0, 2], [2, 3]] = T.tensor([7.0, 8.0])
    x[x == 0] = -1
    x[T.tensor([False, True, False]), 0] = 10
    x[2, T.tensor([0, 1])] = 0.5
    assert x.tolist() == [[9.5, 2, 7, 1], [10, 3, 5, 6], [0.5, 0.5, -1, 8]]


def test_setitem_errors(T):
    x = T.zeros(3)
    with pytest.raises(IndexError):
        x[5] = 1
    with pytest.raises(RuntimeError, match=r"size|shape"):
        x[0:2] = T.ones(3)
    with pytest.raises(IndexError):
        x[T.tensor([4])] = 1


def test_overlapping_assignment(T):
    x = T.arange(5)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:] = x[:-1]
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_retained_gradients_move_along():
    x = leaf(rg)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [6, 6, 6]


def test_hooks_and_second_order(T):
    x = leaf(T)
    y = x * 1
    y.mul_(x)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    assert h.tolist() == [2, 2, 2]


# ---- in a session ----------------------------------------------------------------------------------------------------


def training(T, steps=3):
    """Parameters that are changed in place, the functional way and through `.data`."""
    w, b = leaf(T, [[0.5, -0.2], [0.1, 0.3]]), T.zeros(2, dtype=T.float64, requires_grad=True)
    data = T.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=T.float64)
    loss = None
    for _ in range(steps):
        hidden = data @ w.t() + b
        hidden[:, 0] *= 2
        loss = (hidden**2).mean()
        loss.backward()
        with T.no_grad():
            w -= 0.1 * w.grad
            b.sub_(b.grad, alpha=0.1)
            w.grad.zero_()
        b.grad = None
    w.data.mul_(0.5)
    return [t.detach().numpy().copy() for t in (w, b, loss)]


def test_a_session_gives_the_same_bits():
    with rg.Session():
        inside = training(rg)
    for mine, other in zip(inside, training(rg), strict=True):
        assert mine.tobytes() == other.tobytes()


def test_training_is_torchs():
    torch = pytest.importorskip("torch")
    for mine, other in zip(training(rg), training(torch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
