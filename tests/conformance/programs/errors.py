"""Failures: of forward, of backward, of hooks, and of what they return. The exception's type and state survive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .functions import np_scale, np_tanh
from .registry import Log, leaf, program


class Refused(Exception):
    """A user's exception with a state of its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code


class Awkward(ValueError):
    """A user's exception that cannot be made again from its args."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"refused: {reason}")
        self.reason = reason


def failing(T: Any, where: str, error: Callable[[], BaseException]) -> Any:
    """Return a Function that raises `error()` in forward or backward."""

    class Failing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if where == "forward":
                raise error()
            return T.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            if where == "backward":
                raise error()
            return T.from_numpy(g.numpy() * 2)

    return Failing


@program("FN-21", "DR-09", errors=Refused)
def error_in_forward(T: Any, log: Log) -> Any:
    """A user's exception that arrives as another type, or without its attributes."""
    Failing = failing(T, "forward", lambda: Refused("too large", 7))
    x = leaf(T, 3)
    y = Failing.apply(x * 2)
    y.sum().backward()
    return [x.grad]


@program("BW-13", "DR-09", errors=Refused)
def error_in_backward(T: Any, log: Log) -> Any:
    """The same for backward, which nobody waits for until `.grad` is read."""
    Failing, Tanh = failing(T, "backward", lambda: Refused("too steep", 8)), np_tanh(T)
    x = leaf(T, 3)
    Tanh.apply(Failing.apply(Tanh.apply(x))).sum().backward()
    return [x.grad]


@program("DR-09", errors=Awkward)
def exception_that_cannot_be_made_again(T: Any, log: Log) -> Any:
    """An exception whose constructor does not take its args."""
    Failing = failing(T, "forward", lambda: Awkward(reason="shape"))
    return [Failing.apply(leaf(T, 3))]


@program("DR-09", "FN-21", tags={"numpy"}, errors=np.linalg.LinAlgError)
def error_of_numpy_in_forward(T: Any, log: Log) -> Any:
    """An exception of a library."""

    class Inverse(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            inverse = T.from_numpy(np.linalg.inv(x.numpy()))
            ctx.save_for_backward(inverse)
            return inverse

        @staticmethod
        def backward(ctx, g):
            (inverse,) = ctx.saved_tensors
            return T.from_numpy(-inverse.numpy().T @ g.numpy() @ inverse.numpy().T)

    x = leaf(T, 3, 3)
    y = Inverse.apply(x * 0)
    y.sum().backward()
    return [x.grad]


@program("DR-09", errors=KeyError)
def built_in_error_in_forward(T: Any, log: Log) -> Any:
    """A built-in exception with an argument that is no message."""
    Failing = failing(T, "forward", lambda: {}[("missing", 3)])
    return [Failing.apply(leaf(T, 3))]


@program("HK-14", "DR-09", errors=Refused)
def error_in_a_tensor_hook(T: Any, log: Log) -> Any:
    """A hook's exception that is lost, or aborts nothing."""

    def refuse(g):
        raise Refused("gradient", 1)

    x = leaf(T, 3)
    y = x * 2
    y.register_hook(refuse)
    y.sum().backward()
    return [x.grad]


@program("HK-14", "DR-09", errors=Refused)
def error_in_a_node_hook(T: Any, log: Log) -> Any:
    """The same for a node's hook."""
    Tanh = np_tanh(T)

    def refuse(inputs, outputs):
        raise Refused("node", 2)

    x = leaf(T, 3)
    y = Tanh.apply(x)
    y.grad_fn.register_hook(refuse)
    y.sum().backward()
    return [x.grad]


@program("HK-14", "DR-09", errors=Refused)
def error_in_a_prehook(T: Any, log: Log) -> Any:
    """The same for a prehook of a built-in op's node."""

    def refuse(grads):
        raise Refused("prehook", 3)

    x = leaf(T, 3)
    y = x.exp()
    y.grad_fn.register_prehook(refuse)
    y.sum().backward()
    return [x.grad]


@program("DR-09", "H21", tags={"numpy"})
def error_is_caught_and_work_goes_on(T: Any, log: Log) -> Any:
    """A session that a failure leaves unusable, or an error that is raised twice."""
    Failing, Scale = failing(T, "forward", lambda: Refused("once", 5)), np_scale(T)
    x = leaf(T, 3)
    caught = None
    try:
        Failing.apply(x).sum().item()
    except Refused as refused:
        caught = [list(refused.args), refused.code]
    y = Scale.apply(x, 3.0)
    y.sum().backward()
    return [caught, y, x.grad]


@program("BW-13", "DR-08", "H21")
def error_in_backward_is_caught(T: Any, log: Log) -> Any:
    """A `.grad` that a failed pass has touched."""
    Failing = failing(T, "backward", lambda: Refused("backward", 6))
    x = leaf(T, 3)
    (x * 3).sum().backward()
    caught = None
    try:
        Failing.apply(x).sum().backward()
        x.grad.numpy()
    except Refused as refused:
        caught = refused.code
    (x * 5).sum().backward()
    return [caught, x.grad]


@program("EN-19")
def shape_error_of_a_built_in_op(T: Any, log: Log) -> Any:
    """A shape error that is raised later than on the line that made it."""
    x, w = leaf(T, 3, 4), leaf(T, 3, 4, seed=1)
    raised = []
    for bad in (lambda: x @ w, lambda: x + w[:2], lambda: x.reshape(5, 5), lambda: T.cat([x, w[:, :2]], dim=0)):
        try:
            bad()
        except RuntimeError:
            raised.append("RuntimeError")
    try:
        x[7]
    except IndexError:
        raised.append("IndexError")
    (x * w).sum().backward()
    return [raised, x.grad]


@program("BW-02", errors=RuntimeError)
def too_few_gradients(T: Any, log: Log) -> Any:
    """A backward that returns fewer gradients than there were arguments."""

    class Lacking(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    Lacking.apply(x, y).sum().backward()
    return [x.grad]


@program("BW-07", errors=RuntimeError)
def gradient_of_a_wrong_shape(T: Any, log: Log) -> Any:
    """A backward that returns a gradient of a shape that does not fit."""

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g[:2]

    x = leaf(T, 3)
    Wrong.apply(x).sum().backward()
    return [x.grad]


@program("BW-04", errors=RuntimeError)
def gradient_for_a_number(T: Any, log: Log) -> Any:
    """A backward that returns a gradient for an argument that is no tensor."""

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g, g

    x = leaf(T, 3)
    Wrong.apply(x, 2.0).sum().backward()
    return [x.grad]


@program("HK-02", errors=RuntimeError)
def hook_returns_a_wrong_shape(T: Any, log: Log) -> Any:
    """A hook's replacement that does not fit, used."""
    x = leaf(T, 3)
    y = x * 2
    y.register_hook(lambda g: g[:2])
    y.sum().backward()
    return [x.grad]


@program("HK-02", errors=TypeError)
def hook_returns_no_tensor(T: Any, log: Log) -> Any:
    """A hook's replacement that is no tensor, used."""
    x = leaf(T, 3)
    y = x * 2
    y.register_hook(lambda g: "twice")
    y.sum().backward()
    return [x.grad]


@program("EN-01", errors=RuntimeError)
def implicit_gradient_of_a_vector(T: Any, log: Log) -> Any:
    """A gradient made up for a root that is no scalar."""
    Tanh = np_tanh(T)
    Tanh.apply(leaf(T, 3)).backward()


@program("EN-02", errors=RuntimeError)
def explicit_gradient_of_a_wrong_shape(T: Any, log: Log) -> Any:
    """A gradient broadcast to its root's shape."""
    (leaf(T, 3) * 2).backward(T.ones(1, dtype=T.float64))


@program("EN-05", errors=RuntimeError)
def root_that_does_not_require_grad(T: Any, log: Log) -> Any:
    """A pass from a root that has no graph."""
    x = leaf(T, 3)
    with T.no_grad():
        y = (x * 2).sum()
    y.backward()


@program("EN-33", errors=RuntimeError)
def array_of_a_tensor_that_requires_grad(T: Any, log: Log) -> Any:
    """A raw array handed out although gradients would be lost."""
    Tanh = np_tanh(T)
    return Tanh.apply(leaf(T, 3)).numpy()


@program("FN-14", errors=NotImplementedError)
def forward_is_missing(T: Any, log: Log) -> Any:
    """A Function without a forward."""

    class Nothing(T.autograd.Function):
        pass

    return Nothing.apply(leaf(T, 3))


@program("FN-15", errors=NotImplementedError)
def backward_is_missing(T: Any, log: Log) -> Any:
    """A Function without a backward, found out when it is needed and not before."""

    class ForwardOnly(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 2)

    x = leaf(T, 3)
    ForwardOnly.apply(x).sum().backward()
    return [x.grad]


@program("FN-05", errors=TypeError)
def arguments_that_do_not_fit(T: Any, log: Log) -> Any:
    """Arguments that are checked only where the Function runs."""
    Scale = np_scale(T)
    return Scale.apply(leaf(T, 3))


@program("CX-07", errors=TypeError)
def saving_what_is_no_tensor(T: Any, log: Log) -> Any:
    """A number given to `save_for_backward`."""

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3.0)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Wrong.apply(leaf(T, 3))
