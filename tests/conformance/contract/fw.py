"""FW: forward mode: programs that show each id."""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, constant, leaf, program, raises, settle


def _function(T: Any, forward: Any, jvp: Any = None, **others: Any) -> Any:
    """A Function class of these static methods."""
    methods = {"forward": forward, **({} if jvp is None else {"jvp": jvp}), **others}
    return type("Made", (T.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


def _dual(T: Any, *shape: int, seed: int = 0, requires_grad: bool = False) -> Any:
    primal = leaf(T, *shape, seed=seed) if requires_grad else constant(T, *shape, seed=seed)
    return T.autograd.forward_ad.make_dual(primal, constant(T, *shape, seed=seed + 50))


# ---- FW-01 to FW-05: levels and duals --------------------------------------------------------------------------------


@program("FW-01")
def levels_are_entered_and_left(T: Any, log: Log) -> Any:
    """A level that is left open by an error, or two that are mixed up."""
    fw = T.autograd.forward_ad
    numbers: list[Any] = []
    with fw.dual_level() as level:
        numbers.append(level)
        with raises(RuntimeError, "Nested forward mode"):
            fw.enter_dual_level()
        with raises(RuntimeError, "not the last one"):
            fw.exit_dual_level(level=3)
        dual = _dual(T, 3)
        numbers.append(fw.unpack_dual(dual * 2).tangent)
    numbers.append(fw.enter_dual_level())
    fw.exit_dual_level()
    with raises(RuntimeError):
        fw.exit_dual_level()
    return numbers


@program("FW-02")
def duals_and_what_cannot_be_one(T: Any, log: Log) -> Any:
    """A dual of what has no derivative, or of two sizes."""
    fw = T.autograd.forward_ad
    x, t = constant(T, 3), constant(T, 3, seed=1)
    with raises(RuntimeError, "no level exists"):
        fw.make_dual(x, t)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        with raises(ValueError, "Expected primal to be floating point"):
            fw.make_dual(T.ones(3, dtype=T.int64), t)
        with raises(ValueError, "Expected tangent to be floating point"):
            fw.make_dual(x, T.ones(3, dtype=T.int64))
        with raises(RuntimeError, "has a different size"):
            fw.make_dual(x, constant(T, 2))
        with raises(RuntimeError):
            fw.make_dual(dual, t)
        with raises(RuntimeError):
            fw.make_dual(x, dual)
        narrow = fw.unpack_dual(fw.make_dual(x, T.ones(3, dtype=T.float32))).tangent
        return [
            dual is x,
            fw.unpack_dual(dual).tangent is t,
            dual,
            narrow,
            dual.requires_grad,
            dual._version == x._version,
        ]


@program("FW-03", "FW-04")
def unpacking_inside_and_outside_of_a_level(T: Any, log: Log) -> Any:
    """A tangent that outlives its level."""
    fw = T.autograd.forward_ad
    x, t = constant(T, 3), constant(T, 3, seed=1)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        primal, tangent = fw.unpack_dual(dual)
        again = fw.unpack_dual(primal)
        out = [primal, tangent is t, primal is x, again.tangent, fw.unpack_dual(x).tangent]
    after = fw.unpack_dual(dual)
    out += [after.primal is dual, after.tangent]
    with fw.dual_level():
        out.append(fw.unpack_dual(dual).tangent)
    return out


@program("FW-05")
def detaching_and_differentiating_duals(T: Any, log: Log) -> Any:
    """A tangent that survives detach, or one through which no gradient flows."""
    fw = T.autograd.forward_ad
    x, t = leaf(T, 3), leaf(T, 3, seed=1)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        product = _dual(T, 2) * 1
        product.detach_()
        out = [
            fw.unpack_dual(dual.detach()).tangent,
            fw.unpack_dual(product).tangent,
            "tangent=" in str(dual),
            "tangent=" in str(dual.detach()),
        ]
        primal, tangent = fw.unpack_dual(dual)
        (primal * 2 + tangent * 3).sum().backward()
    return [*out, x.grad, t.grad]


# ---- FW-06 to FW-12: jvp ---------------------------------------------------------------------------------------------


@program("FN-03", "FW-06")
def jvp_is_called_inside_apply(T: Any, log: Log) -> Any:
    """A jvp that is called late, with other arguments, or in another mode."""
    fw = T.autograd.forward_ad

    def forward(x: Any, y: Any, n: Any, s: Any) -> Any:
        log("forward", s)
        return x * y

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        log("setup_context", len(inputs))
        ctx.save_for_forward(inputs[0], inputs[1])

    def jvp(ctx: Any, *tangents: Any) -> Any:
        x, y = ctx.saved_tensors
        log("tangents", [tangents[0].clone(), tangents[1].clone(), tangents[2], tangents[3]])
        log("modes", [T.is_grad_enabled(), fw.unpack_dual(x).tangent])
        return tangents[0] * y + x * tangents[1]

    with fw.dual_level():
        out = _function(T, forward, jvp, setup_context=setup_context).apply(
            _dual(T, 2), constant(T, 2), T.ones(1, dtype=T.int64), "text"
        )
        return list(fw.unpack_dual(out))


@program("CX-20", "FW-06")
def missing_tangents_without_materialization(T: Any, log: Log) -> Any:
    """Zeros where None was asked for."""
    fw = T.autograd.forward_ad

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.y = y
        return x * y

    def jvp(ctx: Any, t: Any, u: Any) -> Any:
        return t * ctx.y if u is None else t * 0

    with fw.dual_level():
        return list(fw.unpack_dual(_function(T, forward, jvp).apply(_dual(T, 2), constant(T, 2))))


@program("FW-07")
def a_function_without_a_jvp(T: Any, log: Log) -> Any:
    """A missing jvp that stops what needs none."""
    fw = T.autograd.forward_ad
    Twice = _function(T, lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2)
    with fw.dual_level():
        plain = Twice.apply(constant(T, 2))
        with raises(NotImplementedError, "must implement the jvp function"):
            Twice.apply(_dual(T, 2))
    return plain


@program("FW-07")
def a_function_with_a_jvp_only(T: Any, log: Log) -> Any:
    """A missing backward that stops forward mode."""
    fw = T.autograd.forward_ad
    Twice = _function(T, lambda ctx, x: x * 2, lambda ctx, t: t * 2)
    with fw.dual_level():
        out = Twice.apply(_dual(T, 2, requires_grad=True))
        pair = list(fw.unpack_dual(out))
        settle()
        with raises(NotImplementedError, "must implement either the backward"):
            out.sum().backward()
    return pair


@program("FW-08", "FW-09")
def what_jvp_may_not_return(T: Any, log: Log) -> Any:
    """Tangents of the wrong number, shape or type, or of what has none."""
    fw = T.autograd.forward_ad

    def two(ctx: Any, x: Any) -> Any:
        marked = x * 2
        ctx.mark_non_differentiable(marked)
        return x * 1, marked

    with fw.dual_level():
        for returned, words in (
            (lambda ctx, t: (t, t, t), ("invalid number of forward gradients", "expected 2 but got 3")),
            (lambda ctx, t: t, ("invalid number of forward gradients", "expected 2 but got 1")),
            (lambda ctx, t: (t[:1] * 1, None), ("has a different size",)),
            (lambda ctx, t: ([t], None), ("expected Variable or None", "list")),
            (lambda ctx, t: (3.0, None), ("expected Variable or None", "float")),
            (lambda ctx, t: (t, t), ("return None at that position",)),
        ):
            with raises(RuntimeError, *words):
                _function(T, two, returned).apply(_dual(T, 2))
        with raises(RuntimeError, "return None at that position"):
            _function(T, lambda ctx, x: (x * 1, x.long()), lambda ctx, t: (t, t)).apply(_dual(T, 2))
    return None


@program("FW-08", "FW-09")
def what_jvp_may_return(T: Any, log: Log) -> Any:
    """A result of jvp that is converted, or refused beside an output that is no tensor."""
    fw = T.autograd.forward_ad
    with fw.dual_level():
        narrow = _function(T, lambda ctx, x: x * 1, lambda ctx, t: t.to(T.float32)).apply(_dual(T, 2))
        text = _function(T, lambda ctx, x: (x * 1, "text"), lambda ctx, t: (t * 2, t)).apply(_dual(T, 2))
        long = _function(T, lambda ctx, x: (x * 1, x.long()), lambda ctx, t: (t, None)).apply(_dual(T, 2))
        return [
            fw.unpack_dual(narrow).tangent,
            fw.unpack_dual(text[0]).tangent,
            text[1],
            list(fw.unpack_dual(long[0])),
            list(fw.unpack_dual(long[1])),
        ]


@program("FW-10", torch=False)
def none_from_jvp_means_no_tangent(T: Any, log: Log) -> Any:
    """None for a differentiable output that is an error."""
    fw = T.autograd.forward_ad
    with fw.dual_level():
        out = _function(T, lambda ctx, x: (x * 1, x * 2), lambda ctx, t: (None, t * 2)).apply(_dual(T, 2))
        return [list(fw.unpack_dual(item)) for item in out]


@program("FW-11")
def a_view_needs_a_view_of_its_tangent(T: Any, log: Log) -> Any:
    """A view whose tangent has a memory of its own."""
    fw = T.autograd.forward_ad
    wrong = "jvp is not returning a view"
    with fw.dual_level():
        for forward, jvp, words in (
            (lambda ctx, x: x, lambda ctx, t: t, wrong),
            (lambda ctx, x: x, lambda ctx, t: t * 1, wrong),
            (lambda ctx, x: x[:1], lambda ctx, t: t[:1] * 1, wrong),
            (lambda ctx, x: x[:1], lambda ctx, t: T.ones(2, dtype=T.float64)[:1], "of the given"),
        ):
            with raises(RuntimeError, words):
                _function(T, forward, jvp).apply(_dual(T, 2))
        same = _function(T, lambda ctx, x: x, lambda ctx, t: t.view_as(t)).apply(_dual(T, 2))
        part = _function(T, lambda ctx, x: x[:1], lambda ctx, t: t[:1]).apply(_dual(T, 2))
        fresh = _function(T, lambda ctx, x: x * 1, lambda ctx, t: t).apply(_dual(T, 2))
        return [list(fw.unpack_dual(item)) for item in (same, part, fresh)]


@program("FW-11")
def a_view_of_a_tangent_that_is_a_view(T: Any, log: Log) -> Any:
    """A view of another tangent with the same primal's shape."""
    fw = T.autograd.forward_ad
    with fw.dual_level():
        part = _dual(T, 3)[:2]
        with raises(RuntimeError, "the jvp is not returning a view of the"):
            _function(T, lambda ctx, x: x[:1], lambda ctx, t: T.ones(2, dtype=T.float64)[:1]).apply(part)
        other = _dual(T, 3)[:2]
        return list(fw.unpack_dual(_function(T, lambda ctx, x: x[:1], lambda ctx, t: t[:1]).apply(other)))


@program("FW-12")
def a_dirty_input_and_its_tangent(T: Any, log: Log) -> Any:
    """A tangent that is not changed where its primal is."""
    fw = T.autograd.forward_ad

    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    with fw.dual_level():
        with raises(RuntimeError, "must modify the corresponding gradient inplace"):
            _function(T, forward, lambda ctx, t: t * 3).apply(_dual(T, 2))
        with raises(RuntimeError, "must modify the corresponding gradient inplace"):
            _function(T, forward, lambda ctx, t: t).apply(_dual(T, 2))
        dual = _dual(T, 2)
        out = _function(T, forward, lambda ctx, t: t.mul_(3)).apply(dual)
        return [out is dual, list(fw.unpack_dual(dual))]


# ---- FW-13 to FW-15 --------------------------------------------------------------------------------------------------


def _exp(T: Any) -> Any:
    """exp, which saves its output for both modes."""

    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            ctx.save_for_forward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            (out,) = ctx.saved_tensors
            return g * out

        @staticmethod
        def jvp(ctx, t):
            (out,) = ctx.saved_tensors
            return t * out

    return Exp


@program("FW-13", "CX-22")
def both_modes_through_a_function(T: Any, log: Log) -> Any:
    """A second derivative that misses what a Function saved."""
    fw = T.autograd.forward_ad
    Exp = _exp(T)
    x, t = leaf(T, 3), constant(T, 3)
    with fw.dual_level():
        out = Exp.apply(fw.make_dual(x, t)) * x
        tangent = fw.unpack_dual(out).tangent
        (over_forward,) = T.autograd.grad(tangent.sum(), x, retain_graph=True)
        (gradient,) = T.autograd.grad(out.sum(), x)
        return [tangent, over_forward, gradient, fw.unpack_dual(gradient).tangent]


@program("FW-13")
def both_modes_through_operations(T: Any, log: Log) -> Any:
    """A second derivative that one of the two modes does not see."""
    fw = T.autograd.forward_ad
    x, w, t = leaf(T, 3), leaf(T, 3, 3, seed=1), constant(T, 3)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        out = (dual @ w).tanh() * dual.sum() + (dual**2).log()
        tangent = fw.unpack_dual(out).tangent
        over_forward = T.autograd.grad(tangent.sum(), (x, w), retain_graph=True)
        by_dual = T.autograd.grad(out.sum(), (dual, w))
        return [tangent, over_forward, by_dual, [fw.unpack_dual(g).tangent for g in by_dual]]


@program("FW-14")
def in_place_changes_of_duals(T: Any, log: Log) -> Any:
    """A tangent that stays behind when its primal is changed in place."""
    fw = T.autograd.forward_ad
    with fw.dual_level():
        dual = _dual(T, 3)
        alias = dual.detach()
        dual.mul_(2)
        dual[:2].add_(dual[1:] * dual[1:])
        base = T.zeros(4, dtype=T.float64)
        early, late = base[:2], base[2:]
        base[1:3].copy_(_dual(T, 2, seed=7))
        kept = _dual(T, 2)
        kept[0] = 5.0
        tensors = (dual, alias, base, early, late, kept)
        return [[t, fw.unpack_dual(t).tangent] for t in tensors]


@program("FW-14")
def what_a_dual_was_made_of_gets_no_tangent(T: Any, log: Log) -> Any:
    """A tangent that leaks into the tensor under a dual."""
    fw = T.autograd.forward_ad
    primal, tangent = constant(T, 3), constant(T, 3, seed=1)
    with fw.dual_level():
        dual = fw.make_dual(primal, tangent)
        dual.mul_(2)
        return [primal, fw.unpack_dual(primal).tangent, tangent, fw.unpack_dual(dual).tangent is tangent]


@program("FW-15")
def an_error_in_jvp_is_the_users_own(T: Any, log: Log) -> Any:
    """An exception of jvp that comes out as another."""
    fw = T.autograd.forward_ad

    def jvp(ctx: Any, t: Any) -> Any:
        raise KeyError("mine")

    with fw.dual_level():
        with raises(KeyError, "mine"):
            _function(T, lambda ctx, x: x * 1, jvp).apply(_dual(T, 2))
        return fw.unpack_dual(_dual(T, 2)).tangent


# ---- inputs that are changed in place, differentiated further --------------------------------------------------------


def _scaled_in_place(T: Any) -> Any:
    """x *= y, in place, and its jvp."""

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return x.mul_(y)

    return _function(
        T,
        forward,
        lambda ctx, tx, ty: tx.mul_(ctx.saved_tensors[0]),
        backward=lambda ctx, g: (g * ctx.saved_tensors[0], None),
    )


@program("FW-12", "FW-13")
def a_dirty_input_that_requires_grad(T: Any, log: Log) -> Any:
    """An input in place whose change counts for one of both modes, or is refused where its gradient is wanted."""
    fw = T.autograd.forward_ad
    Scaled, factor = _scaled_in_place(T), constant(T, 2, seed=7)
    x, moved = leaf(T, 2), leaf(T, 2, seed=3)
    result = []
    with fw.dual_level():
        dual = fw.make_dual(x.clone(), constant(T, 2))  # a view of the clone
        out = Scaled.apply(dual, factor)
        result += [out is dual, *fw.unpack_dual(dual)]
        out.sum().backward()
        result.append(x.grad.clone())
        y = fw.make_dual(x * 1, moved * 1)
        tangent = fw.unpack_dual(Scaled.apply(y * y, factor)).tangent
        result += T.autograd.grad((tangent * tangent).sum(), (x, moved))
    with fw.dual_level():
        with raises(RuntimeError, "a leaf Variable that requires grad"):
            Scaled.apply(fw.make_dual(x, constant(T, 2)).requires_grad_(), factor)
    return result


@program("FW-12")
def a_dirty_view_and_a_dirty_tangent(T: Any, log: Log) -> Any:
    """A change in place of a part that its base does not see, or of a tangent that its holder does not."""
    fw = T.autograd.forward_ad
    Scaled, x = _scaled_in_place(T), leaf(T, 3)
    with fw.dual_level():
        base = fw.make_dual(x.clone(), constant(T, 3)).clone()
        out = Scaled.apply(base[1:], constant(T, 2, seed=7))
        result = [*fw.unpack_dual(out), *fw.unpack_dual(base)]
        base.sum().backward()
        tangent = constant(T, 2, seed=5)
        other = Scaled.apply(fw.make_dual(constant(T, 2), tangent), constant(T, 2, seed=7))
        result += [*fw.unpack_dual(other), tangent, x.grad]
    return result


@program("FW-12", "FW-13", "GC-02")
def gradcheck_of_a_dirty_input(T: Any, log: Log) -> Any:
    """Derivatives of a Function with a second output that fail where the first is an input in place."""

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(3), y * 2

    Both = _function(T, forward, lambda ctx, tx, ty: (tx.mul_(3), ty * 2), backward=lambda ctx, g, h: (g * 3, h * 2))
    inputs = leaf(T, 2), leaf(T, 2, seed=1)

    def run(a: Any, b: Any) -> Any:
        return Both.apply(a * 1, b)

    return (
        T.autograd.gradcheck(run, inputs, check_forward_ad=True),
        T.autograd.gradgradcheck(run, inputs, check_fwd_over_rev=True),
    )
