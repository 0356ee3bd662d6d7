"""EN: the engine, backward() and grad(): programs that show each id."""

from __future__ import annotations

import threading
from typing import Any

from ..programs.functions import np_linear, np_mul, np_sin_cos, np_square, np_tanh
from ..programs.registry import Log, constant, leaf, program, raises, values, warns


@program("EN-01", "EN-02", "EN-03")
def gradients_of_roots(T: Any, log: Log) -> Any:
    """A gradient made up for a root that needs one, or one of another shape or kind that is taken."""
    Square = np_square(T)
    x = leaf(T, 3)
    y = Square.apply(x)
    with raises(RuntimeError, "implicitly created only for scalar outputs"):
        y.backward()
    with raises(RuntimeError, "Mismatch in shape"):
        y.backward(constant(T, 1, 3))
    with raises(TypeError):
        y.backward(values(3))
    with raises(RuntimeError, "real scalar outputs"):
        (leaf(T, 1) * 1j).backward()
    with raises(RuntimeError, "required to have the same dtype"):
        y.backward(constant(T, 3) * 1j)
    y.backward(constant(T, 3, dtype="float32"))
    one = leaf(T, 1, 1)
    Square.apply(one).backward()
    return [x.grad, one.grad]


@program("EN-04", "EN-05")
def fewer_gradients_than_roots(T: Any, log: Log) -> Any:
    """Roots without a gradient, or that need none, that are skipped silently."""
    x = leaf(T, 3)
    y, z = x * 2, x * 3
    with raises(RuntimeError):
        T.autograd.backward([y, z], [constant(T, 3)])
    with raises(RuntimeError, "does not require grad"):
        T.autograd.backward([y.sum(), constant(T)])
    return [x.grad]


@program("EN-04", torch=False)
def more_gradients_than_roots(T: Any, log: Log) -> Any:
    """A gradient that belongs to no root and is ignored."""
    x = leaf(T, 3)
    with raises(RuntimeError, "2 gradients"):
        T.autograd.backward([x * 2], [constant(T, 3), constant(T, 3)])
    return [x.grad]


@program("EN-08", "EN-37")
def derivatives_through_grad(T: Any, log: Log) -> Any:
    """No warning about the cycle, or gradients stored without history."""
    getattr(T, "set_warn_always", bool)(True)  # torch would warn once a process

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = leaf(T, 3)
    with warns(UserWarning, "Using backward() with create_graph=True"):
        Cube.apply(Cube.apply(x)).sum().backward(create_graph=True)
    getattr(T, "set_warn_always", bool)(False)
    first = x.grad
    (first * first).sum().backward()
    return [first, x.grad, x.grad.requires_grad]


@program("EN-11", "EN-12", "EN-15")
def forms_of_inputs(T: Any, log: Log) -> Any:
    """A form of `inputs=` that is not taken, or that accumulates elsewhere too."""
    Mul = np_mul(T)
    x, y, unrelated = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    loss = Mul.apply(x, y).sum()
    found: list[Any] = []
    for inputs in (x, [x], (x, unrelated), {"x": x}, T.autograd.graph.get_gradient_edge(x)):
        loss.backward(inputs=inputs, retain_graph=True)
        found.append(x.grad.clone())
    with raises(RuntimeError, "cannot be empty"):
        loss.backward(inputs=[])
    with raises(RuntimeError):
        loss.backward(inputs=[constant(T, 3)])
    middle = x * 2
    (middle * y).sum().backward(inputs=[middle])
    return [*found, y.grad, unrelated.grad, middle.grad, x.grad]


@program("EN-13", "EN-14")
def forms_of_results(T: Any, log: Log) -> Any:
    """A dict that comes back with other keys, or an unused input that is not told."""
    Tanh = np_tanh(T)
    x, y = leaf(T, 3), leaf(T, 2, seed=1)
    loss = Tanh.apply(x).sum()
    named = T.autograd.grad(loss, {"y": y, "x": x}, allow_unused=True, retain_graph=True)
    with raises(RuntimeError, "appears to not have been used", "Set allow_unused=True"):
        T.autograd.grad(loss, [x, y], retain_graph=True)
    with raises(ValueError):
        T.autograd.grad(loss, [x, y], allow_unused=False, materialize_grads=True)
    zeros = T.autograd.grad(loss, [y], materialize_grads=True, create_graph=True)
    edge = T.autograd.graph.get_gradient_edge(y * 2)
    with raises(RuntimeError, "materialize_grads"):
        T.autograd.grad(Tanh.apply(x).sum(), [edge], materialize_grads=True)
    return [list(named), list(named.values()), zeros[0], zeros[0].requires_grad, x.grad]


@program("EN-16")
def an_unreachable_input(T: Any, log: Log) -> Any:
    """Nodes that run although nothing asked for lies behind them."""

    class Told(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log("ran", g)
            return g * 2

    x, other = leaf(T, 3), leaf(T, 3)
    (found,) = T.autograd.grad(Told.apply(x).sum(), [other * 1], allow_unused=True)
    return [found]


@program("EN-18")
def deprecated_arguments(T: Any, log: Log) -> Any:
    """Old names that are refused, or taken without a warning."""
    x = leaf(T, 3)
    with warns(FutureWarning):
        (g,) = T.autograd.grad((x * x).sum(), [x], only_inputs=False)
    with warns(FutureWarning, "grad_variables"):
        T.autograd.backward([x * x], grad_variables=[constant(T, 3)])
    with raises(RuntimeError, "grad_variables"):
        T.autograd.backward([x * x], [constant(T, 3)], grad_variables=[constant(T, 3)])
    return [g, x.grad]


@program("EN-19", "EN-20", "EN-21")
def a_node_waits_for_all_that_arrives(T: Any, log: Log) -> Any:
    """A node run before its last contribution, or sums written into what another branch reads."""
    SinCos, Mul = np_sin_cos(T), np_mul(T)
    x = leaf(T, 3)
    sin, cos = SinCos.apply(x)
    product = Mul.apply(sin, cos)
    total = Mul.apply(product, sin) + product + sin
    for name, tensor in (("sin", sin), ("cos", cos), ("product", product)):
        tensor.register_hook(lambda g, name=name: log(name, g))
    g = constant(T, 3)
    total.backward(g)
    return [g, x.grad]


@program("EN-22", errors=RuntimeError)
def a_failure_keeps_its_type(T: Any, log: Log) -> Any:
    """An exception of a backward that is lost, or another in its place."""

    class Fails(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("on purpose")

    x = leaf(T, 3)
    with raises(RuntimeError, "on purpose"):
        Fails.apply(x).sum().backward()
    Fails.apply(x).sum().backward()
    return [x.grad.sum()]


@program("EN-22", eager_only="a session is all or nothing (DR-08)")
def a_failure_leaves_what_ran(T: Any, log: Log) -> Any:
    """A pass that goes on after a failure, takes gradients back, or leaves the mode switched."""
    Tanh = np_tanh(T)

    def refuse(g):
        raise KeyError("on purpose")

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    early = x * 1
    early.register_hook(refuse)
    late = Tanh.apply(y)
    total = early.sum() + late.sum()
    with raises(KeyError, "on purpose"):
        total.backward()
    enabled = T.is_grad_enabled()
    with raises(RuntimeError, "Specify retain_graph=True"):
        late.sum().backward()
    return [x.grad, y.grad, enabled]


@program("EN-23")
def a_pass_inside_a_backward(T: Any, log: Log) -> Any:
    """An inner pass that mixes with the outer one, in its mode or its gradients."""

    class Inner(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with T.enable_grad():
                again = x.detach().requires_grad_()
                (slope,) = T.autograd.grad((again**3).sum(), again)
            log("enabled", T.is_grad_enabled())
            return g * slope

    x = leaf(T, 3)
    Inner.apply(Inner.apply(x)).sum().backward()
    return [x.grad]


@program("EN-24")
def callbacks_after_the_pass(T: Any, log: Log) -> Any:
    """A callback that runs before the gradients are in place, is lost, or is taken outside a pass."""
    engine = T.autograd.Variable._execution_engine
    x = leaf(T, 3)
    found: list[Any] = []

    def second():
        found.append(x.grad + 1)

    def first():
        found.append(x.grad.clone())
        engine.queue_callback(second)

    x.register_post_accumulate_grad_hook(lambda leaf: engine.queue_callback(first))
    (x * x).sum().backward()
    with raises(RuntimeError, "during backward pass"):
        engine.queue_callback(first)
    return found


@program("EN-25")
def threads_share_a_leaf(T: Any, log: Log) -> Any:
    """Gradients of passes on several threads that are lost in a shared leaf."""
    x = T.ones(4, dtype=T.float64, requires_grad=True)
    losses = [(x * float(i)).sum() for i in range(8)]

    def run(loss: Any) -> None:
        loss.backward()

    threads = [threading.Thread(target=run, args=(loss,)) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [x.grad]


@program("EN-25")
def threads_share_a_graph(T: Any, log: Log) -> Any:
    """A graph that is not retained, used by more than one pass."""
    x = leaf(T, 4)
    loss = (x.exp() * x).sum()
    failed: list[str] = []

    def run() -> None:
        try:
            loss.backward()
        except RuntimeError as error:
            failed.append("Specify retain_graph=True" if "Specify retain_graph=True" in str(error) else str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [x.grad, failed]


@program("EN-26", eager_only="backwards and hooks run on workers")
def hooks_run_on_the_callers_thread(T: Any, log: Log) -> Any:
    """A hook on another thread, which sees other context variables."""
    x = leaf(T, 3)
    here = threading.get_ident()
    seen: list[bool] = []
    x.register_hook(lambda g: seen.append(threading.get_ident() == here))
    (x * x).sum().backward()
    return [seen, x.grad]


@program("EN-26")
def engine_threads_can_be_switched_off(T: Any, log: Log) -> Any:
    """A switch that is not there, does not act, or is not restored."""
    x = leaf(T, 3)
    before = T.autograd.is_multithreading_enabled()
    with T.autograd.set_multithreading_enabled(False):
        inside = T.autograd.is_multithreading_enabled()
        (x * x).sum().backward()
    T.autograd.set_multithreading_enabled(False)
    off = T.autograd.is_multithreading_enabled()
    T.autograd.set_multithreading_enabled(True)
    return [before, inside, off, T.autograd.is_multithreading_enabled(), x.grad]


@program("EN-27")
def edges_as_roots_and_inputs(T: Any, log: Log) -> Any:
    """An edge that dies with its tensor, or is checked less than a tensor is."""
    edge_of = T.autograd.graph.get_gradient_edge
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    middle = Tanh.apply(x)
    inner = edge_of(middle)
    loss = (middle * middle).sum()
    root, wide = edge_of(loss), edge_of(middle * 2)
    del middle, loss
    (by_edge,) = T.autograd.grad(root, inner, retain_graph=True)
    T.autograd.backward([root], inputs=[edge_of(x)])
    with raises(RuntimeError, "implicitly created only for scalar outputs"):
        T.autograd.backward([wide])
    with raises(RuntimeError, "Mismatch in shape"):
        T.autograd.backward([wide], [constant(T, 4)])
    with raises(RuntimeError, "does not require grad"):
        edge_of(constant(T, 3))
    return [by_edge, x.grad, [inner.output_nr, root.output_nr]]


@program("EN-27")
def an_edge_means_the_value_of_its_time(T: Any, log: Log) -> Any:
    """An edge that follows its tensor through an in-place change."""
    x = leaf(T, 3)
    y = x * 2
    before = T.autograd.graph.get_gradient_edge(y)
    y.mul_(3)
    after = T.autograd.graph.get_gradient_edge(y)
    return list(T.autograd.grad((y * y).sum(), [before, after]))


@program("EN-32")
def layout_of_the_first_gradient(T: Any, log: Log) -> Any:
    """A gradient whose axes are not in the order of its leaf's."""
    turned = T.from_numpy(values(3, 2).T).requires_grad_()
    (turned * constant(T, 2, 3)).sum().backward()
    apart = T.from_numpy(values(6, 6)[::2, ::3].T).requires_grad_()
    (apart * constant(T, 2, 3)).sum().backward()
    return [turned.grad, list(turned.grad.stride()), apart.grad, list(apart.grad.stride())]


@program("EN-34", torch=False)
def non_leaves_are_not_pickled(T: Any, log: Log) -> Any:
    """A graph that is lost silently."""
    import copy
    import pickle

    x = leaf(T, 3)
    y = x * 2
    with raises(RuntimeError, "detach"):
        pickle.dumps(y)
    with raises(RuntimeError):
        copy.deepcopy(y)
    again = pickle.loads(pickle.dumps(x))
    return [again, again.requires_grad, y]


@program("EN-34")
def copies_of_leaves(T: Any, log: Log) -> Any:
    """A copy that shares memory or gradient with its leaf, or a non-leaf that is copied."""
    import copy

    x = leaf(T, 3)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    (twin * 3).sum().backward()
    with raises(RuntimeError, "graph leaves"):
        copy.deepcopy(x * 2)
    return [x.grad, twin, twin.grad, twin.requires_grad, twin.is_leaf]


@program("EN-36", torch=False)
def questions_about_the_pass(T: Any, log: Log) -> Any:
    """Answers that belong to another pass, or to none."""
    graph = T.autograd.graph
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    middle = x * 2
    other = y * 2
    found: list[Any] = []

    def ask(leaf: Any) -> None:
        found.append(graph.current_pass_id() >= 0)
        found.append([graph.is_graph_retained(), graph.will_run(middle.grad_fn), graph.will_run(other.grad_fn)])
        found.append("AccumulateGrad" in graph.current_node().name())

    x.register_post_accumulate_grad_hook(ask)
    (middle * middle).sum().backward(retain_graph=True)
    (middle * other).sum().backward(inputs=[x])
    with raises(RuntimeError, "during the backward pass"):
        graph.will_run(middle.grad_fn)
    return [found, graph.current_pass_id(), graph.current_node()]


@program("EN-38")
def gradients_without_elements(T: Any, log: Log) -> Any:
    """A gradient of a dimension of size 0 that is undefined, or of the wrong shape."""
    Linear = np_linear(T)
    x, w = leaf(T, 0, 3), leaf(T, 3, 2, seed=5)
    Linear.apply(x, w).sum().backward()
    y = leaf(T, 1, 4)
    (y * T.zeros(0, 4, dtype=T.float64)).sum().backward()
    return [x.grad, w.grad, y.grad]


@program("EN-28")
def what_grad_may_be_assigned(T: Any, log: Log) -> Any:
    """A gradient of another kind, shape or dtype, or the tensor itself, that is taken."""
    x = leaf(T, 3)
    with raises(TypeError):
        x.grad = 3.0
    with raises(RuntimeError, "size"):
        x.grad = constant(T, 2)
    with raises(RuntimeError, "type"):
        x.grad = constant(T, 3, dtype="float32")
    with raises(RuntimeError, "own grad"):
        x.grad = x
    x.grad = constant(T, 3)
    (x * 2).sum().backward()
    kept = x.grad.clone()
    del x.grad
    y = x * 2
    with warns(UserWarning, "retain_grad()"):
        none = y.grad
    return [kept, x.grad, none]


@program("EN-29", "EN-30", "EN-35")
def what_may_be_changed_of_a_tensor(T: Any, log: Log) -> Any:
    """A flag, a leaf or a view that is changed although its graph forbids it."""
    x = leaf(T, 4)
    with raises(RuntimeError, "floating point"):
        T.tensor([1, 2]).requires_grad_()
    with raises(RuntimeError, "leaf variables"):
        (x * 2).requires_grad = False
    with raises(RuntimeError, "leaf Variable that requires grad"):
        x.mul_(2)
    with raises(RuntimeError, "leaf Variable that requires grad"):
        x[:2].mul_(2)
    with T.no_grad():
        x.mul_(2)
    y = x * 1
    with raises(RuntimeError, "detach views in-place"):
        y[:2].detach_()
    alias = y.detach()
    y.mul_(3)
    return [x, alias, alias.requires_grad, alias.is_leaf]


@program("EN-30")
def operands_that_overlap_what_is_changed(T: Any, log: Log) -> Any:
    """An operand whose elements are partly written to while it is read."""
    x = leaf(T, 6)
    y = x * 1
    for change in (
        lambda: y.mul_(y[0]),
        lambda: y[1:].add_(y[:-1]),
        lambda: y.view(2, 3)[1].copy_(y[2:5]),
        lambda: y.__setitem__(slice(0, 4), y[1:5]),
        lambda: y.__setitem__(T.tensor([0, 5]), y[3:5]),
        lambda: y.index_add_(0, T.tensor([0, 1]), y[:2]),
    ):
        with raises(RuntimeError, "refer to a single memory location"):
            change()
    y.add_(y.detach())
    y[:3].add_(y[3:])
    y[0] = y[0]
    y.sum().backward()
    return [x.grad, y]


@program("EN-31")
def retained_gradients_over_passes(T: Any, log: Log) -> Any:
    """A retained gradient that is replaced instead of added to, or one of a constant."""
    x = leaf(T, 3)
    y = np_tanh(T).apply(x)
    unused = x * 2
    for tensor in (x, y, y, unused):
        tensor.retain_grad()
    with raises(RuntimeError):
        constant(T, 3).retain_grad()
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [y.grad, x.grad, unused.grad, x.retains_grad, y.retains_grad]
