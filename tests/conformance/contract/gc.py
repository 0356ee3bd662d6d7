"""GC: gradcheck and gradgradcheck: programs that show each id."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..programs.functions import cube
from ..programs.registry import Log, constant, leaf, program, raises, warns


def _wrong(T: Any) -> Any:
    """x * y, with a wrong gradient by y."""

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x * 2

    return Wrong


@program("GC-01")
def gradcheck_tells_right_from_wrong(T: Any, log: Log) -> Any:
    """gradcheck passing a wrong backward, failing a right one, or swallowing other exceptions than its own."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    right = T.autograd.gradcheck(
        lambda a, b: cube(T).apply(a) * b, (x, y), eps=1e-6, atol=1e-5, rtol=1e-3, nondet_tol=0.0
    )
    wrong = T.autograd.gradcheck(_wrong(T).apply, (x, y), raise_exception=False)
    loose = T.autograd.gradcheck(_wrong(T).apply, (x, y), atol=100.0)

    def broken(a: Any) -> Any:
        raise KeyError("mine")

    with raises(KeyError, "mine"):
        T.autograd.gradcheck(broken, (x,), raise_exception=False)
    with raises(ValueError, "to require gradient"):
        T.autograd.gradcheck(T.sin, (constant(T, 2),), raise_exception=False)
    return right, wrong, loose, x.grad


@program("GC-01")
def gradcheck_takes_a_bare_tensor_and_dtypes(T: Any, log: Log) -> Any:
    """One tensor in place of a tuple refused, or the check of dtypes failing gradients that are right."""
    x = leaf(T, 2, 2)
    return (
        T.autograd.gradcheck(T.sin, x, check_grad_dtypes=True, check_undefined_grad=False),
        T.autograd.gradcheck(T.sin, x, fast_mode=True),
    )


@program("GC-02")
def gradgradcheck_of_given_and_of_random_gradients(T: Any, log: Log) -> Any:
    """gradgradcheck leaving out the gradients of the outputs, or failing on gradients with gaps in memory."""
    x = leaf(T, 3)
    cubed = cube(T).apply
    return (
        T.autograd.gradgradcheck(cubed, (x,)),
        T.autograd.gradgradcheck(cubed, x, leaf(T, 3, seed=5)),
        T.autograd.gradgradcheck(cubed, (x,), (constant(T, 3),)),
        T.autograd.gradgradcheck(cubed, (x,), gen_non_contig_grad_outputs=True, fast_mode=True),
        T.autograd.gradgradcheck(lambda a: (T.sin(a), a.sum()), (x,)),
    )


@program("GC-02", "GC-12")
def third_derivative_of_a_function_is_checked(T: Any, log: Log) -> Any:
    """A backward whose backward's backward is wrong or lost on the way to a worker."""
    Cube = cube(T)
    x = leaf(T, 2, 2)

    def slope(a: Any) -> Any:
        (first,) = T.autograd.grad(Cube.apply(a).sum(), a, create_graph=True)
        return first

    return (
        T.autograd.gradcheck(Cube.apply, (x,)),
        T.autograd.gradgradcheck(Cube.apply, (x,)),
        T.autograd.gradcheck(slope, (x,)),
        T.autograd.gradgradcheck(slope, (x,)),
    )


@program("GC-03")
def mismatch_names_output_and_input(T: Any, log: Log) -> Any:
    """A failure that does not say which Jacobian is wrong, or does not show it, slow or fast."""
    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    words = ("Jacobian mismatch for output 0 with respect to input 1", "numerical:", "analytical:")
    for fast in (False, True):
        with raises(RuntimeError, *words):
            T.autograd.gradcheck(_wrong(T).apply, (x, y), fast_mode=fast)
    with raises(RuntimeError, "Jacobian mismatch for output 1 with respect to input 1"):
        T.autograd.gradcheck(lambda a, b: (a * b, _wrong(T).apply(a, b)), (x, y))
    return None


@program("GC-04")
def inputs_that_cannot_be_checked(T: Any, log: Log) -> Any:
    """Inputs on which a check would mean nothing, checked all the same."""
    x = leaf(T, 3)
    with raises(ValueError, "to require gradient"):
        T.autograd.gradcheck(T.sin, (constant(T, 3),))
    with raises(RuntimeError, "stride 0"):
        T.autograd.gradcheck(T.sin, (leaf(T, 1).expand(3),))
    with warns(UserWarning, "is not a double precision"):
        T.autograd.gradcheck(T.sin, (leaf(T, 2, dtype="float32"),), eps=1e-3, atol=1e-2)
    with raises(AssertionError, "Expected at least one of"):
        T.autograd.gradcheck(T.sin, (x,), check_backward_ad=False)
    with raises(AssertionError, "Expected at least one of"):
        T.autograd.gradgradcheck(T.sin, (x,), check_rev_over_rev=False)
    with raises(AssertionError, "check_undefined_grad=True requires check_rev_over_rev"):
        T.autograd.gradgradcheck(T.sin, (x,), check_rev_over_rev=False, check_fwd_over_rev=True)
    return None


@program("GC-05")
def backward_that_differs_from_run_to_run(T: Any, log: Log) -> Any:
    """Chance in a backward taken for a wrong formula, or not seen at all."""

    class Chance(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * (2 + 1e-7 * float(np.random.default_rng().random()))

    x = leaf(T, 2)
    with raises(RuntimeError, "Backward is not reentrant"):
        T.autograd.gradcheck(Chance.apply, (x,))
    return T.autograd.gradcheck(Chance.apply, (x,), nondet_tol=1e-6)


@program("GC-06")
def zero_gradient_that_gives_another(T: Any, log: Log) -> Any:
    """A backward that adds something of its own to what it is given."""

    class Adds(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if bool((g != 0).any()) else g + 1

    with raises(RuntimeError, "backward not multiplied by grad_output"):
        T.autograd.gradcheck(Adds.apply, (leaf(T, 2),))
    return None


@program("GC-07")
def undefined_gradients_have_to_be_handled(T: Any, log: Log) -> Any:
    """A backward that fails without a gradient passing; one that handles it failing."""

    class Fails(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("no gradient")
            return g * 2

    class Handles(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            out = None if g is None else g * 2
            if h is not None:
                out = h * 3 if out is None else out + h * 3
            return out

    x = leaf(T, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns as well
        with raises(RuntimeError, "handle undefined output grads"):
            T.autograd.gradcheck(Fails.apply, (x,))
    return (
        T.autograd.gradcheck(Fails.apply, (x,), check_undefined_grad=False),
        T.autograd.gradcheck(Handles.apply, (x,)),
        T.autograd.gradcheck(cube(T).apply, (x,)),
    )


@program("GC-09")
def functions_without_a_gradient(T: Any, log: Log) -> Any:
    """A graph that was cut on the way passing as a constant; a constant, or no output at all, failing."""
    x = leaf(T, 3)
    kept = constant(T, 3)
    with raises(RuntimeError, "expected to be zero"):
        T.autograd.gradcheck(lambda a: a.detach() * 2, (x,))
    return T.autograd.gradcheck(lambda a: kept * 2, (x,)), T.autograd.gradcheck(lambda a: (), (x,))


@program("GC-10")
def complex_inputs_and_outputs(T: Any, log: Log) -> Any:
    """Complex gradients of another convention, holomorphic or not, into real numbers and out of them."""
    z = T.tensor(np.array([0.3 + 1j, -0.5 - 0.2j]), requires_grad=True)
    x = leaf(T, 2)

    class Conjugated(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * a * 2  # without the conjugate

    with raises(RuntimeError, "part of complex outputs only", "Jacobian mismatch for output 0"):
        T.autograd.gradcheck(Conjugated.apply, (z,))
    return [
        (T.autograd.gradcheck(f, (z, x), fast_mode=fast), T.autograd.gradgradcheck(f, (z, x), fast_mode=fast))
        for f in (
            lambda a, b: a * a * b,
            lambda a, b: abs(a) * b,
            lambda a, b: (a.conj() * b, T.exp(a).real),
        )
        for fast in (False, True)
    ]


@program("GC-11")
def arguments_that_are_no_tensors(T: Any, log: Log) -> Any:
    """Arguments that are no tensors lost on the way, tensors in lists taken for inputs, an output left unchecked."""
    x, kept = leaf(T, 2), constant(T, 2)
    passed = T.autograd.gradcheck(lambda a, n, s: a**n if s == "power" else a.detach(), (x, 3, "power"))
    with raises(ValueError, "to require gradient"):
        T.autograd.gradcheck(lambda items: items[0] * 2, ([x],))
    with raises(AssertionError):
        T.autograd.gradcheck(lambda a: a[a > 0.5], (T.tensor(np.array([0.5, 1.0]), requires_grad=True),))
    return passed, T.autograd.gradcheck(lambda a: (a, a * 2, kept), (x,))


@program("GC-11")
def inputs_held_by_closure_are_moved_too(T: Any, log: Log) -> Any:
    """A function that holds its parameters by closure, checked against differences of zero."""
    w, x = leaf(T, 3), constant(T, 3)
    before = w.detach().clone()
    passed = T.autograd.gradcheck(lambda _: T.sin(w * x).sum(), (w,))
    return passed, before - w.detach()


@program("GC-12")
def a_cut_graph_shows_in_the_second_derivative(T: Any, log: Log) -> Any:
    """A backward that cannot be differentiated passing gradgradcheck."""

    class Cut(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return T.exp(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * T.exp(x.detach())

    x = leaf(T, 2)
    with raises(RuntimeError, "Jacobian mismatch for output 0 with respect to input 0", "0., 0."):
        T.autograd.gradgradcheck(Cut.apply, (x,))
    return T.autograd.gradcheck(Cut.apply, (x,))


@program("GC-12", torch=False)
def saved_intermediate_is_refused_by_gradgradcheck(T: Any, log: Log) -> Any:
    """An intermediate saved without its graph passing gradgradcheck."""

    class SavesIntermediate(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            e = T.exp(x)
            ctx.save_for_backward(e)
            return e + 1

        @staticmethod
        def backward(ctx, g):
            (e,) = ctx.saved_tensors
            return g * e

    x = leaf(T, 2)
    with raises(RuntimeError, "neither an input nor an output"):
        T.autograd.gradgradcheck(SavesIntermediate.apply, (x,))
    return T.autograd.gradcheck(SavesIntermediate.apply, (x,))


def _with_jvp(T: Any, factor: float) -> Any:
    """x**2, with a jvp that is right for a factor of 2."""

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_for_forward
            return t * x * factor

    return Square


@program("GC-01", "GC-03", "GC-11")
def forward_mode_is_checked(T: Any, log: Log) -> Any:
    """A wrong jvp passing, a right one failing, or inputs that require grad while forward mode is checked."""
    x = leaf(T, 2)
    seen = []

    def noted(a: Any) -> Any:
        seen.append(a.requires_grad)
        return T.sin(a) * a

    right = T.autograd.gradcheck(_with_jvp(T, 2.0).apply, (x,), check_forward_ad=True)
    alone = T.autograd.gradcheck(noted, (x,), check_forward_ad=True, check_backward_ad=False, fast_mode=True)
    with raises(RuntimeError, "computed with forward mode mismatch for output 0 with respect to input 0"):
        T.autograd.gradcheck(_with_jvp(T, 3.0).apply, (x,), check_forward_ad=True)
    return right, alone, False in seen


@program("GC-02")
def forward_over_reverse_is_checked(T: Any, log: Log) -> Any:
    """Forward mode through a backward left out of gradgradcheck."""
    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    return (
        T.autograd.gradgradcheck(lambda a, b: T.sin(a) * b * b, (x, y), check_fwd_over_rev=True),
        T.autograd.gradgradcheck(
            T.exp, (x,), check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False, fast_mode=True
        ),
    )


@program("GC-10")
def forward_mode_of_complex_numbers_is_checked(T: Any, log: Log) -> Any:
    """Tangents of complex numbers checked along the real direction alone."""
    z = T.tensor(np.array([0.3 + 1j, -0.5 - 0.2j]), requires_grad=True)
    return [
        T.autograd.gradcheck(f, (z,), check_forward_ad=True, fast_mode=fast)
        for f in (lambda a: a * a.conj() * 1j, lambda a: abs(a))
        for fast in (False, True)
    ]


@program("GC-08")
def batched_gradients_are_checked(T: Any, log: Log) -> Any:
    """Batches of gradients left out of gradcheck, or right ones failing."""
    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    return (
        T.autograd.gradcheck(lambda a, b: (T.sin(a) * b, a + b), (x, y), check_batched_grad=True),
        T.autograd.gradgradcheck(lambda a, b: T.sin(a) * b, (x, y), check_batched_grad=True),
    )


@program("GC-08", eager_only="the backward of a Function over a batch of gradients is not recorded")
def a_backward_that_reads_numbers_fails_on_a_batch(T: Any, log: Log) -> Any:
    """A backward that cannot run on a batch of gradients passing."""

    class Reads(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 0 * float(g.sum())

    with raises(RuntimeError, "atched grad"):
        T.autograd.gradcheck(Reads.apply, (leaf(T, 2),), check_batched_grad=True)
    return None


@program("GC-08")
def batched_tangents_are_checked(T: Any, log: Log) -> Any:
    """Forward mode over a batch of tangents left out of gradcheck."""
    x = leaf(T, 2)
    with raises(AssertionError, "requires check_forward_ad"):
        T.autograd.gradcheck(T.sin, (x,), check_batched_forward_grad=True)
    with raises(AssertionError, "requires check_backward_ad"):
        T.autograd.gradcheck(T.sin, (x,), check_forward_ad=True, check_backward_ad=False, check_batched_grad=True)
    return T.autograd.gradcheck(lambda a: T.sin(a) * a, (x,), check_forward_ad=True, check_batched_forward_grad=True)


def _product(T: Any) -> Any:
    """x * y, with a jvp, its rule for vmap generated."""

    class Product(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            return tx * y + x * ty

    return Product


@program("GC-01", "GC-02", "GC-08")
def gradcheck_of_inputs_without_dimension(T: Any, log: Log) -> Any:
    """A zero-dimensional input that a check takes for something else than a tensor."""
    x, y = leaf(T), leaf(T, seed=1)
    check, apply = T.autograd.gradcheck, _product(T).apply
    return (
        check(apply, (x, y), check_batched_grad=True),
        check(apply, (x, y), fast_mode=True),
        check(apply, (x, y), check_forward_ad=True, check_batched_forward_grad=True),
        check(lambda a: a * a.sin(), (x,), check_forward_ad=True, check_batched_grad=True),
        T.autograd.gradgradcheck(apply, (x, y), check_batched_grad=True, check_fwd_over_rev=True),
    )


@program("GC-01")
def gradcheck_of_inputs_without_elements(T: Any, log: Log) -> Any:
    """gradcheck refusing an input without elements, whose strides do not matter."""
    x = T.zeros(0, 3, dtype=T.float64, requires_grad=True)
    return T.autograd.gradcheck(cube(T).apply, (x,)), T.autograd.gradgradcheck(cube(T).apply, (x,))


@program("GC-08")
def batched_tangents_through_a_function(T: Any, log: Log) -> Any:
    """A jvp that is right failing on a batch of tangents, or one that differs between examples passing."""
    x, y = leaf(T, 2), leaf(T, 2, seed=1)
    options: dict[str, Any] = {"check_forward_ad": True, "check_batched_forward_grad": True}
    both = T.autograd.gradcheck(_product(T).apply, (x, y), check_batched_grad=True, **options)
    nested = T.autograd.gradcheck(lambda a, b: _product(T).apply(a * b, b).sin(), (x, y), **options)
    return both, nested, T.autograd.gradcheck(lambda a: _product(T).apply(a, y.detach()), (x,), **options)
