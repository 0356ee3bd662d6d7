"""ND: nodes: programs that show each id."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

from ..programs.functions import np_mul, np_sin_cos, np_square, np_tanh
from ..programs.registry import Log, constant, leaf, program, raises


def blend(T: Any) -> Any:
    """A Function of two tensors and a number between them, with two outputs."""

    class Blend(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.factor = factor
            large = x > 0
            ctx.mark_non_differentiable(large)
            return x * factor + y, large

        @staticmethod
        def backward(ctx, g, _):
            return g * ctx.factor, None, g

    return Blend


@program("ND-01", "ND-02")
def what_a_node_is(T: Any, log: Log) -> Any:
    """A kind of node that `isinstance` does not know, or that has another name."""
    Node = T.autograd.graph.Node
    x = leaf(T, 3)
    y, _ = blend(T).apply(x, 2.0, constant(T, 3))
    accumulator = y.grad_fn.next_functions[0][0]
    nodes = [y.grad_fn, (x * 2).grad_fn, accumulator]
    others = [x, None, blend(T)]
    return [
        [isinstance(node, Node) for node in nodes],
        [isinstance(other, Node) for other in others],
        [Node in type(node).__mro__ for node in nodes],
        y.grad_fn.name(),
        (x * 2).grad_fn.name(),
        accumulator.name(),
    ]


@program("ND-03", "ND-04")
def where_gradients_go(T: Any, log: Log) -> Any:
    """Edges of arguments that are no tensors, a second accumulator for a leaf, or one for a constant."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    middle = np_tanh(T).apply(x)
    z, _ = blend(T).apply(middle, 2.0, y)
    w, _ = blend(T).apply(constant(T, 3), 3.0, y)
    (first, first_slot), (second, second_slot) = z.grad_fn.next_functions
    (none, none_slot), (same, _) = w.grad_fn.next_functions
    return [
        first is middle.grad_fn,
        second.variable is y,
        second is same,
        none is None,
        [first_slot, second_slot, none_slot],
        z.grad_fn is z.grad_fn,
    ]


@program("ND-05")
def notes_on_a_node(T: Any, log: Log) -> Any:
    """Notes that are lost between two reads, or in a pass."""
    x = leaf(T, 3)
    y = np_square(T).apply(x)
    y.grad_fn.metadata["who"] = "me"
    y.sum().backward()
    return [y.grad_fn.metadata["who"], list((x * 2).grad_fn.metadata)]


@program("ND-06")
def creation_numbers(T: Any, log: Log) -> Any:
    """Numbers that do not grow, or accumulators that do not come first."""
    x = leaf(T, 3)
    y = np_square(T).apply(x)
    z = np_square(T).apply(y)
    accumulator = y.grad_fn.next_functions[0][0]
    numbers = [y.grad_fn._sequence_nr(), z.grad_fn._sequence_nr(), accumulator._sequence_nr()]
    return [numbers == sorted(numbers), len(set(numbers)), x.grad]


@program("ND-06")
def creation_numbers_decide(T: Any, log: Log) -> Any:
    """A number that is set and changes nothing."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    a, b = Tanh.apply(x), Tanh.apply(x)
    a.register_hook(lambda g: log("a", g))
    b.register_hook(lambda g: log("b", g))
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 1)
    (a * b).sum().backward()
    return [x.grad]


@program("ND-07")
def what_gradients_have_to_be(T: Any, log: Log) -> Any:
    """Metadata of another output, or none for one without derivative."""
    x = leaf(T, 3)
    y, _ = blend(T).apply(x, 2.0, constant(T, 3))
    meta = y.grad_fn._input_metadata
    return [len(meta), list(meta[0].shape), str(meta[0].dtype).removeprefix("torch."), str(meta[0].device)]


@program("ND-08")
def nodes_by_hand(T: Any, log: Log) -> Any:
    """A Function's node that can be called or pickled, or a built-in one that takes any number of gradients."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z, _ = blend(T).apply(x, 2.0, constant(T, 3))
    with raises(TypeError):
        z.grad_fn(constant(T, 3))
    product = (x * y).grad_fn
    for node in (z.grad_fn, product, product.next_functions[0][0]):
        with raises(TypeError, "cannot pickle"):
            pickle.dumps(node)
        with raises(TypeError, "cannot pickle"):
            copy.deepcopy(node)
    with raises(TypeError, "expected 1 arguments, got 0"):
        product()
    grown = x.exp().grad_fn
    with T.no_grad():
        left, right = product(constant(T, 3))
        scaled = grown(constant(T, 3))
        product.next_functions[0][0](constant(T, 3))
    recorded, _ = product(constant(T, 3))
    return [left, right, scaled, x.grad, recorded.requires_grad]


@program("ND-08")
def a_functions_node_by_hand(T: Any, log: Log) -> Any:
    """A node whose `apply` does not run the user's backward."""
    x = leaf(T, 3)
    z, _ = blend(T).apply(x, 2.0, constant(T, 3))
    first, number, second = z.grad_fn.apply(constant(T, 3), None)
    return [first, number, second]


@program("ND-10")
def prehooks_of_undefined_gradients(T: Any, log: Log) -> Any:
    """An undefined gradient that a prehook sees as zeros, or a replacement of the wrong kind."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 3)
    sin, _ = SinCos.apply(x)
    sin.grad_fn.register_prehook(lambda grads: log("undefined", [g is None for g in grads]))
    sin.grad_fn.register_prehook(lambda grads: (grads[0] * 2, None))
    sin.sum().backward()
    wrong, _ = SinCos.apply(x)
    wrong.grad_fn.register_prehook(lambda grads: (3.0, None))
    with raises(TypeError):
        wrong.sum().backward()
    return [x.grad]


@program("ND-09", "ND-11")
def wrong_results_of_node_hooks(T: Any, log: Log) -> Any:
    """A list, or too few gradients, taken from a node's hook."""
    x = leaf(T, 3)
    y = np_tanh(T).apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: [inputs[0]])
    with raises(TypeError, "expected tuple"):
        y.sum().backward()
    y = np_tanh(T).apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0], inputs[0]))
    with raises(RuntimeError, "incorrect number of values"):
        y.sum().backward()
    return [x.grad]


@program("ND-12", "HK-22")
def handles(T: Any, log: Log) -> Any:
    """A handle that removes twice, not at all, or in the pass that is under way."""
    x = leaf(T, 3)
    y = x * 2
    with y.register_hook(lambda g: g * 10) as handle:
        y.sum().backward(retain_graph=True)
    inside = x.grad.clone()
    handle.remove()
    handle.remove()
    y.sum().backward(retain_graph=True)
    return [inside, x.grad, isinstance(handle.id, int)]


@program("ND-12", "HK-22", eager_only="hooks run on workers: none can remove another one at the client (DR-06)")
def a_hook_removed_by_another(T: Any, log: Log) -> Any:
    """A hook that is skipped in the pass in which it was removed."""
    x = leaf(T, 3)
    y = x * 2
    later: list[Any] = []
    y.register_hook(lambda g: later[0].remove())
    later.append(y.register_hook(lambda g: g * 10))
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    y.sum().backward()
    return [first, x.grad]


@program("ND-13")
def hooks_registered_in_forward(T: Any, log: Log) -> Any:
    """A hook of ctx that does not run in the first pass."""

    class Watched(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.register_prehook(lambda grads: (grads[0] * 3,))
            ctx.register_hook(lambda inputs, outputs: (inputs[0] * 5,))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(T, 3)
    Watched.apply(x).sum().backward()
    return [x.grad]


@program("ND-14", "ND-15")
def accumulators_under_grad(T: Any, log: Log) -> Any:
    """An accumulator's hooks that run although nothing is accumulated."""
    x = leaf(T, 3)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(lambda grads: (grads[0] * 2,))
    accumulator.register_hook(lambda inputs, outputs: log("after", [len(inputs), len(outputs)]))
    (g,) = T.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    return [g, x.grad]


@program("ND-16")
def a_deep_graph(T: Any, log: Log) -> Any:
    """A stack that overflows on a chain of 20,000 nodes, built, run and freed."""
    y = x = leaf(T, 2)
    for _ in range(20_000):
        y = y + 1
    y.sum().backward()
    del y
    return [x.grad]


# torch 2.13 never collects a hook that holds its own node's output
@program("ND-17", torch=False)
def hooks_live_as_long_as_their_node(T: Any, log: Log) -> Any:
    """A hook that dies before the graph, or is never collected."""

    class Mark:
        pass

    x = leaf(T, 3)
    y = x * 2
    mark = Mark()
    alive = weakref.ref(mark)
    y.grad_fn.register_hook(lambda inputs, outputs, mark=mark, y=y: None)
    loss = y.sum()
    del mark, y
    gc.collect()
    during = alive() is not None
    loss.backward()
    del loss
    gc.collect()
    return [during, alive() is None, x.grad]


@program("ND-18")
def graphs_die_by_themselves(T: Any, log: Log) -> Any:
    """A graph, or what it saved, that waits for the garbage collector."""
    Mul = np_mul(T)
    gc.collect()
    gc.disable()
    try:
        x, y = leaf(T, 3), leaf(T, 3, seed=1)
        product = Mul.apply(x * 1, y)
        node = weakref.ref(product)
        product.sum().backward()
        del product
        return [node() is None, x.grad]
    finally:
        gc.enable()
