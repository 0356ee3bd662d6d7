"""MD: gradient modes, inference mode, anomaly detection: programs that show each id."""

from __future__ import annotations

import threading
from typing import Any

from ..programs.functions import np_square, np_tanh
from ..programs.registry import Log, constant, leaf, program, raises, settle, warns


@program("MD-01")
def modes_as_managers_and_decorators(T: Any, log: Log) -> Any:
    """A mode that leaks, is not restored on an exception, or does not reach what it decorates."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)

    @T.no_grad()
    def without(t):
        return Tanh.apply(t)

    @T.no_grad
    def plain(t):
        with T.enable_grad():
            return Tanh.apply(t)

    @T.no_grad()
    def steps(t):
        for _ in range(2):
            t = Tanh.apply(t)
            yield t

    flags = [without(x).requires_grad, plain(x).requires_grad]
    for t in steps(x):
        flags += [t.requires_grad, T.is_grad_enabled()]
    with raises(KeyError), T.no_grad():
        raise KeyError
    flags.append(T.is_grad_enabled())
    with T.set_grad_enabled(False):
        flags.append(T.is_grad_enabled())
    T.set_grad_enabled(False)
    flags.append(Tanh.apply(x).requires_grad)
    T.set_grad_enabled(True)
    with warns(FutureWarning):
        T.no_grad()(type("Decorated", (), {}))
    Tanh.apply(x).sum().backward()
    return [flags, x.grad]


@program("MD-01", "OU-15")
def views_that_are_made_with_recording_off(T: Any, log: Log) -> Any:
    """A view that is taken for a part of the graph, or changed where that would be recorded."""
    x = leaf(T, 4)
    y = x * 2
    with T.no_grad():
        of_leaf, of_result, of_constant = x[:2], y[:2], constant(T, 4)[:2]
        assert float(y[3].sum()) == float(y[3])
    flags = [[v.requires_grad, v.is_leaf] for v in (of_leaf, of_result, of_constant)]
    (of_leaf * of_result * y[:2].detach()).sum().backward()
    none = x.grad is None
    with raises(RuntimeError, "created in no_grad mode"):
        of_result.mul_(2)
    of_constant.mul_(2)
    y.mul_(2)
    with raises(RuntimeError, "created in no_grad mode"):
        _ = of_result * 2
    with T.no_grad():
        of_leaf.mul_(2)
    with raises(RuntimeError, "created in no_grad mode"):
        _ = of_leaf * 2
    z = constant(T, 4)
    part = z[:2]
    z.requires_grad_()
    flags.append([part.requires_grad, part.is_leaf])
    with T.no_grad():
        z.mul_(2)
    (part * 2).sum().backward()
    return [flags, none, x, z.grad]


@program("MD-02")
def a_new_thread_records(T: Any, log: Log) -> Any:
    """A mode that another thread inherits."""
    flags: list[bool] = []
    with T.no_grad():
        thread = threading.Thread(target=lambda: flags.append(T.is_grad_enabled()))
        thread.start()
        thread.join()
    return [flags]


@program("MD-03")
def modes_and_forward_mode(T: Any, log: Log) -> Any:
    """Tangents that stop under no_grad, or go on in inference mode."""
    fwAD = T.autograd.forward_ad
    with fwAD.dual_level():
        x = fwAD.make_dual(constant(T, 3), constant(T, 3, seed=1))
        with T.no_grad():
            y = x * 2
        with T.inference_mode():
            z = x * 2
        return [fwAD.unpack_dual(y).tangent, fwAD.unpack_dual(z).tangent]


@program("MD-04")
def inference_tensors(T: Any, log: Log) -> Any:
    """An inference tensor that a graph takes in, or that is changed outside of the mode."""
    x = leaf(T, 3)
    plain = constant(T, 3)
    with T.inference_mode():
        made = T.ones(3, dtype=T.float64)
        made.add_(1)
        product = x * plain
        carrying = T.ones(3, dtype=T.float64, requires_grad=True)
        flags = [made.is_inference(), product.is_inference(), product.requires_grad, carrying.requires_grad]
        flags += [(carrying * 2).requires_grad, x[:2].is_inference(), T.is_inference_mode_enabled()]
        with T.inference_mode(False):
            flags += [(x * 2).requires_grad, T.is_inference_mode_enabled()]
        plain.mul_(2)
    flags += [T.is_inference_mode_enabled(), T.is_grad_enabled(), plain.is_inference()]
    with raises(RuntimeError, "do not track version counter"):
        made._version  # noqa: B018
    with raises(RuntimeError, "Inplace update"):
        product.add_(1)
    with raises(RuntimeError, "outside InferenceMode"):
        made.requires_grad_()
    with raises(RuntimeError, "cannot be saved for backward"):
        _ = x * made
    total = x + made + x * made.clone()
    total.sum().backward()
    return [flags, made, plain, x.grad, made.detach().is_inference(), (made * 2).is_inference()]


@program("MD-04")
def inference_tensors_and_functions(T: Any, log: Log) -> Any:
    """A Function that saves an inference tensor, or whose outputs in the mode are none."""

    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(factor)
            return x * factor

        @staticmethod
        def backward(ctx, g):
            (factor,) = ctx.saved_tensors
            return g * factor, None

    x = leaf(T, 3)
    with T.inference_mode():
        factor = T.ones(3, dtype=T.float64) * 2
        inside = Scaled.apply(x, factor)
    with raises(RuntimeError, "cannot be saved for backward"):
        Scaled.apply(x, factor)
    outside = Scaled.apply(x, factor.clone())
    outside.sum().backward()

    @T.inference_mode()
    def predict(t):
        return Scaled.apply(t, factor)

    return [inside.is_inference(), inside.requires_grad, outside, x.grad, predict(x).requires_grad]


@program("MD-05")
def nan_is_an_anomaly(T: Any, log: Log) -> Any:
    """A NaN that passes, an infinity that does not, or one looked for though nobody asked."""
    zero = T.zeros(3, dtype=T.float64, requires_grad=True)

    def run() -> None:
        (zero / zero * 0).sum().backward()

    with warns(UserWarning, "Anomaly Detection has been enabled"):
        mode = T.autograd.detect_anomaly()
    with (
        warns(UserWarning, "Error detected in"),
        mode,
        raises(RuntimeError, "returned nan values", "0th output", "Div"),
    ):
        run()
    flags = [T.is_anomaly_enabled()]
    with T.autograd.set_detect_anomaly(True, check_nan=False):
        run()
        flags += [T.is_anomaly_enabled(), T.is_anomaly_check_nan_enabled()]
        with T.autograd.set_detect_anomaly(True):
            flags += [T.is_anomaly_check_nan_enabled()]
            finite = T.zeros(3, dtype=T.float64, requires_grad=True)
            (1 / finite).sum().backward()
    T.autograd.set_detect_anomaly(True)
    flags.append(T.is_anomaly_enabled())
    T.autograd.set_detect_anomaly(False)
    flags.append(T.is_anomaly_enabled())
    return [flags, finite.grad]


def failing(T: Any) -> Any:
    """A Function whose backward raises."""

    class Failing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise LookupError("on purpose")

    return Failing


@program("MD-06")
def failures_under_anomaly_detection(T: Any, log: Log) -> Any:
    """A failure that changes its type, or without the place where its node was made."""
    Failing = failing(T)
    x = leaf(T, 3)
    unknown = Failing.apply(x)
    with T.autograd.set_detect_anomaly(True):
        known = Failing.apply(x)
        settle()  # what is recorded with a pass that fails is dropped with it (DR-08)
        with warns(UserWarning, "Error detected in FailingBackward", "No forward pass information"):
            with raises(LookupError, "on purpose"):
                unknown.sum().backward()
        with warns(UserWarning, "Error detected in FailingBackward", "known = Failing.apply(x)"):
            with raises(LookupError, "on purpose"):
                known.sum().backward()
    return ["traceback_" in known.grad_fn.metadata, "traceback_" in unknown.grad_fn.metadata]


@program("MD-06", torch=False)
def failures_tell_where_their_node_was_made(T: Any, log: Log) -> Any:
    """An exception that goes elsewhere than the warning, and says nothing."""
    x = leaf(T, 3)
    with T.autograd.set_detect_anomaly(True):
        y = failing(T).apply(x)
        with warns(UserWarning, "Error detected in"), raises(LookupError) as caught:
            y.sum().backward()
    return ["y = failing(T).apply(x)" in "".join(caught[0].__notes__)]


@program("MD-07")
def nan_passes(T: Any, log: Log) -> Any:
    """An error, or other numbers, where NaN and infinity simply flow."""
    zero = T.zeros(3, dtype=T.float64, requires_grad=True)
    np_square(T).apply(zero / zero).sum().backward()
    other = T.zeros(2, dtype=T.float64, requires_grad=True)
    (1 / other).sum().backward()
    return [zero.grad, other.grad]


@program("MD-06")
def a_pass_under_anomaly_detection_raises_itself(T: Any, log: Log) -> Any:
    """A failure or a NaN that is told after the pass, somewhere else in the program."""
    x, zero = leaf(T, 3), T.zeros(3, dtype=T.float64, requires_grad=True)
    errors = []
    with warns(UserWarning, "Error detected in"), T.autograd.set_detect_anomaly(True):
        for run in (
            lambda: failing(T).apply(x).sum().backward(),
            lambda: T.autograd.grad(failing(T).apply(x).sum(), x),
            lambda: (zero.sqrt() * 0).sum().backward(),
        ):
            settle()
            try:
                run()
            except (LookupError, RuntimeError) as error:
                errors.append(str(error).splitlines()[0])
    return errors


@program("MD-05")
def nan_in_the_derivative_of_a_backward(T: Any, log: Log) -> Any:
    """A NaN told of the node of a whole backward, where one inside of it made it."""

    class Inner(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, first):
            ctx.first = first
            return x * 2 + y

        @staticmethod
        def backward(ctx, g):
            nan = g * float("nan")
            return (nan, g, None) if ctx.first else (g, nan, None)

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, first):
            ctx.first = first
            ctx.save_for_backward(x)
            return x.sum(0, keepdim=True)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.expand(x.shape)
            return Inner.apply(g * x, g + x, ctx.first), None

    errors = []
    for number, first in enumerate((True, False)):
        x = leaf(T, 3)
        with warns(UserWarning, "Error detected in InnerBackward"):
            (grad,) = T.autograd.grad(Outer.apply(x, first), x, create_graph=True)
            with T.autograd.set_detect_anomaly(True):
                with raises(RuntimeError, f"'InnerBackward' returned nan values in its {number}th output") as error:
                    grad.sum().backward()
        errors.append(str(error[0]).splitlines()[0])
    return errors
