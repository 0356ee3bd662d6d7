"""The reverse-mode transforms of `raygrad.func`: `grad`, `grad_and_value` and `vjp` (FT-01, FT-02).

They run their function on aliases of the inputs, and the engine's backward from its outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from raygrad.errors import AutogradError
from raygrad.tracebacks import public

from .. import ops
from ..core.modes import open_scope, state, transforming
from ..core.pytree import Structure, flatten, unflatten
from ..core.transform_scopes import TransformScope
from ..engine.engine import grad as engine_grad
from ..nodes.once_differentiable import check_differentiable
from ..tensor.tensor import Tensor
from .common import (
    Argnums,
    InputAliases,
    has_outer_history,
    output_tensors,
    positions_of,
    split_aux,
    tensors_in,
    tree_without_inner_history,
    with_arguments,
    without_inner_history,
)

_SCALAR = "grad_and_value(f)(*args)"


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`, which returns one scalar tensor.

    Args:
        func: what is differentiated; its arguments may be nested containers of tensors.
        argnums: the positional argument by which, or a tuple of such; negative ones count from the end.
        has_aux: `func` returns (scalar, auxiliary tensors), and the gradient comes as (gradient, auxiliary tensors).

    Returns:
        A function of `func`'s arguments; its result has the structure of the argument, or is a tuple of such. Of what
        is not used the gradient is zero.

    Raises (when called):
        RuntimeError: `func` returns something else than one scalar tensor; `argnums` do not fit.
    """
    both = grad_and_value(func, argnums, has_aux)

    @public
    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes (gradient, value) of `func`, or (gradient, (value, auxiliary)); see `grad`."""

    @public
    @functools.wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        with open_scope("grad") as scope:
            scope.given = [leaf for leaf in flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
            inputs, structure, result = _traced(
                scope,
                [args[position] for position in positions],
                lambda chosen: func(*with_arguments(args, positions, chosen), **kwargs),
            )
            output, aux = split_aux(result, has_aux, _SCALAR)
            found = unflatten(structure, gradients([_scalar(output)], inputs, None, retain_graph=None))
        found = tuple(found) if isinstance(argnums, tuple) else found[0]
        value = without_inner_history(output)
        return found, ((value, tree_without_inner_history(aux)) if has_aux else value)

    return gradient_and_value


def _traced(scope: TransformScope, primals: Any, run: Callable[[Any], Any]) -> tuple[list[Tensor], Structure, Any]:
    """Return aliases of the tensors in `primals`, their structure, and the result of `run` for these aliases."""
    aliases = InputAliases()
    with transforming(scope.name, reverse=True):
        tensors, structure = tensors_in(primals)
        inputs = [aliases.of(tensor) for tensor in tensors]
        scope.given = [*scope.given, *inputs]
        try:
            return inputs, structure, run(unflatten(structure, inputs))
        finally:
            aliases.close()


def _scalar(output: Any) -> Tensor:
    if not isinstance(output, Tensor):
        raise AutogradError(f"{_SCALAR}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.ndim:
        raise AutogradError(
            f"{_SCALAR}: Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} dims. Maybe you "
            "wanted to use the vjp or jacrev APIs instead?"
        )
    return output


def gradients(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: list[Tensor] | None, retain_graph: bool | None
) -> list[Tensor]:
    """Return the gradients of `outputs` by aliases of inputs, zeros for unused inputs. They have a history if it leads
    out of the transform."""
    chosen = [i for i, output in enumerate(outputs) if output._requires_grad]
    roots = [outputs[i] for i in chosen]
    given = None if cotangents is None else [cotangents[i] for i in chosen]
    found: Any = [None] * len(inputs)
    if roots:
        check_differentiable(roots)
        recording = state.grad and (has_outer_history(roots) or any(c._requires_grad for c in given or ()))
        found = engine_grad(roots, inputs, given, retain_graph, recording, allow_unused=True)
    return [
        ops.zeros_as(tensor).detach() if gradient is None else without_inner_history(gradient)
        for tensor, gradient in zip(inputs, found, strict=True)
    ]


@public
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return `func(*primals)` and its pullback, a function from cotangents of the output to cotangents of the primals.

    Args:
        func: it returns tensors, or nested containers of them.
        primals: its arguments: tensors, or nested containers of them.
        has_aux: `func` returns (output, auxiliary tensors); then (output, pullback, auxiliary tensors) is returned.

    Returns:
        (output, pullback). `pullback(cotangents)` takes gradients in the structure of the output and returns a tuple
        with one entry for each primal; it may be called any number of times.

    Raises:
        RuntimeError: an output is no floating tensor; (from the pullback) gradients of another structure or shape.
    """
    with open_scope("vjp") as scope:
        inputs, structure, result = _traced(scope, primals, lambda chosen: func(*chosen))
    output, aux = split_aux(result, has_aux, "vjp(f, *primals)")
    outputs, kind = output_tensors(output, "vjp(f, *primals)")
    for tensor in outputs:
        if tensor.dtype.kind not in "fc":
            raise AutogradError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{tensor.dtype}"
            )

    @public
    def pullback(cotangents: Any, retain_graph: bool = True) -> tuple[Any, ...]:
        given, other = flatten(cotangents)
        if other != kind:
            raise AutogradError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {other}, primal output: {kind}"
            )
        for number, (tensor, cotangent) in enumerate(zip(outputs, given, strict=True)):
            if not isinstance(cotangent, Tensor):
                raise AutogradError(f"vjp: expected cotangents to be tensors, got {type(cotangent)}")
            if cotangent.shape != tensor.shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {list(cotangent.shape)} and "
                    f"output[{number}] has a shape of {list(tensor.shape)}."
                )
        return unflatten(structure, gradients(outputs, inputs, given, retain_graph))

    value = unflatten(kind, [without_inner_history(tensor) for tensor in outputs])
    return (value, pullback, tree_without_inner_history(aux)) if has_aux else (value, pullback)
