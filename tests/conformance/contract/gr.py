"""GR: saved-tensor hooks and graph utilities: programs that show each id."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from ..programs.functions import square
from ..programs.registry import Log, constant, leaf, program, raises

HANDLES = "a Function applied in a session has its slots where forward runs, on a worker: no handles for the client"
MUTATION = "what the context must notice is the client's memory, and forward runs on a worker, which saves values"


def product(T: Any) -> Any:
    """A Function that saves an input, an output, a value of its own, None, and its input again."""

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            out = x * y
            ctx.save_for_backward(x, out, y * 2, None, x)
            return out

        @staticmethod
        def backward(ctx, g):
            x, out, twice, nothing, again = ctx.saved_tensors
            assert nothing is None
            return g * twice / 2, g * x + (x - again) + out * 0

    return Product


@program("GR-01", "GR-02", "CX-31")
def each_slot_is_packed(T: Any, log: Log) -> Any:
    """A slot that is packed twice, or not at all, or ops of forward that are packed as well."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)

    def pack(t):
        log("pack", t)
        return t.detach().numpy() * 2

    def unpack(kept):
        log("unpack", kept)
        return T.from_numpy(kept / 2)

    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        z = product(T).apply(x, y)
    w = product(T).apply(x, y)
    (z + w).sum().backward(retain_graph=True)
    z.sum().backward()
    return [x.grad, y.grad]


@program("GR-02")
def packed_values_are_read_from_outside(T: Any, log: Log) -> Any:
    """A packed value that only a backward can read, or the same object for two reads."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    hooks = T.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: {"twice": t.detach() * 2, "kind": "kept"}, lambda kept: kept["twice"] / 2):
        z = product(T).apply(x, y)
    first, second = z.grad_fn.saved_tensors, z.grad_fn.saved_tensors
    z.sum().backward()
    with raises(RuntimeError, "backward through the graph a second time"):
        _ = z.grad_fn.saved_tensors
    return [first, [a is b for a, b in zip(first, second, strict=True)], x.grad, y.grad]


@program("GR-01", "GR-02", "GR-03")
def hooks_that_capture_tensors(T: Any, log: Log) -> Any:
    """Hooks whose captured values are those of another step, or attributes that hooks replace."""
    Square = square(T)
    x = leaf(T, 3)
    total: Any = 0.0
    for step in range(3):
        key = constant(T, 3, seed=step) + step

        def pack(t, key=key):
            return (t.detach() + key, "added")

        def unpack(kept, key=key):
            return kept[0] - key

        with T.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = Square.apply(x * (step + 1))
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
        total = total + (g * g).sum()
    total.backward()
    return [x.grad]


@program("GR-01", "GR-02")
def built_in_ops_are_packed(T: Any, log: Log) -> Any:
    """A built-in op whose saved values the hooks do not see, or see in another state."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    seen: list[Any] = []

    def pack(t):
        seen.append(T.is_grad_enabled())
        return ("kept", t.detach().clone())

    def unpack(kept):
        seen.append(kept[0])
        return kept[1]

    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = (x * y).exp().sum()
    loss.backward()
    return [seen, x.grad, y.grad]


@program("GR-02")
def unpack_must_return_a_tensor(T: Any, log: Log) -> Any:
    """Something that is no tensor taken for a saved one."""
    x = leaf(T, 3)
    with T.autograd.graph.saved_tensors_hooks(lambda t: 5, lambda kept: kept):
        y = x * x
    with raises(TypeError, "unpack_hook expected to be a Tensor"):
        y.sum().backward()
    return [x.grad]


@program("GR-03", "GR-09")
def double_backward_through_packed_values(T: Any, log: Log) -> Any:
    """A second derivative that lacks the terms through what was packed into arrays."""
    Square = square(T)
    x = leaf(T, 3)

    def pack(t):
        return t.detach().numpy()

    with T.autograd.graph.saved_tensors_hooks(pack, T.from_numpy):
        y = Square.apply(Square.apply(x * 1).exp() * x)
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (h * h).sum().backward()
    return [g, h, x.grad]


@program("GR-03")
def what_unpacked_values_are(T: Any, log: Log) -> Any:
    """A saved value that comes back as another tensor in the graph, or as the same object."""
    x = leaf(T, 3)
    middle = x * 2
    with T.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), T.from_numpy):
        y = product(T).apply(middle, x)
    a, out, own, _, again = y.grad_fn.saved_tensors
    return [
        [a is middle, a is again, a.requires_grad, a.grad_fn is middle.grad_fn, out.grad_fn is y.grad_fn],
        [own.requires_grad, a, out, own],
    ]


@program("GR-04")
def the_modes_of_pack_and_unpack(T: Any, log: Log) -> Any:
    """A pack that records, or an unpack in another mode than its backward."""
    x = leaf(T, 3)

    def pack(t):
        log("pack", T.is_grad_enabled())
        return t.detach()

    def unpack(kept):
        log("unpack", T.is_grad_enabled())
        return kept

    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = square(T).apply(x)
    y.sum().backward(retain_graph=True)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return [x.grad, g]


@program("GR-05")
def changes_after_packing(T: Any, log: Log) -> Any:
    """A copy that is refused because its original was changed."""
    x = leaf(T, 3)
    middle = x * 2
    with T.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda kept: kept):
        y = square(T).apply(middle)
    middle.mul_(5)
    y.sum().backward()
    return [x.grad]


@program("GR-05", torch=False)
def what_is_checked_of_unpacked_values(T: Any, log: Log) -> Any:
    """A value of another shape or dtype, or memory that was changed, taken for what was saved."""
    x = leaf(T, 3)
    hooks = T.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: t.detach(), lambda kept: kept[:2]):
        shorter = square(T).apply(x)
    with hooks(lambda t: t.detach(), lambda kept: kept.float()):
        other = x * x
    middle = x * 2
    with hooks(lambda t: t, lambda kept: kept):
        changed = square(T).apply(middle)
    middle.mul_(5)
    with raises(RuntimeError, "shape [2]"):
        shorter.sum().backward()
    with raises(RuntimeError, "float32"):
        other.sum().backward()
    with raises(RuntimeError, "modified by an inplace operation"):
        changed.sum().backward()
    return [x.grad]


@program("GR-06")
def only_the_innermost_pair_applies(T: Any, log: Log) -> Any:
    """Hooks that are applied one after the other."""
    x = leaf(T, 3)
    hooks = T.autograd.graph.saved_tensors_hooks

    def by(name):
        def pack(t):
            log("packed", name)
            return t.detach()

        return hooks(pack, lambda kept: kept)

    Square = square(T)
    with by("outer"):
        first = Square.apply(x)
        with by("inner"):
            second = Square.apply(x)
        third = Square.apply(x)
    (first + second + third).sum().backward()
    return [x.grad]


@program("GR-07")
def pack_must_not_write(T: Any, log: Log) -> Any:
    """A saved value that packing it changes for all others."""

    def pack(t):
        with T.no_grad():
            t.add_(1)
        return t

    x = leaf(T, 3)
    with raises(RuntimeError, "pack hook is modifying its input"):
        with T.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
            square(T).apply(x * 1)
    return []


@program("GR-08")
def exceptions_of_packing(T: Any, log: Log) -> Any:
    """An exception of a hook that is lost, or surfaces elsewhere."""

    def refuse(value):
        raise LookupError("on purpose")

    x = leaf(T, 3)
    hooks = T.autograd.graph.saved_tensors_hooks
    with hooks(refuse, lambda kept: kept):
        with raises(LookupError, "on purpose"):
            square(T).apply(x)
        with raises(LookupError, "on purpose"):
            _ = x * x
    with hooks(lambda t: t.detach(), refuse):
        y = square(T).apply(x)
    with raises(LookupError, "on purpose"):
        y.sum().backward()
    with raises(TypeError):
        with hooks(3, lambda kept: kept):
            pass
    return [x.grad]


@program("GR-10")
def hooks_belong_to_their_thread(T: Any, log: Log) -> Any:
    """Hooks that another thread inherits."""
    x = T.ones(3, dtype=T.float64, requires_grad=True)
    packed: list[str] = []

    def pack(t):
        packed.append("packed")
        return t

    def work():
        (x * x).sum().backward()

    hooks = T.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept)
    with hooks, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the thread .* computes at once")  # in a session: not in this thread
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return [packed, x.grad]


@program("GR-11")
def hooks_can_be_disabled(T: Any, log: Log) -> Any:
    """Hooks set where they were forbidden, or another message."""
    graph = T.autograd.graph
    x = leaf(T, 3)

    def hooks():
        return graph.saved_tensors_hooks(lambda t: t, lambda kept: kept)

    with graph.disable_saved_tensors_hooks("outer message"):
        with graph.disable_saved_tensors_hooks("inner message"):
            with raises(RuntimeError, "inner message"):
                with hooks():
                    pass
        with raises(RuntimeError, "outer message"):
            with graph.save_on_cpu():
                pass
    with hooks(), raises(RuntimeError, "too late"):
        with graph.disable_saved_tensors_hooks("too late"):
            pass
    with hooks():
        y = x * x
    y.sum().backward()
    return [x.grad]


@program("GR-12")
def values_saved_on_the_host(T: Any, log: Log) -> Any:
    """A value that changes on its way to the host and back."""
    x, y = leaf(T, 3, 2), leaf(T, 3, 2, seed=1)
    with T.autograd.graph.save_on_cpu():
        z = product(T).apply(x, y) * y.exp()
    z.sum().backward()
    return [x.grad, y.grad]


@program("GR-13", eager_only=MUTATION)
def saved_tensors_may_be_changed(T: Any, log: Log) -> Any:
    """A change in place that backward sees, or that is refused though it was allowed."""
    allow = T.autograd.graph.allow_mutation_on_saved_tensors
    x = leaf(T, 4)
    with allow():
        y = x * 1
        a = square(T).apply(y)
        y.mul_(3)
        b = y.sin()
        y.add_(1)
        y[0] = 0.0
        c = y * y
        (a + b + c).sum().backward()
        with raises(RuntimeError, "cannot be nested"):
            with allow():
                pass
        late = square(T).apply(x * 2)
    with raises(AssertionError, "outside of the 'allow_mutation_on_saved_tensors' context"):
        late.sum().backward()
    return [y, x.grad]


@program("GR-14", "CX-29", eager_only=HANDLES)
def hooks_of_one_slot(T: Any, log: Log) -> Any:
    """A slot that is not packed at once, or twice, or one of None that is."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = product(T).apply(x, y)
    slots = z.grad_fn._raw_saved_tensors
    seen: list[str] = []

    def pack(t):
        seen.append("packed")
        return t.detach().clone()

    def unpack(kept):
        seen.append("unpacked")
        return kept

    slots[0].register_hooks(pack, unpack)
    at_once = list(seen)
    with raises(RuntimeError, "already been set"):
        slots[0].register_hooks(pack, unpack)
    with raises(RuntimeError, "None is forbidden"):
        slots[3].register_hooks(pack, unpack)
    with raises(TypeError):
        slots[1].register_hooks(pack)
    with raises(TypeError):
        slots[1].register_hooks(3, 4)
    with raises(RuntimeError, "forbidden"):
        type(slots[0])()
    z.sum().backward()
    return [len(slots), at_once, seen, x.grad, y.grad]


@program("GR-14")
def hooks_of_one_operand(T: Any, log: Log) -> Any:
    """A built-in op's saved value that cannot be read, or be packed alone."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = x * y
    before = z.grad_fn._saved_self
    z.grad_fn._raw_saved_other.register_hooks(lambda t: t.detach() * 2, lambda kept: kept)
    after = z.grad_fn._saved_other
    e = x.exp()
    z.sum().backward()
    return [before, after, e.grad_fn._saved_result, x.grad, y.grad]


@program("CX-15")
def changes_that_are_declared(T: Any, log: Log) -> Any:
    """A change through a raw array that goes unnoticed although it was declared."""
    x = leaf(T, 3)
    y = x * 2
    z = square(T).apply(y)
    T.autograd.graph.increment_version(y)
    with raises(RuntimeError, "modified by an inplace operation"):
        z.sum().backward()
    T.autograd.graph.increment_version([y, y])
    return [y._version, constant(T, 2)._version]


@program("GR-10")
def hooks_entered_in_a_pass_end_with_its_node(T: Any, log: Log) -> Any:
    """Hooks that user code enters in a pass and does not leave, in force for later nodes or after the pass."""

    def enter(value: Any = None) -> Any:
        T.autograd.graph.saved_tensors_hooks(lambda t: t * 100, lambda t: t).__enter__()
        return value

    class Entering(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            enter()
            return g * 2

    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, enter):
        made = square(T).apply(x * x) * y
    (first,) = T.autograd.grad(made.sum(), x, create_graph=True)
    Entering.apply(x).sum().backward()
    hooked = x * 1
    hooked.register_hook(lambda g: enter())
    hooked.sum().backward()
    square(T).apply(x).sum().backward()
    (x * x).sum().backward()
    return [first, x.grad]
