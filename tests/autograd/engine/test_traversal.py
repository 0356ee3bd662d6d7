"""The order of a pass, its sums, its hooks, and passes inside passes (EN, HK; H19)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import forward_ad
from raygrad.autograd.engine.hook_calls import call_hook


def vector(T: Any, *values, requires_grad=True) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=requires_grad)


def logged(T: Any, log, name, factor=1.0):
    """A Function `x -> factor * x` that logs its backward."""

    class Logged(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            log.append(name)
            return g * factor

    return Logged.apply


# ---- order ----------------------------------------------------------------------------------------------------------


def test_en_19_a_node_runs_once_after_all_that_arrives_for_it(T: Any):
    log: list[str] = []
    x = vector(T, 1)
    y = logged(T, log, "y", 2.0)(x)
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 3 + y.exp() * 0 + y * 5).sum().backward()
    assert log == ["y"]
    assert seen == [[8]]
    assert x.grad.tolist() == [16]


def test_en_20_the_most_recently_created_ready_node_runs_first(T: Any):
    log: list[str] = []
    x, w = vector(T, 1), vector(T, 1)
    x.register_hook(lambda g: log.append("x"))
    w.register_hook(lambda g: log.append("w"))
    a = logged(T, log, "a")(x)
    b = logged(T, log, "b")(w)
    c = logged(T, log, "c")(a)
    T.autograd.backward([c, b], [vector(T, 1, requires_grad=False)] * 2)
    assert log == ["c", "b", "w", "a", "x"]  # accumulators as soon as they are ready


def test_en_20_the_order_of_the_roots_does_not_matter(T: Any):
    for swap in (False, True):
        log: list[str] = []
        x = vector(T, 1)
        roots = [logged(T, log, "first")(x), logged(T, log, "second")(x)]
        T.autograd.backward(roots[::-1] if swap else roots)
        assert log == ["second", "first"]


def test_en_21_sums_write_into_nothing_that_anybody_sees(T: Any):
    class Split(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 1

        @staticmethod
        def backward(ctx, a, b):
            kept.extend((a, b))
            return a + b

    kept: list[Any] = []
    x = vector(T, 1)
    given = vector(T, 5, requires_grad=False)
    a, b = Split.apply(x)
    T.autograd.backward([a, a, b, a, x], [given] * 5)
    assert given.tolist() == [5]
    assert [g.tolist() for g in kept] == [[15], [5]]
    assert x.grad.tolist() == [25]
    (x * 2).sum().backward()
    assert [g.tolist() for g in kept] == [[15], [5]]


def test_en_22_a_failure_stops_the_pass(T: Any):
    log: list[str] = []

    class Failing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("stop")

    x, w = vector(T, 1), vector(T, 1)
    early = logged(T, log, "early")(x)
    failing = Failing.apply(x)
    late = w * w
    with pytest.raises(KeyError, match="stop"):
        (early + failing + late).sum().backward()
    assert log == []
    assert w.grad.tolist() == [2]
    assert x.grad is None
    assert T.is_grad_enabled()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        late.sum().backward()


# ---- sums -----------------------------------------------------------------------------------------------------------


def fan(terms):
    """Return the gradient of a leaf to which `terms` are delivered in that order."""
    x = rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
    branches = [x * term for term in reversed(terms)]  # the last made is the first delivered
    rg.autograd.backward(branches)
    assert x.grad is not None
    return x.grad.item()


@pytest.mark.parametrize("count", range(1, 12))
def test_h19_a_fan_in_is_a_balanced_tree_in_the_order_of_delivery(count):
    terms = [float(v) for v in np.random.default_rng(count).normal(size=count) * 10.0 ** np.arange(count)]
    level = list(terms)
    while len(level) > 1:
        level = [sum(level[i : i + 2][1:], level[i]) for i in range(0, len(level), 2)]
    assert fan(terms) == level[0]


def test_h19_it_differs_from_a_left_fold():
    terms = [1e16, 1.0, -1e16, 1.0, 3.0]
    assert fan(terms) == ((1e16 + 1.0) + (-1e16 + 1.0)) + 3.0
    assert fan(terms) != (((1e16 + 1.0) - 1e16) + 1.0) + 3.0


def test_h19_across_passes_the_gradient_is_a_left_fold():
    x = rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
    for term in (1e16, 1.0, -1e16, 1.0):
        (x * term).backward()
    assert x.grad is not None
    assert x.grad.item() == ((1e16 + 1.0) - 1e16) + 1.0


def test_h19_undefined_contributions_keep_their_place_in_the_tree():
    class Nothing(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x = rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
    branches = [x * 3.0, x * -1e16, x * 1e16, Nothing.apply(x)]  # delivered: nothing, 1e16, -1e16, 3
    rg.autograd.backward(branches)
    assert x.grad is not None
    assert x.grad.item() == 1e16 + (-1e16 + 3.0)


# ---- passes inside passes -------------------------------------------------------------------------------------------


def nesting(T: Any):
    """A Function of depth n: its backward makes one of depth n-1 and runs that one's backward."""

    class Nesting(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach() - 1
            ctx.x.requires_grad_()
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.x.item() < 0:
                return g
            with T.enable_grad():
                Nesting.apply(ctx.x).sum().backward()
            return ctx.x.grad + g

    return Nesting


def test_en_23_passes_may_nest(T: Any):
    x = vector(T, 5)
    nesting(T).apply(x).sum().backward()
    assert x.grad.tolist() == [6]
    assert T.is_grad_enabled()


@pytest.mark.slow
def test_en_23_thousands_of_levels_do_not_overflow(T: Any):
    x = vector(T, 2000)
    nesting(T).apply(x).sum().backward()
    assert x.grad.tolist() == [2001]


def test_en_23_an_inner_pass_has_its_own_mode_and_finishes_first(T: Any):
    log: list[Any] = []
    w = vector(T, 2)

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with T.enable_grad():
                inner = logged(T, log, "inner")(w * w).sum()
            (found,) = T.autograd.grad(inner, w, create_graph=True)
            log.append((T.is_grad_enabled(), found.requires_grad))
            return g * found.detach()

    x = vector(T, 1)
    before = logged(T, log, "unrelated")(x)
    (Outer.apply(x) + before).sum().backward()
    assert log == ["inner", (False, True), "unrelated"]
    assert x.grad.tolist() == [5]


def test_en_23_a_pass_inside_a_hook_and_an_inner_failure(T: Any):
    w = vector(T, 3)
    x = vector(T, 1)
    y = x * 2

    def hook(g):
        with T.enable_grad():
            (w * g.detach()).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert w.grad.tolist() == [1]

    class Broken(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("inner")

    def failing(g):
        with T.enable_grad():
            Broken.apply(w).sum().backward()

    z = x * 2
    z.register_hook(failing)
    with pytest.raises(KeyError, match="inner"):
        z.sum().backward()
    assert T.is_grad_enabled()


def test_en_23_a_deep_level_sees_the_context_of_the_outermost(monkeypatch):
    from contextvars import ContextVar

    from raygrad.autograd.engine import traversal

    monkeypatch.setattr(traversal, "_NESTED_PER_THREAD", 2)
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen = []

    class Look(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((variable.get(), threading.get_ident() == home, rg.is_grad_enabled()))
            if ctx.depth:
                with rg.enable_grad():
                    y = Look.apply(vector(rg, 1), ctx.depth - 1)
                y.backward()
            else:
                raise KeyError("deep")
            return g, None

    home = threading.get_ident()
    token = variable.set("here")
    with pytest.raises(KeyError, match="deep"):
        Look.apply(vector(rg, 1), 3).sum().backward()
    variable.reset(token)
    assert [(value, grad) for value, _, grad in seen] == [("here", False)] * 4
    assert [same for _, same, _ in seen] == [True, False, False, False]


# ---- tensor hooks ---------------------------------------------------------------------------------------------------


def test_hk_01_a_hook_gets_the_summed_gradient_once_and_may_replace_it(T: Any):
    seen = []
    x = vector(T, 1)
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    (y * 3 + y * 4).sum().backward()
    assert seen == [[7]]
    assert x.grad.tolist() == [140]
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        vector(T, 1, requires_grad=False).register_hook(lambda g: None)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda g: 3.0, TypeError, "expected Variable, but hook returned"),
        (lambda g: (g,), TypeError, "expected Variable, but hook returned"),
        (lambda g: g.float(), RuntimeError, "named.*changed the type of value"),
        (lambda g: g.sum(), RuntimeError, "named.*changed the size of value"),
    ],
)
@pytest.mark.parametrize("leaf", [False, True])
def test_hk_02_bad_returns(T: Any, make, error, message, leaf):
    def named(g):
        return make(g)

    x = vector(T, 1, 2)
    y = x * 2
    (x if leaf else y).register_hook(named)
    with pytest.raises(error, match=message):
        y.sum().backward()


def test_hk_02_callables_without_a_name_will_do(T: Any):
    class Callable:
        def __call__(self, g):
            return g * 2

    x = vector(T, 1)
    x.register_hook(Callable())
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6]


def test_hk_04_an_undefined_gradient_is_none(T: Any):
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return a

    seen = []
    x = vector(T, 1)
    x.register_hook(lambda g: seen.append(("leaf", g)))
    y = x * 2
    y.register_hook(lambda g: seen.append(("middle", g)))
    Nothing.apply(y).sum().backward()
    a, b = Two.apply(vector(T, 1))
    b.register_hook(lambda g: seen.append(("slot", g)))
    a.sum().backward()
    assert seen == [("middle", None), ("leaf", None), ("slot", None)]


def test_hk_05_07_the_order_at_a_non_leaf(T: Any):
    seen: list[Any] = []
    x = vector(T, 1)
    y = logged(T, seen, "node")(x)
    y.grad_fn.register_hook(lambda ins, outs: seen.append("posthook"))
    y.grad_fn.register_prehook(lambda outs: seen.append(("prehook", outs[0].item())) or (outs[0] * 5,))
    y.register_hook(lambda g: seen.append("first") or g * 2)
    y.retain_grad()
    y.register_hook(lambda g: seen.append("second") or g * 3)
    y.sum().backward()
    assert seen == ["first", "second", ("prehook", 6), "node", "posthook"]
    assert y.grad.tolist() == [6]
    assert x.grad.tolist() == [30]


def test_hk_06_the_order_at_a_leaf(T: Any):
    seen: list[Any] = []
    x = vector(T, 1)
    y = x * 1
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda ins, outs: seen.append(("posthook", x.grad.item())))
    accumulator.register_prehook(lambda outs: seen.append(("prehook", outs[0].item(), x.grad)) or (outs[0] * 5,))
    x.register_hook(lambda g: seen.append("first") or g * 2)
    x.register_hook(lambda g: seen.append("second"))
    y.sum().backward()
    assert seen == ["first", "second", ("prehook", 2, None), ("posthook", 10)]


def test_hk_08_grad_returns_what_the_hooks_made(T: Any):
    x = vector(T, 1)
    y = x * 2
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g * 100)
    (leaf,) = T.autograd.grad(y.sum(), x, retain_graph=True)
    (middle,) = T.autograd.grad(y.sum(), y, retain_graph=True)
    assert (leaf.tolist(), middle.tolist()) == ([2000], [100])
    if T is rg:  # torch returns the value before the hooks when it has to go on behind it
        _, middle = T.autograd.grad(y.sum(), [x, y])
        assert middle.tolist() == [100]


def test_hk_09_hooks_of_leaves_that_are_not_asked_for_do_not_run(T: Any):
    seen = []
    x, w = vector(T, 1), vector(T, 2)
    x.register_hook(lambda g: seen.append("x"))
    w.register_hook(lambda g: seen.append("w"))
    y = (x * w).sum()
    T.autograd.grad(y, x, retain_graph=True)
    y.backward(inputs=[w])
    assert seen == ["x", "w"]


def test_hk_12_a_hook_registered_twice_runs_twice(T: Any):
    x = vector(T, 1)

    def double(g):
        return g * 2

    x.register_hook(double)
    x.register_hook(double)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [4]


@pytest.mark.parametrize("create_graph", [False, True])
def test_hk_13_the_mode_in_hooks_is_create_graph(T: Any, create_graph):
    modes = []
    x, w = vector(T, 3), vector(T, 5)

    def hook(g):
        modes.append(T.is_grad_enabled())
        return g * w

    y = x * x
    y.register_hook(hook)
    y.grad_fn.register_hook(lambda ins, outs: modes.append(T.is_grad_enabled()))
    y.grad_fn.register_prehook(lambda outs: modes.append(T.is_grad_enabled()))
    with T.set_grad_enabled(not create_graph):
        (g,) = T.autograd.grad(y, x, create_graph=create_graph)
    assert g.tolist() == [30]
    assert modes == [create_graph] * 3
    if create_graph:
        dx, dw = T.autograd.grad(g, [x, w])
        assert (dx.tolist(), dw.tolist()) == ([10], [6])


def test_hk_13_a_mode_flipped_in_a_hook_does_not_reach_the_next_node(T: Any):
    modes = []
    x = vector(T, 1)
    y = x * 2
    y.register_hook(lambda g: T.set_grad_enabled(True) and None)
    x.register_hook(lambda g: modes.append(T.is_grad_enabled()))
    y.sum().backward()
    assert modes == [False]
    assert T.is_grad_enabled()


@pytest.mark.parametrize("kind", ["tensor", "leaf", "pre", "post"])
def test_hk_14_exceptions_keep_their_type_and_abort_the_pass(T: Any, kind):
    error = LookupError("mine")

    def hook(*args):
        raise error

    x = vector(T, 1)
    y = x * 2
    register = {
        "tensor": y.register_hook,
        "leaf": x.register_hook,
        "pre": y.grad_fn.register_prehook,
        "post": y.grad_fn.register_hook,
    }[kind]
    register(hook)
    with pytest.raises(LookupError) as caught:
        y.sum().backward()
    assert caught.value is error
    assert x.grad is None
    assert T.is_grad_enabled()


def test_hk_15_hooks_are_per_output(T: Any):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 1

        @staticmethod
        def backward(ctx, a, b):
            return a + b

    seen = []
    x = vector(T, 1)
    a, b = Two.apply(x)
    b.register_hook(lambda g: seen.append(("b", g.item())) or g * 10)
    a.register_hook(lambda g: seen.append(("a", g.item())))
    (a * 2 + b * 3).sum().backward()
    assert seen == [("b", 3), ("a", 2)]  # in the order in which the slots got their first hook
    assert x.grad.tolist() == [32]


def test_hk_16_hooks_of_roots_act_on_the_given_gradient(T: Any):
    seen = []
    x = vector(T, 1)
    x.register_hook(lambda g: seen.append(g.item()) or g * 2)
    T.autograd.backward([x, x], [vector(T, 3, requires_grad=False), vector(T, 4, requires_grad=False)])
    assert seen == [7]
    assert x.grad.tolist() == [14]
    y = x * 1
    y.register_hook(lambda g: g * 0)
    y.backward(vector(T, 5, requires_grad=False))
    assert x.grad.tolist() == [14]


def test_en_31_a_retained_gradient_comes_after_all_hooks_and_accumulates(T: Any):
    x = vector(T, 1)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    y.register_hook(lambda g: g * 3)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert y.grad.tolist() == [6]
    assert x.grad.tolist() == [12]


# ---- what workers use -----------------------------------------------------------------------------------------------


def test_a_hook_is_called_as_its_kind_wants():
    a, b = vector(rg, 1), vector(rg, 2)
    assert call_hook("tensor", lambda g: None, [a]) == [a]
    assert call_hook("tensor", lambda g: b, [a]) == [b]
    assert call_hook("pre", lambda grads: (b, None), [a, b]) == [b, None]
    assert call_hook("post", lambda ins, outs: (outs[0],), [a], [b]) == [b]


def test_nd_13_a_hook_that_backward_registers_on_its_node_sees_no_gradients_of_outputs() -> None:
    seen: list[Any] = []

    class Registers(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.register_hook(lambda inputs, outputs: seen.append(outputs))
            return grad

    Registers.apply(rg.ones(2, requires_grad=True)).sum().backward()
    assert seen == [()]


def test_hooks_of_a_root_are_called_though_it_leads_to_no_input_that_is_wanted() -> None:
    seen: list[float] = []
    x, other = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    root = (x * 2).sum()
    root.register_hook(lambda grad: seen.append(grad.item()))
    rg.autograd.grad(root, other, allow_unused=True)
    assert seen == [1.0]


def test_a_tensor_hook_sees_the_tangent_of_its_gradient() -> None:
    seen: list[Any] = []
    with forward_ad.dual_level():
        x = forward_ad.make_dual(rg.ones(2, requires_grad=True), rg.full((2,), 2.0))
        y = x * x
        y.register_hook(lambda grad: seen.append(forward_ad.unpack_dual(grad).tangent))
        rg.autograd.grad((y * y).sum(), x, create_graph=True)
    assert seen[0].tolist() == [8.0, 8.0]
