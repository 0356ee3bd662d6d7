"""HK: tensor hooks and the order of hooks: programs that show each id."""

from __future__ import annotations

from typing import Any

from ..programs.functions import np_mul, np_sin_cos, np_square, np_tanh
from ..programs.registry import Log, constant, leaf, program, raises, warns


@program("HK-01", "HK-02")
def wrong_results_of_tensor_hooks(T: Any, log: Log) -> Any:
    """A replacement of another kind, dtype or shape that is taken."""
    x = leaf(T, 3)
    with raises(RuntimeError, "doesn't require gradient"):
        constant(T, 3).register_hook(lambda g: g)
    cases = [
        (lambda g: 3.0, TypeError, "expected Variable, but hook returned"),
        (lambda g: g.float(), RuntimeError, "changed the type of value"),
        (lambda g: g[:2], RuntimeError, "changed the size of value"),
    ]
    for hook, error, message in cases:
        y = np_tanh(T).apply(x)
        y.register_hook(hook)
        with raises(error, message):
            y.sum().backward()
    return [x.grad]


@program("HK-03", torch=False)
def hooks_must_not_write(T: Any, log: Log) -> Any:
    """A gradient that a hook changes in place, for others too."""

    def write(g):
        g.mul_(2)

    x = leaf(T, 3)
    y = x * 2
    y.register_hook(write)
    with raises(RuntimeError, "in place"):
        (y * y).sum().backward()
    z = x * 2
    z.grad_fn.register_prehook(lambda grads: write(grads[0]))
    with raises(RuntimeError, "in place"):
        (z * z).sum().backward()
    return [x.grad]


@program("HK-04")
def hooks_where_no_gradient_arrived(T: Any, log: Log) -> Any:
    """A hook that is not called, or is given zeros, where no gradient arrived."""

    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    sin, cos = np_sin_cos(T).apply(x)
    sin.register_hook(lambda g: log("sin", g))
    cos.register_hook(lambda g: log("cos", g is None))
    y.register_hook(lambda g: log("leaf", g is None))
    Nothing.apply(sin, y).sum().backward()
    return [x.grad, y.grad]


@program("HK-10")
def hooks_and_in_place_changes(T: Any, log: Log) -> Any:
    """A hook or a retained gradient that belongs to the other side of an in-place change."""
    x = leaf(T, 3)
    y = x * 2
    y.register_hook(lambda g: log("before", g))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: log("after", g))
    (y * y).sum().backward()
    return [y.grad, x.grad]


@program("HK-11", torch=False)
def hooks_of_a_stale_view(T: Any, log: Log) -> Any:
    """A hook that is dropped without a word when the base of its view changes, or one that is lost afterwards."""
    x = leaf(T, 4)
    base = x * 1
    view = base[:2]
    view.register_hook(lambda g: log("before", g))
    with warns(UserWarning, "hook"):
        base.mul_(2)
    view.register_hook(lambda g: log("after", g))
    (view * view).sum().backward()
    return [x.grad]


@program("HK-13")
def the_mode_in_hooks(T: Any, log: Log) -> Any:
    """Arithmetic of hooks that is missing in the graph of gradients."""
    x = leaf(T, 3)
    y = x * x
    y.register_hook(lambda g: g * g)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return [g, h]


@program("HK-13", "DR-06")
def the_mode_that_hooks_see(T: Any, log: Log) -> Any:
    """A hook that runs in the mode of the caller instead of the pass's."""
    x = leaf(T, 3)
    y = x * x
    y.register_hook(lambda g: log("enabled", T.is_grad_enabled()))
    T.autograd.grad(y.sum(), x, create_graph=True)
    (g,) = T.autograd.grad((y * y).sum(), x)
    return [g]


@program("HK-13", "DR-06", "H20")
def what_hooks_tell_under_create_graph(T: Any, log: Log) -> Any:
    """What a hook tells that is lost where the pass is recorded, or told in another order than what backward tells."""

    class Tells(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("forward", x.detach())
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("backward", g.detach())
            return g * x * 2.0

    def before(grads: Any) -> None:
        log("before", [g.detach() for g in grads])

    def after(inputs: Any, outputs: Any) -> None:
        log("after", {"inputs": [g.detach() for g in inputs], "outputs": len(outputs)})

    x = leaf(T, 3)
    y = Tells.apply(x * 2.0)
    y.register_hook(lambda g: log("gradient", g.detach()))
    y.grad_fn.register_prehook(before)
    y.grad_fn.register_hook(after)
    z = Tells.apply(y)
    (g,) = T.autograd.grad(z.sum(), x, create_graph=True)
    log("between", "the passes")
    (g * g).sum().backward()
    return [g, x.grad]


@program("DR-06", "HK-01", "HK-04", "ND-09", "HK-18", torch=False)
def hooks_at_the_client(T: Any, log: Log) -> Any:
    """A hook with `client=True` that fills another list than the program's, is passed by, or changes nothing."""

    class Stops(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return None

    found: list[Any] = []

    def keep(*grads: Any) -> None:
        found.append([T.is_grad_enabled(), *grads])

    def double(g: Any) -> Any:
        found.append(g.sum().item())
        return g * 2.0

    x = leaf(T, 3)
    y = np_tanh(T).apply(x * 2.0)
    y.register_hook(double, client=True)
    y.register_hook(lambda g: log("later", g))
    y.grad_fn.register_prehook(lambda grads: (grads[0] + T.ones(3, dtype=T.float64),), client=True)
    y.grad_fn.register_hook(keep, client=True)
    T.autograd.graph.register_multi_grad_hook([x, y], keep, client=True)
    handle = T.autograd.graph.register_multi_grad_hook([y, x], keep, mode="any", client=True)
    for _ in range(2):  # what a backward leaves undefined is known from the second time on
        y.register_hook(keep, client=True)
        (y.sum() + Stops.apply(y).sum()).backward(retain_graph=True)
        handle.remove()
        stopped = x * 3.0
        stopped.register_hook(keep, client=True)
        Stops.apply(stopped).sum().backward()
    with raises(RuntimeError, "hook 'wrong' has changed the size of value"):

        def wrong(g: Any) -> Any:
            return g[:1]

        x.register_hook(wrong, client=True)
        (x * 2.0).sum().backward()
    return [found, x.grad]


@program("HK-14")
def exceptions_in_hooks(T: Any, log: Log) -> Any:
    """An exception of a hook that changes its type, or a pass that goes on."""

    def refuse(*grads):
        raise LookupError("on purpose")

    x = leaf(T, 3)
    y = np_tanh(T).apply(x)
    y.register_hook(refuse)
    with raises(LookupError, "on purpose"):
        y.sum().backward()
    z = np_tanh(T).apply(x)
    z.grad_fn.register_prehook(refuse)
    with raises(LookupError, "on purpose"):
        z.sum().backward()
    return [x.grad]


@program("HK-15")
def hooks_of_one_output(T: Any, log: Log) -> Any:
    """A hook of one output that sees or changes another's gradient."""
    x = leaf(T, 3)
    sin, cos = np_sin_cos(T).apply(x)
    sin.register_hook(lambda g: g * 10)
    cos.register_hook(lambda g: g * 100)
    (sin * 2 + cos * 3).sum().backward()
    return [x.grad]


@program("HK-16")
def hooks_of_roots(T: Any, log: Log) -> Any:
    """A root's hook that does not act on the gradient given, or runs for each of its places."""
    x = leaf(T, 3)
    x.register_hook(lambda g: g * 3)
    x.register_hook(lambda g: log("sum", g))
    T.autograd.backward([x, x], [constant(T, 3), constant(T, 3, seed=1)])
    y = np_square(T).apply(x)
    y.register_hook(lambda g: g * 0)
    y.backward(constant(T, 3))
    return [x.grad]


@program("HK-06", "HK-17")
def hooks_after_accumulation(T: Any, log: Log) -> Any:
    """A hook that runs before `.grad` is there, twice, under grad(), or for a leaf that is not asked for."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    found: list[Any] = []

    def keep(leaf: Any) -> None:
        found.append(leaf.grad.clone())

    def step(leaf: Any) -> None:
        with T.no_grad():
            leaf.sub_(leaf.grad, alpha=0.1)
        leaf.grad = None

    x.register_post_accumulate_grad_hook(keep)
    x.register_post_accumulate_grad_hook(step)
    Mul = np_mul(T)
    Mul.apply(x, y).sum().backward()
    T.autograd.grad(Mul.apply(x, y).sum(), x)
    Mul.apply(x, y).sum().backward(inputs=[y])
    Mul.apply(x, y).sum().backward(inputs=[x])
    return [found, x, x.grad, y.grad]


@program("HK-17", "DR-06", "H20")
def what_hooks_after_accumulation_tell(T: Any, log: Log) -> Any:
    """What such a hook tells that is lost, or what it does to a parameter that later steps do not see."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    x.register_hook(lambda g: log("x arrives", g))
    optimizer = T.optim.SGD([x], lr=0.1, momentum=0.9)

    def step(leaf: Any) -> None:
        log("x", leaf.grad)
        optimizer.step()
        optimizer.zero_grad()
        log("stepped", leaf.detach())

    x.register_post_accumulate_grad_hook(step)
    y.register_post_accumulate_grad_hook(lambda leaf: log("y", [leaf.grad, "accumulated"]))
    for _ in range(3):
        np_mul(T).apply(x, y).sum().backward()
    return [x, x.grad is None, y.grad]


@program("HK-17")
def errors_of_hooks_after_accumulation(T: Any, log: Log) -> Any:
    """A hook on a non-leaf, or one that returns something."""
    x = leaf(T, 3)
    with raises(RuntimeError, "non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(lambda leaf: None)
    with raises(RuntimeError):
        constant(T, 3).register_post_accumulate_grad_hook(lambda leaf: None)
    handle = x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad)
    with raises(RuntimeError, "should return None"):
        (x * 2).sum().backward()
    handle.remove()
    return [x.grad]


@program("HK-17")
def hooks_after_no_accumulation(T: Any, log: Log) -> Any:
    """A hook that is not called where the gradient proved undefined."""

    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(T, 3)
    found: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda leaf: found.append(leaf.grad is None))
    Nothing.apply(x).sum().backward()
    return [found]


@program("HK-18")
def a_hook_over_all_gradients(T: Any, log: Log) -> Any:
    """A hook that is called too early, more than once, or without those that a pass does not produce."""
    register = T.autograd.graph.register_multi_grad_hook
    x, y, z = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    middle = np_tanh(T).apply(x)
    handle = register([x, middle, z, y], lambda grads: log("all", grads))
    (middle * y).sum().backward()
    (z * 2).sum().backward()
    (np_tanh(T).apply(x) * 3).sum().backward(inputs=[x])
    handle.remove()
    (x * y * z).sum().backward()
    return [x.grad, y.grad, z.grad]


@program("HK-18")
def a_hook_over_a_failed_pass(T: Any, log: Log) -> Any:
    """A hook that is called although not all gradients came, or counts what a failed pass had seen."""

    def refuse(g):
        raise LookupError("on purpose")

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    late = y * 2
    late.register_hook(refuse)
    early = x * 3
    T.autograd.graph.register_multi_grad_hook([x, y], lambda grads: log("all", grads))
    with raises(LookupError):
        (late.sum() + early.sum()).backward()
    (x * 5 * y).sum().backward(inputs=[x])
    return []


@program("HK-19")
def a_hook_over_any_gradient(T: Any, log: Log) -> Any:
    """A hook that is called for more than the first gradient."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    middle = np_tanh(T).apply(x)
    T.autograd.graph.register_multi_grad_hook([x, middle], lambda grad: log("any", grad), mode="any")
    loss = (middle * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [x.grad]


@program("HK-20")
def errors_of_hooks_over_gradients(T: Any, log: Log) -> Any:
    """A mode that there is not."""
    with raises(ValueError, "Expects mode to be one of"):
        T.autograd.graph.register_multi_grad_hook([leaf(T, 3)], lambda grads: None, mode="some")
    return []


@program("HK-20", torch=False)
def hooks_over_gradients_that_grad_returns(T: Any, log: Log) -> Any:
    """A hook over leaves that fails where grad() returns one of them, or a tensor without gradient that is taken."""
    register = T.autograd.graph.register_multi_grad_hook
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    with raises(RuntimeError, "require grad"):
        register([x, constant(T, 3)], lambda grads: None)
    register([x, y], lambda grads: log("all", grads))
    (g,) = T.autograd.grad((x * y).sum(), x)
    return [g]


# torch 2.13 counts for the outer pass with the number of the inner one
@program("HK-21", torch=False)
def hooks_over_gradients_in_nested_passes(T: Any, log: Log) -> Any:
    """A pass inside another that counts for it."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)

    def inner(leaf: Any) -> None:
        handle.remove()
        with T.enable_grad():
            loss = (x * 7).sum()
        loss.backward()

    handle = y.register_post_accumulate_grad_hook(inner)
    T.autograd.graph.register_multi_grad_hook([x, y], lambda grads: log("all", grads))
    (x * 2 * y).sum().backward()
    return [x.grad, y.grad]


@program("HK-08", torch=False)
def grad_of_a_hooked_non_leaf(T: Any, log: Log) -> Any:
    """A gradient from before the hooks, where grad() also needs what lies behind."""
    x = leaf(T, 3)
    y = np_tanh(T).apply(x)
    y.register_hook(lambda g: g * 10)
    loss = (y * y).sum()
    alone = T.autograd.grad(loss, y, retain_graph=True)
    both = T.autograd.grad(loss, [x, y])
    return [*alone, *both]
