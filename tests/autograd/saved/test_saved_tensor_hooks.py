"""Saved-tensor hooks as context managers, and packed values (GR)."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def hooks(T: Any, pack=lambda t: t, unpack=lambda kept: kept) -> Any:
    return T.autograd.graph.saved_tensors_hooks(pack, unpack)


def test_gr_01_integers_are_packed_and_none_is_not(T: Any):
    class Pick(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, index):
            ctx.save_for_backward(index, None)
            return x[index]

        @staticmethod
        def backward(ctx, g):
            return T.zeros(3, dtype=T.float64).index_add(0, ctx.saved_tensors[0], g), None

    packed = []
    x = vector(T, 1, 2, 3)
    with hooks(T, lambda t: packed.append(t.dtype) or t):
        y = Pick.apply(x, T.tensor([2, 0]))
    y.sum().backward()
    assert packed == [T.int64]
    assert x.grad.tolist() == [1, 0, 1]


@pytest.mark.parametrize("retain", [False, True])
def test_gr_02_values_are_unpacked_in_each_pass_and_freed_after_the_last(T: Any, retain):
    unpacked = []
    x = vector(T, 2)
    with hooks(T, lambda t: t.detach(), lambda kept: unpacked.append(1) or kept):
        y = (x * x).sum()
    y.backward(retain_graph=retain)
    once = len(unpacked)
    if retain:
        y.backward()
        assert len(unpacked) == 2 * once
    else:
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.backward()


def test_gr_03_an_output_that_comes_back_is_in_its_place(T: Any):
    x = vector(T, 0.5)
    with hooks(T, lambda t: t.detach().numpy().copy(), lambda kept: T.from_numpy(kept)):
        y = x.exp()
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([1.6487212707])


def test_gr_05_an_op_in_place_keeps_what_it_saved(T: Any):
    x = vector(T, 0.5)
    y = x * 1
    with hooks(T):
        y.sin_()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([0.8775825619])


def test_gr_08_they_must_be_callable(T: Any):
    with pytest.raises(TypeError), hooks(T, 3):
        pass


def test_gr_10_leaving_twice_does_no_harm():
    manager = hooks(rg, lambda t: (_ for _ in ()).throw(AssertionError))
    with manager:
        manager.__exit__(None, None, None)
        (vector(rg, 1) * vector(rg, 2)).sum().backward()
    (vector(rg, 1) * vector(rg, 2)).sum().backward()


def test_gr_11_a_decorated_function_refuses_hooks(T: Any):
    @T.autograd.graph.disable_saved_tensors_hooks("not here")
    def work():
        with hooks(T):
            pass

    with pytest.raises(RuntimeError, match="not here"):
        work()
    with hooks(T):
        pass


@pytest.mark.parametrize("pinned", [False, True])
def test_gr_12_nothing_is_copied_on_the_host(pinned: bool):
    x = vector(rg, 1, 2)
    with rg.autograd.graph.save_on_cpu(pin_memory=pinned):
        y: Any = x * x
    assert y.grad_fn._saved_self._data is x._data
    with pytest.raises(TypeError, match=r"save_on_cpu\(pin_memory=...\) takes True or False, got 1"):
        rg.autograd.graph.save_on_cpu(pin_memory=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("pinned", [False, True])
def test_gr_12_what_is_saved_on_a_gpu_is_kept_on_the_host(pinned: bool):
    with use_stand_in(1) as device:
        x = vector(rg, 1, 2).detach().cuda().requires_grad_()
        device.forget_transfers()
        with rg.autograd.graph.save_on_cpu(pin_memory=pinned):
            y: Any = x.exp()
        assert (device.transfers.to_host, device.transfers.to_device) == (1, 0)
        y.sum().backward()
        assert device.transfers.to_device == 1
        assert x.grad.tolist() == y.tolist()


@pytest.mark.parametrize("make", [lambda x: x.exp(), lambda x: x * x])
def test_gr_02_packed_values_make_no_cycle(make):
    x = vector(rg, 1, 2)
    gc.disable()
    try:
        with hooks(rg):
            y = make(x)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


# ---- versions of what is unpacked ------------------------------------------------------------------------------------

CHANGED = "modified by an inplace operation"


def saved_of_a_function(T: Any, x: Any) -> Any:
    class Keeps(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Keeps.apply(x)
    return y, lambda: y.grad_fn.saved_tensors[0]


def saved_output_of_a_function(T: Any, x: Any) -> Any:
    class Keeps(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Keeps.apply(x)
    return y, lambda: y.grad_fn.saved_tensors[0]


def saved_of_an_op(T: Any, x: Any) -> Any:
    y = x.sin()
    return y, lambda: y.grad_fn._saved_self


def saved_output_of_an_op(T: Any, x: Any) -> Any:
    y = x.exp()
    return y, lambda: y.grad_fn._saved_result


SAVERS = [saved_of_a_function, saved_output_of_a_function, saved_of_an_op, saved_output_of_an_op]


@pytest.mark.parametrize("saver", SAVERS)
def test_what_is_unpacked_counts_changes_with_what_unpack_returned(T: Any, saver):
    held = T.ones(2, dtype=T.float64)
    held.add_(1)
    with hooks(T, lambda t: 0, lambda kept: held):
        _, read = saver(T, vector(T, 1, 2))
    first, second = read(), read()
    assert first is not held
    assert (first._version, second._version, held._version) == (1, 1, 1)
    held.mul_(3)
    assert (first._version, second._version, held._version) == (2, 2, 2)
    second.detach().mul_(2)
    assert (first._version, second._version, held._version) == (3, 3, 3)
    assert first.tolist() == [12, 12]


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("change", ["before it is read", "before it is used", "after it is used", "never"])
def test_a_change_of_what_unpack_returned_is_found_where_it_was_saved_again(T: Any, saver, change: str):
    held = T.ones(2, dtype=T.float64)
    with hooks(T, lambda t: 0, lambda kept: held):
        y, read = saver(T, vector(T, 1, 2))
    if change == "before it is read":
        held.add_(1)
    saved = read()
    if change == "before it is used":
        held.add_(1)
    weight = vector(T, 3, 4)
    product = saved.detach() * weight
    if change == "after it is used":
        held.add_(1)
        with pytest.raises(RuntimeError, match=CHANGED):
            product.sum().backward()
    else:
        product.sum().backward()
        assert weight.grad.tolist() == ([1, 1] if change == "never" else [2, 2])
    y.sum().backward()  # what hooks gave was never promised to stay as it is


def changed_after_packing(T: Any, which: str, pack: Any) -> tuple[Any, Any]:
    """Return a leaf, and what was made of it under a hook and whose saved input or output was then doubled."""
    x = vector(T, 1, 2)
    above = x * 1
    with hooks(T, pack):
        y, _ = (saved_of_a_function if which == "input" else saved_output_of_a_function)(T, above)
    (above if which == "input" else y.detach()).mul_(2)
    return x, y


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(("which", "kept"), [("input", [1, 2]), ("output", [2, 4])])
def test_a_change_after_packing_shows_in_an_alias_and_not_in_a_copy(T: Any, which: str, kept: list[int], copies: bool):
    x, y = changed_after_packing(T, which, lambda t: t.detach().clone() if copies else t.detach())
    y.sum().backward()
    assert x.grad.tolist() == (kept if copies else [2 * one for one in kept])


def test_gr_05_a_view_that_was_packed_shows_a_later_change(T: Any):
    x = vector(T, 1, 1)
    y = x * 1
    with hooks(T, lambda t: t.view(2, 1), lambda t: t.view(2)):
        z = y.sin()
    y.detach().add_(1)
    z.sum().backward()
    assert x.grad.tolist() == pytest.approx([math.cos(2.0)] * 2)


@pytest.mark.parametrize("which", ["input", "output"])
def test_gr_05_a_change_after_packing_is_found_if_what_was_shown_was_kept(which: str):
    _, y = changed_after_packing(rg, which, lambda t: t)
    with pytest.raises(RuntimeError, match=rf"kept by a pack hook as it was.*{CHANGED}|{CHANGED}.*kept by a pack hook"):
        y.sum().backward()


def test_each_slot_is_checked_by_its_own_version(T: Any):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, None, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, nothing, w = ctx.saved_tensors
            assert nothing is None
            return g * w, g * x

    for number in (None, 0, 1):
        leaves = vector(T, 1, 2), vector(T, 3, 4)
        x, w = (leaf * 1 for leaf in leaves)
        w.add_(1)  # before it is saved
        y = Two.apply(x, w)
        if number is not None:
            (x, w)[number].add_(1)
            with pytest.raises(RuntimeError, match=rf"is at version {1 + number}; expected version {number} instead"):
                y.sum().backward()
            continue
        y.sum().backward()
        assert [leaf.grad.tolist() for leaf in leaves] == [[4, 5], [1, 2]]
