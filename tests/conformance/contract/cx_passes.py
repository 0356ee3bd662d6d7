"""CX: the context over several passes: what is freed, given away, cleared or read when: programs that show each id."""

from __future__ import annotations

from typing import Any

from ..programs.registry import Log, leaf, program, raises, settle, warns


def _saving(T: Any, backward: Any, **flags: Any) -> Any:
    """A Function that saves its argument and the double that it returns, with this backward."""

    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2.0
            ctx.save_for_backward(x, y)
            return y

    Saving.backward = staticmethod(backward)
    for name, value in flags.items():
        setattr(Saving, name, value)
    return Saving


@program("CX-11", "CX-12", "DR-04")
def freed_is_checked_on_read(T: Any, log: Log) -> Any:
    """A second backward that is refused although it reads nothing, or allowed although it does."""
    Careless = _saving(T, lambda ctx, g: g * 2.0)

    def reads(ctx, g):
        x, _ = ctx.saved_tensors
        return g * x

    Careful = _saving(T, reads)
    x = leaf(T, 3)
    for _ in range(2):
        y = Careless.apply(x)
        y.sum().backward()
        y.sum().backward()
        z = Careful.apply(x)
        z.sum().backward()
        with raises(RuntimeError, "Specify retain_graph=True"):
            z.sum().backward()
    return x.grad


@program("CX-20", "OU-03")
def materialisation_changed_in_backward(T: Any, log: Log) -> Any:
    """A switch that acts on the execution that made it, or is forgotten by the next."""

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx, a, b):
            log("undefined", [a is None, b is None])
            ctx.set_materialize_grads(False)
            return a * 2.0

    x = leaf(T, 3)
    first, _ = Two.apply(x)
    first.sum().backward(retain_graph=True)
    first.sum().backward()
    return x.grad


@program("CX-21", "OU-25")
def slots_without_derivative_unmaterialised(T: Any, log: Log) -> Any:
    """Zeros for an output that was marked as having no derivative."""

    class Marks(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx._materialize_non_diff_grads = False
            y = x * 3.0
            ctx.mark_non_differentiable(y)
            return x * 2.0, y, x * 4.0

        @staticmethod
        def backward(ctx, a, b, c):
            log("undefined", [a is None, b is None, c is None])
            return a * 2.0

    x = leaf(T, 3)
    for _ in range(2):
        first, _, _ = Marks.apply(x)
        first.sum().backward()
    return x.grad


@program("CX-24")
def saved_tensors_cleared_in_backward(T: Any, log: Log) -> Any:
    """A clearing that is ignored, or that destroys what a retained graph needs."""

    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        result = g * x
        log("cleared", ctx.maybe_clear_saved_tensors())
        try:
            ctx.saved_tensors  # noqa: B018
            log("readable", True)
        except RuntimeError:
            log("readable", False)
        return result

    x = leaf(T, 3)
    y = _saving(T, backward).apply(x)
    y.sum().backward(retain_graph=True)
    settle()
    y.sum().backward()
    return x.grad


@program("CX-25")
def saved_tensors_that_can_be_read_once(T: Any, log: Log) -> Any:
    """A second read that works, in the same backward, the next or from outside."""

    def twice(ctx, g):
        x, _ = ctx.saved_tensors
        try:
            ctx.saved_tensors  # noqa: B018
        except RuntimeError as error:
            log("second read", "only be accessed once" in str(error))
        return g * x

    def once(ctx, g):
        x, _ = ctx.saved_tensors
        return g * x

    x = leaf(T, 3)
    _saving(T, twice, clear_saved_tensors_on_access=True).apply(x).sum().backward()
    y = _saving(T, once, clear_saved_tensors_on_access=True).apply(x)
    y.sum().backward(retain_graph=True)
    with raises(RuntimeError, "only be accessed once"):
        y.sum().backward()
    z = _saving(T, once, clear_saved_tensors_on_access=True).apply(x)
    first = z.grad_fn.saved_tensors[0]
    with raises(RuntimeError, "only be accessed once"):
        z.grad_fn.saved_tensors  # noqa: B018
    return [x.grad, first]


@program("CX-26")
def gradients_in_one_list(T: Any, log: Log) -> Any:
    """Gradients that arrive one by one although the class asks for a list."""

    def backward(ctx, grads):
        log("kind", [isinstance(grads, list), len(grads)])
        g = grads.pop()
        return g * 2.0

    x = leaf(T, 3)
    _saving(T, backward, boxed_grads_call=True).apply(x).sum().backward()
    return x.grad


@program("CX-19", "CX-30")
def the_old_name_of_saved_tensors(T: Any, log: Log) -> Any:
    """An old name that does not warn, or shows something else."""
    y = _saving(T, lambda ctx, g: g).apply(leaf(T, 3))
    with warns(DeprecationWarning, "saved_variables", "deprecated"):
        saved = y.grad_fn.saved_variables
    return [saved[0].detach(), saved[1].detach()]


@program("ND-05", "CX-28")
def metadata_of_a_node(T: Any, log: Log) -> Any:
    """Notes that forward or the caller leaves on a node, and the other cannot see."""

    class Notes(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.metadata["forward"] = 1
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            log("seen", sorted(ctx.metadata))
            ctx.metadata["backward"] = 3
            return g * 2.0

    x = leaf(T, 3)
    y = Notes.apply(x)
    y.grad_fn.metadata["caller"] = 2
    y.sum().backward()
    return [sorted(y.grad_fn.metadata.items()), x.grad]
