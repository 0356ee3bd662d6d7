"""Regions of automatic casting (LG-14); which functions cast is in `test_autocast_policies`."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.dispatch import autocast as module
from raygrad.autograd.dispatch.autocast import autocast, capture_modes, is_autocast_available, restored_modes


def casts_of(*results: Any) -> list[Any]:
    """The nodes of the casts of the first operands."""
    return [result.grad_fn.next_functions[0][0] for result in results]


def test_a_region_is_per_thread():
    seen: list[bool] = []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(rg.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_another_threads_region_changes_nothing_here():
    inside, leave = threading.Event(), threading.Event()

    def region() -> None:
        with autocast("cpu"):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=region)
    thread.start()
    assert inside.wait(30)
    try:
        assert module.REGIONS
        assert (rg.ones(2, 2) @ rg.ones(2, 2)).dtype == rg.float32
    finally:
        leave.set()
        thread.join()
    assert not module.REGIONS


def test_one_object_may_be_entered_again_inside_itself():
    region = autocast("cpu")
    with region as entered:
        assert entered is region
        with region:
            pass
        assert rg.is_autocast_enabled("cpu")
    assert not rg.is_autocast_enabled("cpu")


def test_a_region_is_restored_after_an_exception():
    with pytest.raises(KeyError), autocast("cpu"):
        raise KeyError
    assert state.casting is None
    assert not module.REGIONS


def test_it_decorates_functions_that_call_themselves():
    @autocast("cpu")
    def count(n: int) -> bool:
        """Doc."""
        return rg.is_autocast_enabled("cpu") if n == 0 else count(n - 1)

    assert count(3)
    assert (count.__name__, count.__doc__) == ("count", "Doc.")
    assert not rg.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="requires a callable, but got int"):
        autocast("cpu")(1)  # pyright: ignore[reportArgumentType]


def test_what_is_asked_of_a_region():
    assert (rg.is_autocast_enabled("cpu"), rg.is_autocast_cache_enabled()) == (False, True)
    assert rg.get_autocast_dtype("cpu") == rg.get_autocast_dtype("cuda") == rg.float16
    assert (is_autocast_available("cpu"), is_autocast_available("cuda")) == (True, False)
    with autocast("cpu", cache_enabled=False):
        assert not rg.is_autocast_cache_enabled()
        with autocast("cpu"):
            assert not rg.is_autocast_cache_enabled()
        assert not rg.is_autocast_enabled("cuda")
        assert not rg.is_autocast_enabled()  # as in PyTorch: without a device, that of CUDA
    for ask in (rg.is_autocast_enabled, rg.get_autocast_dtype, is_autocast_available):
        with pytest.raises(RuntimeError, match=f"{ask.__name__}.*'foo'"):
            ask("foo")
        with pytest.raises(TypeError, match="must be str, such as 'cpu', not int"):
            ask(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["bfloat16", np.dtype(object), "no dtype"])
def test_a_dtype_that_no_tensor_has_is_refused(dtype: Any):
    with pytest.raises(TypeError, match=f"no dtype {getattr(dtype, 'name', dtype)}.*raygrad.float16"):
        autocast("cpu", dtype=dtype)


def test_bfloat16_is_not_there_and_says_so():
    with pytest.raises(AttributeError, match="no attribute 'bfloat16': NumPy has no such dtype"):
        getattr(rg, "bfloat16")  # noqa: B009


def test_another_dtype_casts_nothing_and_warns():
    with pytest.warns(UserWarning, match="target dtype float32 is not supported. Disabling"):
        region = autocast("cpu", dtype=rg.float32)
    with region:
        assert not rg.is_autocast_enabled("cpu")
        assert rg.get_autocast_dtype("cpu") == rg.float32
        assert (rg.ones(2, 2) @ rg.ones(2, 2)).dtype == rg.float32
    autocast("cpu", dtype=rg.float32, enabled=False)  # which warns of nothing


def test_a_region_of_another_device_leaves_the_one_around_as_it_is():
    with pytest.warns(UserWarning, match=r"autocast\('cuda'\) casts nothing here, .* Disabling autocast"):
        other = autocast("cuda")
    with autocast("cpu"), other:
        assert rg.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'mps': operands are cast on 'cpu'"):
        autocast("mps")
    with pytest.raises(ValueError, match="`device_type` of type `str`, such as 'cpu'"):
        autocast(1)  # type: ignore[arg-type]


# ---- casts that are kept ---------------------------------------------------------------------------------------------


def test_a_leaf_is_cast_once_until_the_outermost_region_ends():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        first = x @ x
        with autocast("cpu"):
            second = x @ x
        with autocast("cpu", enabled=False):
            rg.mm(x, x)
        third = x @ x
    with autocast("cpu"):
        later = x @ x
    one, two, three, four = casts_of(first, second, third, later)
    assert one is two is three
    assert four is not one


def test_only_leaves_that_require_grad_are_kept_and_only_with_the_cache():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        y = x * 1
        one, two = casts_of(y @ x, y @ x)
        assert one is not two
        assert len(state.casting.kept) == 1
        rg.mm(rg.ones(2, 2), rg.ones(2, 2))
        assert len(state.casting.kept) == 1
    with autocast("cpu", cache_enabled=False):
        one, two = casts_of(x @ x, x @ x)
        assert one is not two
        assert not state.casting.kept


def test_a_leaf_that_was_changed_or_rebound_is_cast_anew():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        assert (x @ x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        with rg.no_grad():
            x += 1
        assert (x @ x).tolist() == [[8.0, 8.0], [8.0, 8.0]]
        x.data = rg.zeros(2, 2)
        assert (x @ x).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_cast_without_recording_is_not_used_where_gradients_are_recorded():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        with rg.no_grad():
            rg.mm(x, x)
        (x @ x).sum().backward()
    assert x.grad is not None


def test_a_cast_in_one_session_is_not_used_in_another_or_outside():
    x = rg.ones(2, 2, requires_grad=True)
    kinds: list[type[Any]] = []
    with autocast("cpu"):
        casting = state.here.casting
        assert casting is not None
        (x @ x).sum().backward()
        with rg.Session(workers=1):
            (x @ x).sum().backward()
            kinds += [type(kept.made._data) for kept in casting.kept.values()]
            with rg.Session(workers=1):
                y = rg.mm(x, x)
                assert y.tolist() == [[2.0, 2.0], [2.0, 2.0]]
            assert len(casting.kept) == 3
    assert kinds == [np.ndarray, Pending]
    assert x.grad is not None
    assert x.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_regions_keep_nothing_when_they_end():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        rg.mm(x, x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_of_what_transforms_make():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        rg.func.grad(lambda t: (t @ t).float().sum())(x)
        rg.func.vmap(lambda t: t @ x[0])(x)
        with rg.autograd.forward_ad.dual_level():
            dual = rg.autograd.forward_ad.make_dual(x, rg.ones(2, 2))
            tangent = rg.autograd.forward_ad.unpack_dual(dual @ x).tangent
        assert tangent is not None
        assert tangent.dtype == rg.float16
        assert not state.casting.kept


def test_casts_are_kept_apart_by_session():
    x = rg.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        with rg.Session():
            recorded = x @ x
            again = x @ x
            value = recorded.tolist()
        eager = x @ x
    one, two, three = casts_of(recorded, again, eager)
    assert one is two
    assert three is not one
    assert value == eager.tolist()


# ---- outside ---------------------------------------------------------------------------------------------------------


def test_outside_of_regions_nothing_is_asked(monkeypatch: pytest.MonkeyPatch):
    """The catalogue's functions look at one list; no state of the thread is read, and no rare mode is on."""
    from raygrad.autograd.dispatch import autocast_policies

    monkeypatch.setattr(autocast_policies, "_cast_and_call", None)
    x = rg.ones(2, 2)
    for call in (lambda: x @ x, lambda: rg.cat([x, x]), lambda: rg.nn.functional.linear(x, x)):
        assert call().dtype == rg.float32
    with autocast("cpu"):
        assert not state.special
    assert sys.getrefcount(module.REGIONS) > 2


# ---- for code that runs elsewhere ------------------------------------------------------------------------------------


def test_a_moment_is_plain_data_and_comes_back():
    assert capture_modes() == ()
    with autocast("cpu", cache_enabled=False):
        inside = capture_modes()
        assert inside == (1, "float16", 0)
        with restored_modes(()):
            assert capture_modes() == ()
            assert not rg.is_autocast_enabled("cpu")
        assert capture_modes() == inside
    with restored_modes(inside):
        assert capture_modes() == inside
        assert (rg.ones(2, 2) @ rg.ones(2, 2)).dtype == rg.float16
    assert capture_modes() == ()
    assert not module.REGIONS


def test_deep_passes_on_other_threads_see_the_region():
    seen: list[bool] = []
    depth = 12

    class Deeper(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(rg.is_autocast_enabled("cpu"))
            if ctx.n:
                inner = rg.ones(1, requires_grad=True)
                with rg.enable_grad():
                    Deeper.apply(inner, ctx.n - 1).backward()
            return g, None

    y = Deeper.apply(rg.ones(1, requires_grad=True), depth)
    with autocast("cpu"):
        y.backward()
    assert seen == [True] * (depth + 1)


@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_functions_that_cast_travel_by_name(strict: bool):
    product = rg.mm

    class Squared(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return product(x, x)

    x = rg.ones(2, 2)
    with rg.Session(strict=strict):
        with autocast("cpu"):
            inside = Squared.apply(x)
        outside = Squared.apply(x)
        assert (inside.dtype, outside.dtype) == (rg.float16, rg.float32)
        assert inside.tolist() == outside.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_what_one_run_showed_of_a_function_holds_in_regions_of_one_kind():
    """A Function is known by its arguments and by the casting state: its outputs have another dtype elsewhere (H3)."""

    class Squared(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g.to(x.dtype) * 2 * x) if rg.is_autocast_enabled("cpu") else None

    x = rg.ones(2, 2, requires_grad=True)
    with rg.Session():
        found: list[Any] = []
        for _ in range(2):
            for enabled in (True, False):
                with autocast("cpu", enabled=enabled):
                    y = Squared.apply(x)
                    grads = rg.autograd.grad(y.float().sum(), x, create_graph=True, allow_unused=True)
                found.append((y.dtype.name, grads[0] is None))
    assert found == [("float16", False), ("float32", True)] * 2


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_what_is_on_a_gpu_is_cast_as_on_the_host(inside: bool) -> None:
    with use_stand_in(1), rg.Session(workers=1) if inside else nullcontext(), autocast("cpu"):
        there, here = rg.ones(2, 2, device="cuda"), rg.ones(2, 2)
        assert (there @ there).dtype == (here @ here).dtype == rg.float16
        assert (there @ there).tolist() == (here @ here).tolist()
