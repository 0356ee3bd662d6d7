"""Views: they follow their base, and their base follows them, eagerly, in a graph and in a session."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.mutation.view_replay import write_through_view
from raygrad.autograd.storage import storage as views
from raygrad.autograd.storage.storage import SWEEP_AT


def matrix(T, requires_grad=False):
    return T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=T.float64, requires_grad=requires_grad)


def chained_views(T):
    x = matrix(T)
    a = x.t()
    b = a[0]
    c = x.unsqueeze(0)
    c.add_(1)
    b.zero_()
    return x, a, b, c


def a_view_in_the_graph(T):
    x = matrix(T, requires_grad=True)
    y = x * 2
    row, turned = y[0], y.t()
    row.mul_(x[1])
    ((turned * turned).sum() + row.sum()).backward()
    return y, row, turned, x.grad


def a_base_in_the_graph(T):
    x = matrix(T, requires_grad=True)
    y = x * 2
    row = y[0]
    y.mul_(x)
    row.sum().backward()
    return y, row, x.grad


def a_leaf_that_becomes_part_of_the_graph(T):
    x = matrix(T, requires_grad=True)
    board = T.zeros(2, 3, dtype=T.float64)
    board[0] = x[0]
    below = board[1]
    below.add_(x[1] * x[1])
    (board * board).sum().backward()
    return board, below, x.grad


def aliases(T):
    x = matrix(T, requires_grad=True)
    seen, row = x.detach(), x[1]
    with T.no_grad():
        x.mul_(2)
    x.data[0] = 7.0
    x.detach().t()[2].zero_()
    x[1:].detach().add_(1)
    return x, seen, row


def each_kind_of_view(T):
    x = T.ones(2, 2, 2, dtype=T.float64)
    x.reshape(4, 2)[0] = 2
    x.view(8)[3] = 3
    x.permute(2, 0, 1)[1].mul_(5)
    x.transpose(0, 2)[0, 1].add_(4)
    x[0].diagonal().sub_(1)
    x.squeeze().view(2, 4)[:, -1] = 9
    x[:, 0:1].squeeze(1).neg_()
    return (x,)


def windows_of_a_base(T):
    x = T.arange(10.0).reshape(2, 5)
    wide, apart = x.unfold(1, 2, 1), x.unfold(1, 2, 2)
    apart.mul_(2)
    x[1].add_(1)
    apart[:, 1].unfold(1, 1, 1).fill_(7)
    return x, wide, apart, x.t().unfold(0, 3, 2), T.tensor(2.0).unfold(0, 1, 1)


def windows_in_the_graph(T):
    x = T.arange(10.0, dtype=T.float64).reshape(2, 5).requires_grad_()
    y = x * 1
    wide, apart = y.unfold(1, 2, 1), y.unfold(-1, 2, 3)
    apart.mul_(x[:, :4].reshape(2, 2, 2))
    ((wide * wide).sum() + (apart * 3).sum()).backward()
    return y, wide, apart, x.grad


def strided_views(T):
    x = T.arange(12.0).reshape(3, 4)
    turned, spaced, around = (
        x.t().as_strided((2, 3), (1, 4), 1),
        x[::2].as_strided((2, 2), (8, 3)),
        x[1:].as_strided((2, 2), (2, 1), 5),
    )
    turned.mul_(10)
    around.add_(1)
    return x, turned, spaced, around, T.as_strided(x, (3, 2, 2), (4, 1, 1)), x[0].as_strided((), ())


def strided_views_in_the_graph(T):
    x = T.arange(12.0, dtype=T.float64).reshape(3, 4).requires_grad_()
    y = x * 1
    once, twice = y.t().as_strided((2, 3), (1, 4), 1), y.as_strided((3, 2, 2), (4, 1, 1))
    once.mul_(3)
    ((twice * twice).sum() + once.sum()).backward()
    return y, once, twice, x.grad


def other_dtypes_of_the_same_bytes(T):
    x = T.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=T.float32)
    bits, halves, pairs = x.view(T.int32), x.view(T.int16), x.view(T.float64)
    bits[0].zero_()
    x[1].mul_(2)
    halves[1, 0] = 5
    return x, bits, halves, pairs, x.view(T.complex64).real, x.view(dtype=T.uint8)


def parts_of_complex_numbers(T):
    z = T.tensor([1 + 2j, 3 - 1j], dtype=T.complex128)
    z.real.mul_(2)
    z.imag.zero_()
    return T.real(z), T.imag(z)


def parts_beside_what_is_not_finite(T):
    z = T.complex(T.tensor([np.inf, np.nan, 1.0]), T.tensor([np.nan, 2.0, np.inf]))
    y = z.clone()
    y.real.fill_(3.0)
    z.imag.mul_(2)
    x = T.tensor([[np.inf, 1.0], [np.nan, np.inf]])
    x.diagonal().fill_(2.0)
    return y.real, y.imag, z.real, z.imag, x


def gradients_of_parts_beside_what_is_not_finite(T):
    x = T.tensor([[2.0, 1.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    y.diagonal().mul_(3)
    y.backward(T.tensor([[np.inf, np.nan], [-np.inf, 1.0]]))
    z = T.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    w = z * 1
    w.real.mul_(2)
    w.imag.mul_(3)
    w.imag.backward(T.tensor([np.inf, 1.0]))
    return x.grad, T.imag(z.grad)


PROGRAMS = [
    chained_views,
    a_view_in_the_graph,
    a_base_in_the_graph,
    a_leaf_that_becomes_part_of_the_graph,
    aliases,
    each_kind_of_view,
    windows_of_a_base,
    windows_in_the_graph,
    strided_views,
    strided_views_in_the_graph,
    other_dtypes_of_the_same_bytes,
    parts_of_complex_numbers,
    parts_beside_what_is_not_finite,
    gradients_of_parts_beside_what_is_not_finite,
]


def outcome(program, T):
    return [(t.detach() if T is rg else t.detach().resolve_conj()).numpy().copy() for t in program(T)]


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("where", ["eager", "session"])
def test_same_as_torch(program, where):
    torch = pytest.importorskip("torch")
    with rg.Session() if where == "session" else contextlib.nullcontext():
        mine = outcome(program, rg)
    for got, want in zip(mine, outcome(program, torch), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_gives_the_eager_result(program):
    with rg.Session():
        inside = outcome(program, rg)
    for got, want in zip(inside, outcome(program, rg), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_view_that_nobody_holds_is_in_nobodys_way():
    with rg.Session():
        x = matrix(rg).requires_grad_()
        (x.reshape(-1).sum() * 1).backward()
        with rg.no_grad():
            x -= x.grad
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_copy_is_told_from_a_view_in_a_session():
    def changed():
        x = matrix(rg)
        results = []
        for source in (x * 2, (x * 2).t(), x.unsqueeze(0).expand(2, 2, 3), x @ x.t(), (x @ x.t())[:, :1]):
            other = source.reshape(-1)
            if other._base is not None and source._base is None:
                other.add_(1)
            results += [source, other]
        return results

    with rg.Session():
        values = [value.tolist() for value in changed()]
    assert values == [value.tolist() for value in changed()]


def test_what_a_kernel_laid_out_keeps_its_order_through_a_change_and_is_waited_for():
    def changed() -> tuple[list[float], list[float]]:
        x = matrix(rg)
        y = x @ x.t()
        y.t().fill_(1.0)
        maybe = y.reshape(-1)  # a view or a copy, by the order of the axes
        maybe.add_(1)
        return y.tolist(), maybe.tolist()

    eagerly = changed()
    for options in ({}, {"strict": True}, {"workers": 2}):
        with rg.Session(**options):
            assert changed() == eagerly


def test_what_was_laid_out_by_a_change_may_be_a_copy():
    with rg.Session():
        x = matrix(rg)
        y = (x @ x.t()).t()
        y.fill_(1.0)
        maybe = y.reshape(-1)
        with pytest.raises(RuntimeError, match=r"not known whether a result of 'reshape' .* clone it"):
            maybe.add_(1)


def test_what_reshape_copies_is_no_view(T):
    x = matrix(T)
    x.t().reshape(-1).zero_()
    assert x.sum().item() == 21


def test_a_view_that_cannot_be_written_through_says_so():
    x = rg.ones(1, 2)
    y = x.expand(2, 2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        write_through_view(y, x, y)


def test_a_detached_alias_holds_no_graph():
    with rg.Session():
        x = matrix(rg).requires_grad_()
        y = x * 2
        alias, part = y.detach(), y[0].detach()
        gone = weakref.ref(y)
        del y
        gc.collect()
        assert gone() is None
        alias.add_(1)
        part.add_(1)
        assert (alias.tolist()[0], part.tolist()) == ([4, 6, 8], [4, 6, 8])


def test_dead_views_are_forgotten():
    x = rg.ones(3)
    for _ in range(1000):
        x[1:]
    assert len(x._storage.members) <= 2 * SWEEP_AT
    assert list(views.views_of(x)) == []


def test_owner_and_parent():
    x = rg.ones(2, 3)
    y = x.t()
    z = y[0]
    assert views.owner_of(z) is x
    assert views.parent_of(z) is y
    assert views.parent_of(x) is None


class Detaching(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Passing(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Doubling(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def unrecorded(function):
    def made(x):
        x.requires_grad_()
        with rg.no_grad():
            return x, function.apply(x)

    return made


def assigned(x):
    view, alias, other = x[1:], x.detach(), matrix(rg) * 3
    x.data = other
    return x, view, alias, other, x[1:], x.detach()


ALIASES = {
    "detach of a slice": lambda x: (x, x[:1].detach()),
    "slice of data": lambda x: (x, x.data[:1]),
    "detach": lambda x: (x, x.detach(), x.detach()),
    "data": lambda x: (x, x.data),
    "detach of a leaf": lambda x: (x.requires_grad_(), x.detach(), x[0].detach()),
    "transposed": lambda x: (x, x.t().detach()[1], x.reshape(-1).data[2:4]),
    "reshaped to a copy": lambda x: (x, x.t().reshape(-1).detach()),
    "only aliases": lambda x: (x[0].detach(), x.detach(), x[0].data[1:]),
    "a tensor of a tensor": lambda x: (x, rg.Tensor(x)),
    "data exchanged": assigned,
    "detached in a Function": lambda x: (x, Detaching.apply(x)),
    "detached in a Function, unrecorded": unrecorded(Detaching),
    "returned as it is, unrecorded": unrecorded(Passing),
    "changed and returned, unrecorded": unrecorded(Doubling),
}


@pytest.mark.parametrize("make", ALIASES.values(), ids=ALIASES)
def test_aliases_made_before_a_session_follow_a_change_in_it(make):
    """Whichever of them is changed, all are the same, in the session and after it, as they are without one."""
    for number in range(len(make(matrix(rg)))):
        told = []
        for where in (rg.Session(), contextlib.nullcontext()):
            tensors = make(matrix(rg))
            with where, rg.no_grad():
                tensors[number].add_(1)
                inside = [tensor.tolist() for tensor in tensors]
            told += [inside, [tensor.tolist() for tensor in tensors]]
        assert all(one == told[-1] for one in told), number


def test_an_alias_made_before_a_session_is_changed_in_two_and_after_them():
    x = matrix(rg)
    alias = x[1].detach()
    for changed in (alias, x):
        with rg.Session():
            changed.add_(1)
    alias.mul_(2)
    assert x.tolist() == [[1 + value for value in matrix(rg).tolist()[0]], alias.tolist()]


def test_an_alias_owns_its_memory_once_no_other_is_left():
    x = matrix(rg)
    alias, other = x.detach(), x[0].detach()
    assert views.owner_of(alias) is x
    del x
    assert views.owner_of(other) is views.owner_of(alias)
    assert views.is_shared(alias)
    del other
    assert views.owner_of(alias) is alias
    assert views.parent_of(alias) is None
    assert not views.is_shared(alias)


OVERLAPPING = {
    "windows": lambda x: x.unfold(0, 2, 1),
    "windows in windows": lambda x: x.unfold(0, 4, 2).unfold(1, 2, 1),
    "strides": lambda x: x.as_strided((3, 2), (1, 1)),
    "no stride": lambda x: x.as_strided((3, 2), (0, 1)),
}


@pytest.mark.parametrize("kind", OVERLAPPING)
@pytest.mark.parametrize("where", ["eager", "graph", "session", "device"])
def test_views_that_show_elements_twice_are_not_written_to(kind, where):
    place = use_stand_in(1) if where == "device" else rg.Session() if where == "session" else contextlib.nullcontext()
    with place:
        x = rg.arange(6.0, device="cuda:0" if where == "device" else "cpu", requires_grad=where == "graph") * 1
        view = OVERLAPPING[kind](x)
        for change in (lambda: view.add_(1), lambda: view.fill_(1), lambda: view[1:].mul_(2)):
            with pytest.raises(RuntimeError, match=r"clone"):
                change()
        assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_strided_view_stays_inside_its_tensor():
    x = rg.arange(6.0)
    for size, stride, offset, what in (
        ((4,), (2,), 0, r"out of bounds"),
        ((2,), (1,), 6, r"out of bounds"),
        ((2,), (-1,), 3, "[Nn]egative strides"),
        ((2, 2), (1,), 0, "length"),
        ((2,), (1,), -1, "invalid storage offset"),
    ):
        with pytest.raises(RuntimeError, match=what):
            x.as_strided(size, stride, offset)
    with pytest.raises(RuntimeError, match=r"out of bounds.*outside of the tensor"):
        x[2:4].as_strided((3,), (1,), 4)


def test_a_view_in_another_dtype_needs_bytes_that_fit():
    for shape, dtype, what in (
        ((3,), rg.float64, "divisible"),
        ((), rg.float64, "0-D|self.dim()"),
        ((), rg.int16, "self.dim()"),
    ):
        with pytest.raises(RuntimeError, match=what):
            rg.ones(shape).view(dtype)
    with pytest.raises(RuntimeError, match="stride"):
        rg.ones(2, 4).t().view(rg.float64)
    assert not rg.ones(2, requires_grad=True).view(rg.int32).requires_grad
    x = rg.ones(2, requires_grad=True)
    assert x.view(rg.float32) is not x
    assert not x.view(rg.complex64).requires_grad
