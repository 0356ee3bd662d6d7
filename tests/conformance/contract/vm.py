"""VM: vmap over ops and over Functions: programs that show each id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..programs.registry import Log, constant, leaf, program, raises, settle, values

# ---- Functions -------------------------------------------------------------------------------------------------------


def _with_rule(T: Any) -> Any:
    """sin(x) * w, with a vmap staticmethod."""

    class WithRule(T.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x.sin() * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * x.cos() * w, g * x.sin()

        @staticmethod
        def jvp(ctx, dx, dw):
            x, w = ctx.saved_tensors
            return dx * x.cos() * w + x.sin() * dw

        @staticmethod
        def vmap(info, in_dims, x, w):
            x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(info.batch_size, *x.shape)
            w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w.expand(info.batch_size, *w.shape)
            return WithRule.apply(x, w), 0

    return WithRule


def _telling(T: Any) -> Any:
    """sin(x) * w, whose vmap staticmethod returns beside it what it was told, a row for each level."""

    class Telling(T.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x.sin() * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x, w):
            dims = [-1 if dim is None else dim for dim in in_dims]
            kind = ["error", "different", "same"].index(info.randomness)
            told = T.tensor([[info.batch_size, kind, *dims, *x.shape[:1], *w.shape[:1]]])
            x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(info.batch_size, *x.shape)
            w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w.expand(info.batch_size, *w.shape)
            out = Telling.apply(x, w)
            out, before = out if isinstance(out, tuple) else (out, told[:0])
            return (out, T.cat([told, before])), (0, None)

    return Telling


def _generated(T: Any, seen: list[Any] | None = None) -> Any:
    """x * x * w * k, under a generated rule."""

    class Generated(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w, k):
            return x * x * w * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, w, ctx.k = inputs
            ctx.shape = list(x.shape)
            ctx.save_for_backward(x, w)
            ctx.save_for_forward(x, w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            if seen is not None:
                seen.append([list(g.shape), ctx.shape, list(ctx.needs_input_grad)])
            return 2 * g * x * w * ctx.k, g * x * x * ctx.k, None

        @staticmethod
        def jvp(ctx, dx, dw, _):
            x, w = ctx.saved_tensors
            return (2 * x * dx * w + x * x * dw) * ctx.k

    return Generated


def _bare(T: Any, **members: Any) -> Any:
    """2 * x, with what a program adds to it."""

    class Bare(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for name, member in members.items():
        setattr(Bare, name, staticmethod(member) if callable(member) else member)
    return Bare


def _answering(T: Any, answer: Any) -> Any:
    """2 * x, whose vmap staticmethod returns what `answer` makes of the doubled batch and its dimension."""
    return _bare(T, vmap=lambda info, in_dims, x: answer(x * 2, in_dims[0]))


# ---- a Function inside vmap ------------------------------------------------------------------------------------------


@program("VM-01")
def vmap_wants_a_setup_context(T: Any, log: Log) -> Any:
    """a Function of the combined style being vmapped with a ctx of nobody knows what."""

    class Combined(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

    with raises(RuntimeError, "override the setup_context"):
        T.func.vmap(Combined.apply)(constant(T, 3))
    return Combined.apply(constant(T, 3))


@program("VM-02")
def a_rule_is_given_the_batch_and_where_it_lies(T: Any, log: Log) -> Any:
    """a vmap staticmethod being told another batch size, randomness or in_dims, or given tensors without the batch."""
    fn = _telling(T)
    x, w = constant(T, 2, 3), constant(T, 3, seed=1)
    a = T.func.vmap(fn.apply, in_dims=(0, None))(x, w)
    b = T.func.vmap(fn.apply, in_dims=(1, None), randomness="same")(x, w[:2])
    c = T.func.vmap(lambda x, w: fn.apply(x, w), in_dims=(None, 1), out_dims=1)(w[:2], x)
    return [a, b, c]


@program("VM-02")
def a_rule_is_given_containers_and_their_in_dims(T: Any, log: Log) -> Any:
    """in_dims of a container argument losing its structure."""

    class Pair(T.autograd.Function):
        @staticmethod
        def forward(pair, scale):
            return pair[0] * pair[1] * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, pair, scale):
            assert list(in_dims[0]) == [1, None]
            assert in_dims[1] is None
            return Pair.apply([pair[0].movedim(in_dims[0][0], 0), pair[1]], scale), 0

    out = T.func.vmap(lambda x: Pair.apply([x, constant(T, 2)], 3.0), in_dims=1)(constant(T, 2, 4))
    return out


@program("VM-03")
def a_rule_returns_a_pair(T: Any, log: Log) -> Any:
    """a rule that forgets out_dims being taken for one that does not."""
    x = constant(T, 3, 2)
    with raises(RuntimeError, "to have two returns"):
        T.func.vmap(_answering(T, lambda y, dim: y).apply)(x)
    with raises(RuntimeError, "to have two returns"):
        T.func.vmap(_answering(T, lambda y, dim: (y, dim, None)).apply)(x)
    return T.func.vmap(_answering(T, lambda y, dim: (y, dim)).apply)(x)


@program("VM-04")
def out_dims_of_a_rule_fit_its_output(T: Any, log: Log) -> Any:
    """out_dims of another structure passing, or negative ones and None being misread."""
    x = constant(T, 3, 2)
    with raises(RuntimeError, "returned an incompatible"):
        T.func.vmap(_answering(T, lambda y, dim: (y, (dim,))).apply)(x)
    with raises(RuntimeError, "returned an incompatible"):
        T.func.vmap(_answering(T, lambda y, dim: ((y, y), (0, 0, 0))).apply)(x)
    with raises(IndexError):
        T.func.vmap(_answering(T, lambda y, dim: (y, 5)).apply)(x)
    several = T.func.vmap(_answering(T, lambda y, dim: ((y, y.t()), (0, -1))).apply)(x)
    one_for_all = T.func.vmap(_answering(T, lambda y, dim: ((y, y + 1), 0)).apply)(x)
    same = T.func.vmap(_answering(T, lambda y, dim: (y.sum(), None)).apply)(x)
    other = T.func.vmap(_answering(T, lambda y, dim: ((y, "text"), (0, None))).apply, out_dims=(0, None))(x)
    return [several, one_for_all, same, other]


@program("VM-05", torch=False)
def a_rule_that_returns_its_argument_says_where_the_batch_is(T: Any, log: Log) -> Any:
    """the stated out_dim of an argument that is returned as it is being ignored, though it is wrong."""
    x = constant(T, 3, 3)
    kept = T.func.vmap(_bare(T, vmap=lambda info, in_dims, x: (x, in_dims[0])).apply, in_dims=1)(x)
    with raises(RuntimeError, "out_dim"):
        T.func.vmap(_bare(T, vmap=lambda info, in_dims, x: (x, 1)).apply)(x)
    return kept


@program("VM-06", torch=False)
def out_dims_of_a_rule_are_checked(T: Any, log: Log) -> Any:
    """an output with another number of examples, or True for a dimension, going through."""
    x = constant(T, 3, 2)
    with raises(RuntimeError, "batch_size"):
        T.func.vmap(_answering(T, lambda y, dim: (y[:2], 0)).apply)(x)
    with raises(RuntimeError, "bool"):
        T.func.vmap(_answering(T, lambda y, dim: (y, True)).apply)(x)
    return x


@program("VM-07")
def a_rule_is_called_once_per_level(T: Any, log: Log) -> Any:
    """a rule called at a level at which nothing is batched, or out of order in nested vmaps."""
    fn = _telling(T)
    x, w = constant(T, 2, 3), constant(T, 4, 3, seed=1)
    inner = T.func.vmap(lambda x: T.func.vmap(lambda w: fn.apply(x, w))(w))(x)
    skipped = T.func.vmap(lambda x: T.func.vmap(lambda w: fn.apply(x, x)[0] + w)(w))(x)
    return [inner, skipped]


@program("VM-08")
def a_function_has_one_way_to_be_vmapped(T: Any, log: Log) -> Any:
    """a Function with no rule, or two, being vmapped all the same, or refused where it is not vmapped."""
    x = constant(T, 3)
    with raises(RuntimeError, "does not have vmap support"):
        T.func.vmap(_bare(T).apply)(x)
    both = _bare(T, vmap=lambda info, in_dims, x: (x * 2, 0), generate_vmap_rule=True)
    with raises(RuntimeError, "generate_vmap_rule=True and"):
        T.func.vmap(both.apply)(x)
    return [_bare(T).apply(x), both.apply(x)]


@program("VM-09")
def a_generated_rule_shows_one_example(T: Any, log: Log) -> Any:
    """forward or backward seeing the batch, or gradients of shared inputs not being summed over it."""
    fn = _generated(T)
    x = T.tensor(np.arange(12.0).reshape(4, 3), requires_grad=True)  # whole numbers, whose sums have no rounding
    w = T.tensor(np.arange(3.0), requires_grad=True)
    out = T.func.vmap(lambda x, w: fn.apply(x, w, 2.0), in_dims=(0, None))(x, w)
    out.sum().backward()
    turned = T.func.vmap(lambda x, w: fn.apply(x, w, 2.0), in_dims=(1, 0), out_dims=1)(
        x.t().detach(), constant(T, 4, 3)
    )
    return [out, x.grad, w.grad, turned]


@program("VM-09")
def a_generated_rule_fits_gradients_to_inputs(T: Any, log: Log) -> Any:
    """gradients that are too large, None, or the same for all examples reaching the inputs in another shape."""

    class Odd(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, scale, mask):
            return x * scale + mask, x > 0

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(inputs[0], None, inputs[1])

        @staticmethod
        def backward(ctx, g, _):
            x, nothing, scale = ctx.saved_tensors
            assert nothing is None
            return g * scale, g * x, None

    x, scale = leaf(T, 4, 3), leaf(T, 1, seed=1)
    out, positive = T.func.vmap(lambda x, s: Odd.apply(x, s, 1.0), in_dims=(0, None))(x, scale)
    (out * constant(T, 4, 3, seed=3)).sum().backward()
    return [out, positive, positive.requires_grad, x.grad, scale.grad]


@program("VM-09", eager_only="in a session each example is an application of its own, so that they are spread")
def a_generated_rule_is_one_node(T: Any, log: Log) -> Any:
    """the node of a generated rule having another name, or backward running once per example."""
    seen: list[Any] = []
    fn = _generated(T, seen)
    x, w = leaf(T, 4, 3), constant(T, 3, seed=1)
    out = T.func.vmap(lambda x: fn.apply(x, w, 2.0))(x)
    name, shape = out.grad_fn.name(), out.grad_fn.shape
    out.sum().backward()
    return [name, shape, seen]


@program("VM-10", torch=False)
def functions_of_arrays_run_one_example_at_a_time(T: Any, log: Log) -> Any:
    """a Function that works on arrays failing under vmap, or seeing the whole batch."""

    class OnArrays(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return T.tensor(np.exp(x.detach().numpy()) * w.detach().numpy().sum())

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output, *inputs)

        @staticmethod
        def backward(ctx, g):
            out, _, w = ctx.saved_tensors
            each = g.numpy() * out.detach().numpy()
            return T.tensor(each), T.tensor(np.full(w.shape, each.sum() / w.detach().numpy().sum()))

    x, w = leaf(T, 3, 2), leaf(T, 4, seed=1)
    out = T.func.vmap(OnArrays.apply, in_dims=(0, None))(x, w)
    out.sum().backward()
    inside = T.func.vmap(T.func.grad(lambda x: OnArrays.apply(x, w.detach()).sum()))(x.detach())
    nested = T.func.vmap(T.func.vmap(OnArrays.apply, in_dims=(None, 0)), in_dims=(0, None))(
        constant(T, 2, 3), constant(T, 5, 4)
    )
    return [out, x.grad, w.grad, inside, nested]


@program("VM-10", torch=False, eager_only="in a session each example is an application of its own, which may do this")
def a_generated_rule_says_what_it_cannot_do(T: Any, log: Log) -> Any:
    """a list of outputs, or a dirty input, failing with a message that helps nobody."""
    listing = _bare(T, generate_vmap_rule=True, forward=lambda x: [x * 2])
    with raises(RuntimeError, "returned a list"):
        T.func.vmap(listing.apply)(constant(T, 3))
    dirty = _bare(T, generate_vmap_rule=True, setup_context=lambda ctx, inputs, output: ctx.mark_dirty(inputs[0]))
    with raises(RuntimeError, "mark_dirty"):
        T.func.vmap(dirty.apply)(constant(T, 3))
    return constant(T, 3)


@program("VM-11", torch=False)
def keyword_only_arguments_reach_the_rule(T: Any, log: Log) -> Any:
    """keyword-only numbers being lost under vmap, or tensors among them being taken."""

    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(x, *, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x, *, scale):
            return x * scale, in_dims[0]

    out = T.func.vmap(lambda x: Scaled.apply(x, scale=3.0))(constant(T, 3))
    with raises(NotImplementedError, "kwarg-only Tensor args"):
        T.func.vmap(lambda x: Scaled.apply(x, scale=x))(constant(T, 3))
    return out


@program("VM-12")
def randomness_is_an_option(T: Any, log: Log) -> Any:
    """random numbers drawn inside vmap without leave, alike where they should differ, or the rule not being told."""
    x = constant(T, 5, 3)
    with raises(RuntimeError, "randomness"):
        T.func.vmap(lambda x: x + T.randn(3))(x)
    with raises(RuntimeError, "'error', 'different', or 'same'"):
        T.func.vmap(lambda x: x, randomness="some")(x)
    alike = T.func.vmap(lambda x: T.rand(3) + 0 * x, randomness="same")(x).detach().numpy()
    other = T.func.vmap(lambda x: T.rand(3) + 0 * x, randomness="different")(x).detach().numpy()
    told = T.func.vmap(_telling(T).apply, randomness="different")(x, x)
    return [bool((alike == alike[0]).all()), bool((other[0] != other[1]).all()), told]


@program("VM-13", torch=False, eager_only="in a session no generated rule wraps the context: each example has its own")
def names_of_generated_rules_are_reserved(T: Any, log: Log) -> Any:
    """an attribute of ctx overwriting what a generated rule keeps there."""

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx._vmapped_kept = 3

    with raises(RuntimeError, "name collision"):
        T.func.vmap(_bare(T, generate_vmap_rule=True, setup_context=setup).apply)(constant(T, 3))
    return constant(T, 3)


@program("VM-14")
def gradients_through_vmap_and_inside_it(T: Any, log: Log) -> Any:
    """a gradient that is lost or doubled where vmap and grad meet, at any nesting, with either kind of rule."""
    wholes = np.arange(12.0).reshape(4, 3) - 5, np.arange(3.0) + 1  # whose sums have no rounding
    x, w = T.tensor(wholes[0]), T.tensor(wholes[1])
    rule, generated = _with_rule(T), _generated(T)
    out: list[Any] = []
    for apply in (rule.apply, lambda x, w: generated.apply(x, w, 3.0)):

        def total(x: Any, w: Any, apply: Any = apply) -> Any:
            return apply(x, w).sum()

        def batch(x: Any, w: Any, total: Any = total) -> Any:
            return T.func.vmap(total, in_dims=(0, None))(x, w).sum()

        def slopes(x: Any, w: Any, total: Any = total) -> Any:
            return (T.func.vmap(T.func.grad(total), in_dims=(0, None))(x, w) ** 2).sum()

        out.append(list(T.func.vmap(T.func.grad(total, argnums=(0, 1)), in_dims=(0, None))(x, w)))
        out.append(list(T.func.grad(batch, argnums=(0, 1))(x, w)))
        out.append(list(T.func.grad(slopes, argnums=(0, 1))(x, w)))
        out.append(T.func.vmap(T.func.grad(lambda x, f=total: (T.func.grad(f)(x, w) ** 2).sum()))(x))
        tracked, shared = [T.tensor(whole, requires_grad=True) for whole in wholes]
        batch(tracked, shared).backward()
        out.append([tracked.grad, shared.grad])
    settle()
    return out


# ---- vmap itself -----------------------------------------------------------------------------------------------------


@program("VM-15")
def vmap_says_what_does_not_fit(T: Any, log: Log) -> Any:
    """a call that does not fit in_dims or out_dims failing later, or with another error."""
    x, y = constant(T, 2, 3), constant(T, 5)
    vmap = T.func.vmap
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: vmap(lambda: x)(), ValueError, "got no inputs"),
        (lambda: vmap(lambda x: x, in_dims=(None,))(x), ValueError, "at least one Tensor"),
        (lambda: vmap(lambda x, y: x)(x, y), ValueError, "same size in the mapped dimension"),
        (lambda: vmap(lambda x: x, in_dims=[0])(x), ValueError, "to be int or a"),
        (lambda: vmap(lambda x: x, in_dims=(0, 0))(x), ValueError, "in_dims is not compatible with the structure"),
        (lambda: vmap(lambda x, k: x)(x, 3), ValueError, "Got in_dim=0 for an input but"),
        (lambda: vmap(lambda x: x, in_dims=2)(x), ValueError, "dimensionality"),
        (lambda: vmap(lambda x: x, out_dims="0")(x), ValueError, "must be an int, None or"),
        (lambda: vmap(lambda x: (x, x), out_dims=(0, 0, 0))(x), ValueError, "not compatible"),
        (lambda: vmap(lambda x: 3)(x), ValueError, "got type"),
        (lambda: vmap(lambda x: x, out_dims=None)(x), ValueError, "when out_dim is None"),
        (lambda: vmap(lambda x: x, out_dims=2)(x), IndexError, "Dimension out of range"),
    ]
    for run, kind, words in cases:
        with raises(kind, words):
            run()
    return [x, y]


class _Pair(NamedTuple):
    left: Any
    right: Any


@program("VM-16")
def vmap_takes_containers_keywords_and_no_examples(T: Any, log: Log) -> Any:
    """containers losing their structure, unbatched results not being expanded, or a batch of none failing."""
    x, y = constant(T, 2, 3), constant(T, 2, seed=1)
    vmap = T.func.vmap
    nested = vmap(lambda p, d: {"a": p.left * d["k"], "b": [p.right]}, in_dims=(_Pair(0, None), 0))(
        _Pair(x, constant(T, 4)), {"k": y}
    )
    keyword = vmap(lambda x, *, k: x * k)(x, k=2.0)
    single = vmap(lambda x: x, out_dims=(1,))(x)
    shared = vmap(lambda a: y)(x)
    as_it_is = vmap(lambda a: (a, y), out_dims=(0, None))(x)[1] is y
    none = vmap(lambda a: (a.sum(), a * 2, a @ a))(x[:0])
    chunks = vmap(lambda a: a.sum(), chunk_size=2)(constant(T, 5, 3))
    with raises(ValueError, "chunk_size"):
        vmap(lambda a: a, chunk_size=0)(x)
    return [nested["a"], nested["b"], keyword, single, shared, as_it_is, list(none), chunks]


@program("VM-17")
def one_value_per_example_is_not_read(T: Any, log: Log) -> Any:
    """a number, a branch or a write that would take the values of one example for those of all."""
    x, captured = constant(T, 2, 3), constant(T, 3)
    vmap = T.func.vmap
    with raises(RuntimeError, "item() on a Tensor"):
        vmap(lambda x: x.sum().item())(x)
    with raises(RuntimeError, "data-dependent control flow"):
        vmap(lambda x: x if x.sum() > 0 else -x)(x)
    with raises(RuntimeError):
        vmap(lambda x: captured.add_(x))(x)
    with raises(RuntimeError):
        vmap(lambda x: x[x > 0])(x)
    changed = constant(T, 2, 3)
    vmap(lambda x: x.mul_(2))(changed)
    put = vmap(lambda x: T.stack([x, x * 2])[:, 1:].add_(1))(x)
    return [captured, changed, put]


@program("VM-16", "VM-17")
def ops_over_batches_are_those_of_each_example(T: Any, log: Log) -> Any:
    """an op that mixes examples up: reductions, indexing, products, sorting."""
    x, m, i = constant(T, 3, 4), constant(T, 3, 4, 2), T.tensor(np.array([[0, 1], [2, 3], [1, 1]]))

    def f(x: Any, m: Any, i: Any) -> Any:
        order = x.sort(0)
        return (
            x @ m,
            x[i],
            m[i, 0],
            x.softmax(0),
            order[0],
            order[1],
            m.t().reshape(4, 2),
            m.amax(0),
            x.cumsum(0),
            x.std(),
        )

    return list(T.func.vmap(f)(x, m, i))


@program("EN-17")
def a_batch_of_gradients_goes_back_at_once(T: Any, log: Log) -> Any:
    """is_grads_batched taking the batch for a dimension of the gradient."""
    x = leaf(T, 3)
    y = (x * x).cumsum(0) * x.exp()
    (jacobian,) = T.autograd.grad(y, x, T.tensor(np.eye(3)), is_grads_batched=True, retain_graph=True)
    rows = [T.autograd.grad(y, x, T.tensor(np.eye(3)[n]), retain_graph=True)[0] for n in range(3)]
    with raises(RuntimeError, "is_grads_batched=True"):
        T.autograd.grad(y, x, T.tensor(values(4, 4)), is_grads_batched=True)
    return [jacobian, rows]


@program("EN-17")
def a_custom_backward_sees_one_gradient_of_a_batch(T: Any, log: Log) -> Any:
    """a Function's backward being given the whole batch of gradients."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert tuple(g.shape) == (3,)
            return g * 3 * x * x

    x = leaf(T, 3)
    (jacobian,) = T.autograd.grad(Cube.apply(x), x, T.tensor(np.eye(3)), is_grads_batched=True)
    return jacobian
