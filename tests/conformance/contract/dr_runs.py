"""DR, continued: what crosses between processes, how runs end, and what is the same wherever they run."""

from __future__ import annotations

import pickle
import threading
import warnings
from typing import Any

from ..programs.functions import square
from ..programs.registry import Log, constant, leaf, program, raises, settle


@program("DR-02", "EN-34", torch=False)
def pickles_of_tensors(T: Any, log: Log) -> Any:
    """A graph that is lost silently when a tensor is pickled."""
    x = leaf(T, 3)
    y = square(T).apply(x)
    with raises(RuntimeError, "detach"):
        pickle.dumps(y)
    again = pickle.loads(pickle.dumps(x))
    flat = pickle.loads(pickle.dumps(y.detach()))
    return [again, again.requires_grad, flat, flat.requires_grad]


@program("DR-02", "DR-06")
def a_tensor_in_a_hook_keeps_its_value(T: Any, log: Log) -> Any:
    """A captured tensor that a worker sees as another, or not at all."""
    x = leaf(T, 3)
    scale = x.detach() * 3.0
    y = square(T).apply(x)
    y.register_hook(lambda g: g * scale)
    y.sum().backward()
    return x.grad


@program("DR-07", "EN-19", "EN-21")
def many_branches_give_one_sum(T: Any, log: Log) -> Any:
    """A sum whose order, and so whose last bits, depends on which worker was first."""
    Square = square(T)
    x = leaf(T, 16)
    total: Any = sum((Square.apply(x * (0.1 * k + 1.0 / 3.0)) for k in range(9)), start=T.zeros(16, dtype=T.float64))
    x.register_hook(lambda g: log("sum", g))
    total.sum().backward()
    return [total, x.grad]


@program("DR-10", "BW-11", "FN-10", "FN-22")
def modes_on_workers(T: Any, log: Log) -> Any:
    """A mode of the caller, or one that user code left behind, in the next piece of user code."""

    class Leaves(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("forward", T.is_grad_enabled())
            T.set_grad_enabled(True)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            log("backward", T.is_grad_enabled())
            T.set_grad_enabled(True)
            return g * 2.0

    x = leaf(T, 3)
    with T.no_grad():
        Leaves.apply(x)
        plain = Leaves.apply(x)
    first = Leaves.apply(x)
    second = Leaves.apply(first)
    second.sum().backward()
    return [plain, plain.requires_grad, x.grad, T.is_grad_enabled()]


@program("DR-11", "CX-20", "BW-14")
def expanded_gradients_and_zeros(T: Any, log: Log) -> Any:
    """An expanded gradient or materialised zeros of another shape, dtype or value where backward reads them."""

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0, (x * 3.0).to(T.float32)

        @staticmethod
        def backward(ctx, a, b):
            log("seen", [list(a.shape), a.dtype == T.float64, list(b.shape), b.dtype == T.float32])
            log("values", [a.sum(), b.sum()])
            return a * 2.0 + b.to(T.float64) * 3.0

    x = leaf(T, 3, 4)
    first, second = Two.apply(x)
    first.sum().backward(retain_graph=True)
    second.sum().backward()
    return x.grad


@program("DR-12", "CX-10", "EN-10")
def freed_after_the_pass(T: Any, log: Log) -> Any:
    """Saved values that a second pass finds, or that a retained one does not."""
    x = leaf(T, 3)
    y = square(T).apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with raises(RuntimeError, "Specify retain_graph=True"):
        y.sum().backward()
    return x.grad


@program("DR-14", "EN-23")
def a_pass_inside_a_backward_on_a_worker(T: Any, log: Log) -> Any:
    """An inner pass on a worker that waits for the outer one, or leaves gradients behind."""

    class Inner(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with T.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = T.autograd.grad((inner * inner).sum(), inner)
            return g * slope

    x = leaf(T, 3)
    for _ in range(2):
        Inner.apply(Inner.apply(x)).sum().backward()
    return x.grad


@program("DR-15", "H9", torch=False)
def random_numbers_follow_the_program(T: Any, log: Log) -> Any:
    """Draws that depend on where they are made, or repeat at each step."""
    Square = square(T)
    x = leaf(T, 4)
    T.manual_seed(7)
    masks = []
    for _ in range(3):
        mask = (T.rand(4, dtype=T.float64) > 0.5).to(T.float64)
        Square.apply(x * mask).sum().backward()
        masks.append(mask)
    T.manual_seed(7)
    again = T.rand(4, dtype=T.float64) > 0.5
    return [masks, again.to(T.float64) - masks[0], x.grad]


@program("DR-16", "EN-25")
def threads_of_one_session(T: Any, log: Log) -> Any:
    """Passes of several threads that lose each other's gradients."""
    Square = square(T)
    x = leaf(T, 3)
    losses = [Square.apply(x * 2.0).sum() for _ in range(4)]
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return x.grad


@program("DR-17", "H5", "BW-10")
def an_undefined_gradient_is_a_value(T: Any, log: Log) -> Any:
    """None that becomes zeros, or zeros that become None, on the way through other nodes."""

    class Stops(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, stops):
            ctx.stops = stops
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return None if ctx.stops else g * 2.0, None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    (Stops.apply(x * 3.0, True) + Stops.apply(y, False)).sum().backward()
    found = [x.grad is None, y.grad]
    x.register_hook(lambda g: log("hook", g))
    (Stops.apply(x, True) + x * 5.0).sum().backward()
    return [found, x.grad]


@program("DR-09", "BW-13")
def an_exception_with_attributes(T: Any, log: Log) -> Any:
    """An exception that loses its type, arguments or attributes on its way."""

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            error: Any = OSError(28, "no space", "field.npy")
            error.attempts = 3
            raise error

    x = leaf(T, 3)
    with raises(OSError, "no space") as caught:
        Wrong.apply(x).sum().backward()
    error: Any = caught[0]
    return [error.errno, error.filename, error.attempts, x.grad is None]


@program("DR-09")
def what_user_code_warns_of(T: Any, log: Log) -> Any:
    """A warning that stays in a worker's log, or that comes back without its category, file or line."""

    class Warns(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            warnings.warn("in forward", RuntimeWarning, stacklevel=1)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            warnings.warn("in backward", stacklevel=1)
            return g * 2.0

    x = leaf(T, 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="of a hook", module=__name__)
        y = Warns.apply(x)
        y.register_hook(lambda g: warnings.warn("of a hook", stacklevel=1))
        y.sum().backward()
        settle()
    mine = {(w.category.__name__, str(w.message), w.lineno) for w in seen if w.filename == __file__}
    return [sorted(mine), x.grad]


@program("DR-13", "FN-23")
def class_flags_travel(T: Any, log: Log) -> Any:
    """A flag or a method that was patched after the class was made, and that a worker does not see."""
    Square = square(T)
    x = leaf(T, 3)
    first = Square.apply(x)
    first.sum().backward()
    settle()  # in process, classes are used as they are when their code runs (H23)
    Square.factor = 10.0

    def backward(ctx, g):
        return g * ctx.factor if hasattr(ctx, "factor") else g * Square.factor

    Square.backward = staticmethod(backward)
    Square.apply(x).sum().backward()
    return x.grad


@program("DR-08", "H8")
def a_failed_pass_leaves_gradients_as_they_were(T: Any, log: Log) -> Any:
    """A pass that fails half way and leaves one of two gradients changed."""

    class Refuses(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            raise LookupError("on purpose")

    x = leaf(T, 3)
    square(T).apply(x).sum().backward()
    before = x.grad.clone()
    with raises(LookupError, "on purpose"):
        (Refuses.apply(x) * constant(T, 3)).sum().backward()
    square(T).apply(x).sum().backward()
    return [before, x.grad]


def _scaling(T: Any, read: Any) -> Any:
    """Return a Function that multiplies by what `read()` says in forward, and in backward by what it says then."""

    class Scales(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.rate = read()
            return x * ctx.rate

        @staticmethod
        def backward(ctx, g):
            return g * ctx.rate

    return Scales


@program("DR-13", "H17", "H23", "FN-10")
def a_captured_number_is_that_of_the_application(T: Any, log: Log) -> Any:
    """A closure whose number changes between applications, before they ran and after: the last one counts for all."""
    rate = 2.0
    scales = _scaling(T, lambda: rate)
    x = leaf(T, 3)
    first = scales.apply(x)
    results = []
    for step in range(3):
        rate = 3.0 + step
        second = scales.apply(x)
        rate = 10.0 + step
        third = scales.apply(x)
        rate = 100.0
        (second + third).sum().backward()
        rate = 1000.0
        results.append([second, third, x.grad.clone()])
    first.sum().backward()
    return [first, results, x.grad]


@program("DR-13", "H17", "H23")
def a_class_attribute_is_that_of_the_application(T: Any, log: Log) -> Any:
    """An attribute of the Function, and a table that it reads, changed after the application."""
    table = {"rate": 2.0}

    class Scales(T.autograd.Function):
        power = 1.0

        @staticmethod
        def forward(ctx, x):
            ctx.rate = table["rate"] * Scales.power
            return x * ctx.rate

        @staticmethod
        def backward(ctx, g):
            return g * ctx.rate

    x = leaf(T, 2)
    outs = [Scales.apply(x)]
    for change in range(3):
        Scales.power = 2.0 + change
        outs.append(Scales.apply(x))
        table["rate"] = 5.0 + change
        outs.append(Scales.apply(x))
        Scales.power = 0.0
    T.stack(outs).sum().backward()
    return [outs, x.grad]


class _Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


@program("DR-13", "H17", "H23")
def an_attribute_of_a_captured_object_is_that_of_the_application(T: Any, log: Log) -> Any:
    """An object with settings, changed after the application."""
    settings = _Settings(2.0)
    scales = _scaling(T, lambda: settings.rate)
    x = leaf(T, 2)
    outs = []
    for rate in (2.0, 3.0, 4.0, 3.0):
        settings.rate = rate
        outs.append(scales.apply(x))
    settings.rate = 0.0
    T.stack(outs).sum().backward()
    return [outs, x.grad]


@program("DR-06", "HK-02", "H23")
def the_variable_of_a_loop_in_a_hook(T: Any, log: Log) -> Any:
    """Hooks made in a loop read the loop's variable when they fire, and the next pass another value."""
    x = leaf(T, 2)
    y = x * 2.0
    for factor in (2.0, 3.0):
        y.register_hook(lambda grad: grad * factor)  # noqa: B023 - what is shown
    y.sum().backward(retain_graph=True)
    factor = 7.0
    seen = x.grad.clone()
    y.sum().backward()
    factor = 0.0
    return [seen, x.grad]


@program("DR-13", "H23", "BW-01")
def what_backward_reads_is_that_of_the_pass(T: Any, log: Log) -> Any:
    """A number that only backward reads, changed between the application and the passes."""
    rate = 2.0

    class Scales(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * rate

    x = leaf(T, 2)
    seen = []
    y = Scales.apply(x)
    for value in (3.0, 5.0, 3.0):
        rate = value
        y.sum().backward(retain_graph=True)
        rate = 0.0
        seen.append(x.grad.clone())
    return [seen, x.grad]
