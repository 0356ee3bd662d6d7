"""FN: Function classes, what they have, lack and inherit: programs that show each id from FN-14."""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, leaf, program, raises, warns
from .making import doubled, function, once


@program("FN-14")
def forward_not_written(T: Any, log: Log) -> Any:
    """A class without forward, or the base class itself, that can be applied."""

    class Empty(T.autograd.Function):
        pass

    for cls in (Empty, T.autograd.Function):
        with raises(NotImplementedError, "must implement the forward"):
            cls.apply(leaf(T, 2))
    return []


@program("FN-15", "FN-16")
def backward_not_written_or_written_twice(T: Any, log: Log) -> Any:
    """A missing or doubled backward that is found out before its node runs, or never."""
    x = leaf(T, 3)
    y = function(T, doubled).apply(x)
    z = function(T, doubled, once, vjp=staticmethod(once)).apply(x)
    shapes = [list(y.shape), list(z.shape)]
    with raises(NotImplementedError, "must implement either the backward"):
        y.sum().backward()
    with raises(RuntimeError, "Implementing both 'backward' and 'vjp'"):
        z.sum().backward()
    function(T, doubled, vjp=staticmethod(lambda ctx, g: g * 2)).apply(x).sum().backward()
    return [shapes, y, z, x.grad]


@program("FN-17")
def instances_of_functions(T: Any, log: Log) -> Any:
    """An instance that can be called, does not warn, or answers as a node."""
    cls = function(T, doubled, lambda ctx, g: g * 2)
    with warns(DeprecationWarning, "should not be instantiated"):
        made = cls()
    with raises(RuntimeError, "Legacy autograd function", "non-static forward method is deprecated"):
        made(leaf(T, 3))
    x = leaf(T, 3)
    y = made.apply(x)
    y.sum().backward()
    return [y, x.grad]


@program("FN-17", torch=False)
def instances_are_no_nodes(T: Any, log: Log) -> Any:
    """An instance that answers as the node that it is not."""
    with warns(DeprecationWarning, "should not be instantiated"):
        made = function(T, doubled, once)()
    for name in ("name", "next_functions", "register_hook", "register_prehook"):
        with raises(RuntimeError, f"Attribute '{name}' is invalid"):
            getattr(made, name)
    with raises(RuntimeError, "is gone"):
        _ = made.metadata
    return []


@program("FN-18")
def methods_of_each_kind(T: Any, log: Log) -> Any:
    """A class method that does not get its class, a plain function that gets a self."""

    class OfClass(T.autograd.Function):
        factor = 2.0

        @classmethod
        def forward(cls, x):
            return x * cls.factor

        @classmethod
        def setup_context(cls, ctx, inputs, output):
            ctx.factor = cls.factor

        @classmethod
        def backward(cls, ctx, g):
            return g * cls.factor * ctx.factor

    class Plain(T.autograd.Function):
        def forward(x):  # pyright: ignore[reportSelfClsParameterName]
            return x * 3.0

        def setup_context(ctx, inputs, output):  # pyright: ignore[reportSelfClsParameterName]
            ctx.factor = 3.0

        def backward(ctx, g):  # pyright: ignore[reportSelfClsParameterName]
            return g * ctx.factor

    x = leaf(T, 3)
    outputs = [OfClass.apply(x), Plain.apply(x)]
    total: Any = sum(outputs)
    total.sum().backward()
    return [*outputs, x.grad]


@program("FN-19", "FN-20")
def classes_that_inherit(T: Any, log: Log) -> Any:
    """A node named after, or of the type of, the parent class."""

    class Parent(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Child(Parent):
        @staticmethod
        def backward(ctx, g):
            return Parent.backward(ctx, g) * 10

    class Grandchild(Child):
        @staticmethod
        def forward(ctx, x):
            return x * 3

    x = leaf(T, 3)
    result = []
    for cls in (Parent, Child, Grandchild):
        y = cls.apply(x)
        (g,) = T.autograd.grad(y.sum(), x)
        node = cls._backward_cls
        result += [y, g, y.grad_fn.name(), node.__name__, type(y.grad_fn).__name__, node._forward_cls is cls]
    ids = {cls._backward_cls._autograd_function_id for cls in (Parent, Child, Grandchild)}
    return [*result, len(ids), issubclass(Child._backward_cls, Parent._backward_cls)]


@program("FN-21")
def exceptions_in_forward_and_setup_context(T: Any, log: Log) -> Any:
    """An exception that arrives as another one, or leaves recording switched off."""

    def failing(*args):
        raise KeyError("in the user's code")

    def single(x):
        return x * 2

    x, modes = leaf(T, 3), []
    for cls in (
        function(T, failing, once),
        function(T, single, once, setup_context=staticmethod(failing)),
    ):
        with raises(KeyError, "in the user's code"):
            cls.apply(x)
        modes.append(T.is_grad_enabled())
    y = function(T, doubled, lambda ctx, g: g * 2).apply(x)
    y.sum().backward()
    return [modes, y.requires_grad, x.grad]


@program("FN-22")
def modes_that_forward_flips(T: Any, log: Log) -> Any:
    """A mode that survives the Function that set it."""

    def forward(ctx, x):
        T.set_grad_enabled(True)
        y = x * 2
        log("inside", [T.is_grad_enabled(), y.requires_grad])
        return y

    x = leaf(T, 3)
    cls = function(T, forward, lambda ctx, g: g * 2)
    with T.no_grad():
        y = cls.apply(x)
        modes = [T.is_grad_enabled(), y.requires_grad]
    z = cls.apply(x)
    z.sum().backward()
    return [modes, T.is_grad_enabled(), y, x.grad]


@program("FN-23")
def flags_of_a_class(T: Any, log: Log) -> Any:
    """A flag that is taken although it is no bool, or that is on by default."""
    Function = T.autograd.Function
    defaults = [Function.generate_vmap_rule, Function.clear_saved_tensors_on_access, Function.boxed_grads_call]
    for flag in ("clear_saved_tensors_on_access", "boxed_grads_call"):
        with raises(RuntimeError, flag, "must be a bool", "int"):
            function(T, doubled, once, **{flag: 1}).apply(leaf(T, 3))  # pyright: ignore[reportArgumentType]
    return defaults


MEMBERS = (
    "apply forward setup_context backward vjp jvp vmap save_for_backward save_for_forward mark_dirty "
    "mark_non_differentiable mark_shared_storage set_materialize_grads maybe_clear_saved_tensors name register_hook "
    "register_prehook dirty_tensors generate_vmap_rule materialize_grads metadata needs_input_grad next_functions "
    "non_differentiable requires_grad saved_for_forward saved_tensors saved_variables to_save"
).split()
WRITE_ONLY = "materialize_grads"  # upstream: reading it raises (CX-20)


@program("FN-24")
def members_of_the_class(T: Any, log: Log) -> Any:
    """A documented member that the class lacks."""
    return [name for name in MEMBERS if not hasattr(T.autograd.Function, name) and name != WRITE_ONLY]


@program("FN-24", torch=False)
def members_of_the_context(T: Any, log: Log) -> Any:
    """A documented member that the context lacks, in forward or in backward."""
    members = MEMBERS

    def forward(ctx, x):
        log("forward", [name for name in members if not hasattr(type(ctx), name)])
        return x * 2

    def backward(ctx, g):
        log("backward", [name for name in members if not hasattr(type(ctx), name)])
        return g

    x = leaf(T, 3)
    function(T, forward, backward).apply(x).sum().backward()
    return [x.grad]


@program("FN-25")
def what_the_stubs_say(T: Any, log: Log) -> Any:
    """A method that is not written and does not say which to write."""
    Function = T.autograd.Function
    for stub, args, words in (
        (Function.setup_context, (None, (), None), ["not implemented"]),
        (Function.jvp, (None, None), ["must implement the jvp function"]),
        (Function.vmap, (None, (), None), ["vmap", "generate_vmap_rule=True"]),
        (Function.forward, (), ["must implement the forward"]),
        (Function.backward, (None,), ["must implement either the backward"]),
    ):
        with raises(NotImplementedError, *words):
            stub(*args)
    return []
