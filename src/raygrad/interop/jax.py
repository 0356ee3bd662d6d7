"""JAX functions as Function nodes: the public function `raygrad.interop.jax.function`, and its callable at the client.

Parameters are arguments, as in JAX: nested tensors of raygrad. `jax_runtime` runs the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raygrad.autograd.tensor.tensor import Tensor
from raygrad.tracebacks import public
from raygrad.workers.code.shipping import pickle_value

from .backends import load
from .jax_runtime import JaxRuntime, JaxSource, refuse_wide
from .node import ForeignCallable, ForeignFunction, Runtime, function_class_of


@public
def function(
    f: Callable[..., Any], *, recompute: bool = False, jit: bool = True, x64: bool | None = None
) -> JaxFunction:
    """Return a function of JAX arrays as something that is called with raygrad's tensors.

    The function is copied as it is now, with its captured values, which get no gradient. For random numbers, give it a
    seed in a tensor (`rg.randint(0, 2**31 - 1, ())`) for `jax.random.key(seed)`.

    Args:
        f: a function that returns arrays for arrays, in lists, tuples, named tuples and dicts.
        recompute: keep nothing of a forward but its inputs, and run it again in backward, anywhere. Otherwise JAX's
            residuals stay on the worker that ran forward, and backward runs there.
        jit: compile it. Without, it may depend on values, and each call is traced again.
        x64: whether JAX has numbers of 64 bits while it runs. None: if an argument is of float64 or complex128, or JAX
            is configured so in this process.

    Raises:
        BackendUnavailable: JAX is not installed.
        TypeError: no function; something that cannot be copied to a worker.
    """
    load("jax")
    if isinstance(f, type) or not callable(f):
        raise TypeError(f"raygrad.interop.jax.function takes a function of arrays, got {f!r}")
    name = str(getattr(f, "__name__", None) or type(f).__name__)
    return JaxFunction(JaxSource(f, name if name.isidentifier() else "jax_function", jit), recompute, x64)


class JaxFunction(ForeignCallable):
    """A JAX function that is called with raygrad's tensors; made by `function`."""

    def __init__(self, source: JaxSource, recompute: bool, x64: bool | None) -> None:
        super().__init__()
        self._x64 = x64
        self._class = function_class_of(_JaxNode, source.name, pickle_value(source), recompute)

    def _options(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        if self._x64 is False:
            refuse_wide(self._class.__name__, [tensor.dtype for tensor in tensors])
        if self._x64 is not None:
            return (self._x64,)
        wide = any(tensor.dtype.name in ("float64", "complex128") for tensor in tensors)
        return (wide or bool(load("jax").config.jax_enable_x64),)

    def _refusal(self, leaf: Any) -> str | None:
        if isinstance(leaf, load("jax").core.Tracer):
            return (
                "an argument is traced by JAX: a node cannot stand inside jax.jit or jax.grad; call the JAX function "
                "itself there"
            )
        return None


class _JaxNode(ForeignFunction):
    @staticmethod
    def open_payload(payload: bytes) -> Runtime:
        return JaxRuntime(payload)
