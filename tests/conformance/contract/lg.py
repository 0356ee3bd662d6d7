"""LG: once_differentiable, InplaceFunction, NestedIOFunction, old names: programs that show each id."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..programs.registry import constant, leaf, program, raises, warns


class Pair(NamedTuple):
    left: Any
    right: Any


TWICE = "differentiate twice", "once_differentiable"


def cube(T: Any) -> Any:
    """x**3, whose backward is differentiable once."""

    class OnceCube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            """Three times the square."""
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    return OnceCube


@program("LG-01", tags=["create_graph"])
def once_runs_unrecorded_and_keeps_its_name(T: Any, log: Any) -> Any:
    """The wrapped backward is recorded, or the wrapper hides its name and doc."""

    class Seen(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            """Product."""
            log("recording", T.is_grad_enabled())
            x, _ = ctx.saved_tensors
            return None, g * x

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    w = constant(T, 3).requires_grad_()
    gx, gy = T.autograd.grad(Seen.apply(x, y), [x, y], w, create_graph=True, allow_unused=True)
    return [gx, gy, gy.requires_grad, Seen.backward.__name__, Seen.backward.__doc__]


@program("LG-01", "BW-03")
def once_does_not_make_a_list_a_tuple(T: Any, log: Any) -> Any:
    """A list from a wrapped backward is taken for a sequence of gradients."""

    class Listed(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            return [g, g]

    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    with raises(RuntimeError):
        Listed.apply(x, y).sum().backward()
    return [x.grad, y.grad]


@program("LG-02", tags=["create_graph"])
def once_raises_when_its_result_is_differentiated(T: Any, log: Any) -> Any:
    """Differentiating the gradient of a once-differentiable Function gives zeros instead of an error."""
    x = leaf(T, 3)
    w = constant(T, 3).requires_grad_()
    (g,) = T.autograd.grad(cube(T).apply(x), x, w, create_graph=True)
    value = g.detach() * 1
    with raises(RuntimeError, *TWICE):
        (g * g).sum().backward()
    return [value, g.requires_grad, x.grad]


@program("LG-02", tags=["create_graph"])
def once_leaves_an_input_unused(T: Any, log: Any) -> Any:
    """grad() for a certain input runs the error node, or does not report the input as unused."""
    x = leaf(T, 3)
    w = constant(T, 3).requires_grad_()
    (g,) = T.autograd.grad(cube(T).apply(x), x, w, create_graph=True)
    with raises(RuntimeError, "appears to not have been used"):
        T.autograd.grad(g.sum(), x)
    (w2,) = T.autograd.grad((g * w).sum(), w, allow_unused=True)
    return [T.autograd.grad(g.sum(), x, allow_unused=True), w2]


@program("LG-03", tags=["create_graph"], torch=False)
def once_raises_also_with_implicit_ones(T: Any, log: Any) -> Any:
    """With no incoming gradient that requires grad the result silently loses its history."""
    x = leaf(T, 3)
    (g,) = T.autograd.grad(cube(T).apply(x).sum(), x, create_graph=True)
    with raises(RuntimeError, *TWICE):
        (g * x).sum().backward()
    return [g.requires_grad, x.grad]


@program("LG-03", "FT-06", tags=["create_graph"], torch=False)
def once_raises_where_it_is_a_part_of_the_derivative(T: Any, log: Any) -> Any:
    """A backward that adds a differentiable term to a once-differentiable one loses the latter's derivative."""
    Once = cube(T)

    class Sum(Once):
        @staticmethod
        def backward(ctx, g):
            return Once.backward(ctx, g) + g * ctx.saved_tensors[0]

    x = leaf(T, 3)
    (g,) = T.autograd.grad(Sum.apply(x).sum(), x, create_graph=True)
    with raises(RuntimeError, *TWICE):
        (gg,) = T.autograd.grad(g.sum(), x, allow_unused=True)
        gg.tolist()
    return g.detach()


@program("LG-04")
def inplace_functions_keep_their_flag_on_instances(T: Any, log: Any) -> Any:
    """InplaceFunction lacks its flag, puts it on the context, or does not apply like a Function."""

    class Scale(T.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x):
            log("flag on ctx", hasattr(ctx, "inplace"))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with warns(DeprecationWarning, "should not be instantiated"):
        flags = [Scale().inplace, Scale(True).inplace, Scale(inplace=True).inplace]
    x = leaf(T, 2)
    y = Scale.apply(x)
    y.sum().backward()
    return [flags, y, x.grad]


def mixing(T: Any, log: Any) -> Any:
    """(a, {"x": x, "none": None}) to Pair({"product": a x}, [2 a, None])."""

    class Mixing(T.autograd.function.NestedIOFunction):
        scale = 1.0

        def forward_extended(self, a, named):
            log("inputs", [a.requires_grad, sorted(named), named["none"]])
            self.save_for_backward(a, [named["x"], None])
            return Pair({"product": a * named["x"] * self.scale}, [a * 2, None])

        def backward_extended(self, first, second):
            a, (x, none) = self.saved_tensors
            log("saved", [none, sorted(first), len(second), second[1]])
            product = first["product"] * self.scale
            return product * x + second[0] * 2, {"x": product * a, "none": None}

    return Mixing


@program("LG-05", "LG-06", "LG-08", "LG-10", "LG-11", torch=False)
def nested_values_go_in_and_come_out_by_apply(T: Any, log: Any) -> Any:
    """A nested Function gets flat or tracked inputs, or gives back a named tuple or dictionary in another shape."""
    a, x = leaf(T, 3), leaf(T, 3, seed=1)
    out = mixing(T, log).apply(a, {"x": x, "none": None})
    ((out.left["product"] ** 2).sum() + out.right[0].sum()).backward()
    return [type(out).__name__, list(out.left), out.left["product"], out.right, a.grad, x.grad]


@program("LG-05", "LG-06", torch=False)
def nested_values_go_through_an_instance(T: Any, log: Any) -> Any:
    """Calling an instance fails, or the attributes that it was given are not there in forward and backward."""
    with warns(DeprecationWarning, "should not be instantiated"):
        mix = mixing(T, log)()
    mix.scale = 3.0
    a, x = leaf(T, 3), leaf(T, 3, seed=1)
    out = mix(a, {"x": x, "none": None})
    out.left["product"].sum().backward()
    return [out, a.grad, x.grad]


@program("LG-05", torch=False)
def nested_functions_say_what_is_not_written(T: Any, log: Any) -> Any:
    """A missing forward_extended or backward_extended fails with something other than what to write."""

    class Bare(T.autograd.function.NestedIOFunction):
        pass

    class Half(T.autograd.function.NestedIOFunction):
        def forward_extended(self, x):
            return [x * 2]

    x = leaf(T, 2)
    with raises(NotImplementedError, "forward_extended"):
        Bare.apply(x)
    (y,) = Half.apply(x)
    with raises(NotImplementedError, "backward_extended"):
        y.sum().backward()
    return y.detach()


@program("LG-07", torch=False)
def nested_values_hold_tensors_and_none_only(T: Any, log: Any) -> Any:
    """A number or a string in a nested argument goes through unseen."""
    Mixing = mixing(T, log)
    for stranger in (3, "text", {1, 2}):
        with raises(ValueError, "Auto nesting doesn't know", type(stranger).__name__):
            Mixing.apply(leaf(T, 2), [stranger])

    class Gives(T.autograd.function.NestedIOFunction):
        def forward_extended(self, x):
            return [x, 1.5]

    with raises(ValueError, "Auto nesting doesn't know", "float"):
        Gives.apply(leaf(T, 2))


@program("LG-08", "CX-09", tags=["create_graph"], torch=False)
def nested_saves_are_flat_and_come_back_nested(T: Any, log: Any) -> Any:
    """`to_save` is nested, `saved_tensors` flat, or saved inputs come back without their history."""

    class Product(T.autograd.function.NestedIOFunction):
        def forward_extended(self, pair):
            out = pair[0] * pair[1]
            self.save_for_backward({"pair": pair, "out": (out, None)})
            log("to_save", len(self.to_save))
            return out

        def backward_extended(self, g):
            (saved,) = self.saved_tensors
            (a, b), (out, none) = saved["pair"], saved["out"]
            log("saved", [len(self.saved_tensors), none, out.shape[0]])
            return [g * b, g * a]

    a, b = leaf(T, 3), leaf(T, 3, seed=1)
    y = Product.apply([a, b])
    ga, gb = T.autograd.grad((y * y).sum(), [a, b], create_graph=True)
    return [ga, gb, *T.autograd.grad((ga * gb).sum(), [a, b])]


@program("LG-09", torch=False)
def nested_marks_take_positional_and_named_containers(T: Any, log: Any) -> Any:
    """Nested marks are not flattened, so marked outputs require grad."""

    class Marked(T.autograd.function.NestedIOFunction):
        def forward_extended(self, x):
            out = [x * 2, x * 3, {"last": x * 4}]
            self.mark_non_differentiable(out[1:2], named=out[2])
            log("marked", len(self.non_differentiable))
            return out

        def backward_extended(self, first, second, third):
            return first * 2

    x = leaf(T, 2)
    first, second, third = Marked.apply(x)
    first.sum().backward()
    return [first.requires_grad, second.requires_grad, third["last"].requires_grad, x.grad]


@program("LG-10", "BW-10", torch=False)
def nested_gradients_may_be_none_for_a_whole_container(T: Any, log: Any) -> Any:
    """None in a nested result is dropped, so that the gradients after it go to the wrong inputs."""

    class Skips(T.autograd.function.NestedIOFunction):
        def forward_extended(self, many, nothing, one):
            return one * many[0], None

        def backward_extended(self, g, none):
            log("gradient of None", none)
            return None, None, g * 2

    a, b, c = leaf(T, 2), leaf(T, 2, seed=1), leaf(T, 2, seed=2)
    y, none = Skips.apply([a, (b,)], None, c)
    y.sum().backward()
    return [none, a.grad, b.grad, c.grad]


@program("LG-10", "LG-11", torch=False)
def nested_gradients_are_grouped_like_the_output(T: Any, log: Any) -> Any:
    """A dictionary or a named tuple in the output reaches backward as something else."""

    class Shapes(T.autograd.function.NestedIOFunction):
        def forward_extended(self, x):
            return {"pair": Pair(x * 2, (x * 3, None)), "none": None}

        def backward_extended(self, g):
            log("kinds", [sorted(g), type(g["pair"]).__name__, type(g["pair"].right).__name__, g["none"]])
            return g["pair"].left * 2 + g["pair"].right[0] * 3

    x = leaf(T, 2)
    out = Shapes.apply(x)
    (out["pair"].left.sum() + (out["pair"].right[0] * constant(T, 2)).sum()).backward()
    return [list(out), out["none"], x.grad]


@program("LG-12", torch=False)
def nestings_are_released_with_what_was_saved(T: Any, log: Any) -> Any:
    """A second pass over a freed nested Function finds its nesting, or a retained one does not."""
    a, x = leaf(T, 3), leaf(T, 3, seed=1)
    y = mixing(T, log).apply(a, {"x": x, "none": None}).left["product"].sum()
    y.backward(retain_graph=True)
    y.backward()
    with raises(RuntimeError, "Specify retain_graph=True"):
        y.backward()
    return [a.grad, x.grad]


@program("LG-12", torch=False)
def nestings_are_released_where_nothing_was_saved(T: Any, log: Any) -> Any:
    """A nested Function that saved nothing keeps its nesting for ever."""

    class Twice(T.autograd.function.NestedIOFunction):
        def forward_extended(self, pair):
            return [pair[0] * 2, pair[1] * 2]

        def backward_extended(self, first, second):
            return [first * 2, second * 2]

    a, b = leaf(T, 2), leaf(T, 2, seed=1)
    y = Twice.apply([a, b])[0].sum()
    y.backward()
    with raises(RuntimeError, "Specify retain_graph=True"):
        y.backward()
    return [a.grad, b.grad]


@program("LG-13")
def old_names_are_there(T: Any, log: Any) -> Any:
    """`Variable` is no tensor type, or the lowercase factory does something."""
    with raises(RuntimeError, "deprecated", "tensor"):
        T.autograd.variable([1.0])
    x = leaf(T, 2)
    plain, again = T.autograd.Variable(x), T.autograd.Variable(x * 2, requires_grad=True)
    (again * 3).sum().backward()
    shared = constant(T, 2)
    T.autograd.Variable(shared).mul_(5)
    return [
        T.autograd.Variable is T.Tensor or isinstance(leaf(T, 1), T.autograd.Variable),
        [plain, plain.requires_grad, plain.is_leaf, again, again.is_leaf, again.grad, x.grad, shared],
    ]


# ---- what classes, instances and contexts show (FN-17, FN-24, FN-25) -----------------------------------------------

MEMBERS = (
    "apply forward setup_context backward vjp jvp vmap save_for_backward save_for_forward mark_dirty "
    "mark_non_differentiable mark_shared_storage set_materialize_grads maybe_clear_saved_tensors name register_hook "
    "register_prehook dirty_tensors generate_vmap_rule materialize_grads metadata needs_input_grad next_functions "
    "non_differentiable requires_grad saved_for_forward saved_tensors to_save"
).split()


@program("FN-17")
def an_instance_warns_and_can_only_apply(T: Any, log: Any) -> Any:
    """Making an instance is silent, calling it runs something, or its apply is not the class's."""
    Double = doubling(T)
    with warns(DeprecationWarning, "should not be instantiated"):
        made = Double()
    x = leaf(T, 2)
    with raises(RuntimeError, "Legacy autograd function", "non-static forward method is deprecated"):
        made(x)
    y = made.apply(x)
    y.sum().backward()
    return [y, x.grad]


@program("FN-17", torch=False)
def an_instance_has_no_node(T: Any, log: Any) -> Any:
    """An instance answers for a node that it does not have."""
    with warns(DeprecationWarning, "should not be instantiated"):
        made = doubling(T)()
    for name in ("name", "next_functions", "register_hook", "register_prehook"):
        with raises(RuntimeError, f"Attribute '{name}' is invalid"):
            getattr(made, name)
    with raises(RuntimeError, "is gone"):
        made.metadata  # noqa: B018
    return [made.to_save is None, len(made.saved_tensors)]


@program("FN-24", torch=False)
def class_and_context_have_the_public_members(T: Any, log: Any) -> Any:
    """A member is missing on the class, on the context in forward or backward, or on the node."""

    class Shows(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("missing in forward", [name for name in MEMBERS if not hasattr(ctx, name)])
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log("missing in backward", [name for name in MEMBERS if not hasattr(ctx, name)])
            return g * 2

    x = leaf(T, 2)
    y = Shows.apply(x)
    missing = [[name for name in MEMBERS if not hasattr(holder, name)] for holder in (Shows, y.grad_fn)]
    y.sum().backward()
    return [missing, x.grad]


@program("FN-25")
def stubs_say_what_to_write(T: Any, log: Any) -> Any:
    """A method that is not written fails with something other than which to write, for what."""
    Base = T.autograd.Function
    with raises(NotImplementedError, "setup_context is not implemented"):
        Base.setup_context(None, (), None)
    with raises(NotImplementedError, "must implement the jvp function"):
        Base.jvp(None)
    with raises(NotImplementedError, "override the vmap staticmethod", "generate_vmap_rule=True"):
        Base.vmap(None, ())
    with raises(NotImplementedError, "must implement the forward"):
        Base.forward()
    for stub in (Base.backward, Base.vjp):
        with raises(NotImplementedError, "must implement either the backward or vjp"):
            stub(None)


def doubling(T: Any) -> Any:
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double
