"""The forward-mode transforms of `raygrad.func`: `jvp` and `linearize` (FT-02).

Each opens a forward-mode level of its own; `forward_mode` propagates the tangents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import public

from .. import ops
from ..core.modes import open_scope, transforming
from ..core.pytree import flatten, unflatten
from ..forward_ad import dual_at_level, unpack_at_level
from ..tensor.tangent_levels import TangentLevel, open_tangent_level
from ..tensor.tensor import Tensor
from .common import output_tensors, split_aux

_JVP = "jvp(f, primals, tangents)"


@public
def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return `func(*primals)` and its derivative along `tangents`.

    Args:
        func: it returns tensors, or nested containers of them.
        primals: its arguments, in a tuple: floating tensors, or nested containers of them.
        tangents: of the same structure and shapes.
        strict: raise where an output does not depend on the primals; else its tangent is zero.
        has_aux: `func` returns (output, auxiliary tensors); then (output, tangent, auxiliary tensors) is returned.

    Raises:
        RuntimeError: structures or shapes do not fit; `func` returns something else than tensors.
        ValueError: a primal or a tangent is no floating tensor.
    """
    return _pushed(func, primals, tangents, strict, has_aux)


def _pushed(
    func: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool, checks: bool = True
) -> tuple[Any, ...]:
    """Do `jvp`; if it `checks`, `func` must not change in place what it captures."""
    if not isinstance(primals, tuple):
        raise AutogradError(f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    given, structure = flatten(cast("Any", primals))
    along, other = flatten(tangents)
    if structure != other:
        raise AutogradError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structure} and tangents with "
            f"structure {other}"
        )
    if not given:
        raise AutogradError(f"{_JVP}: Expected primals to contain at least one Tensor.")
    for name, leaves in (("primals", given), ("tangents", along)):
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise AutogradError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(leaf)}")
            if leaf.dtype.kind not in "fc":
                raise ValueError(f"Expected {name[:-1]} to be floating point or complex, but got: {leaf.dtype}")
    with open_scope("jvp", checks) as scope, transforming("jvp", reverse=False), open_tangent_level() as level:
        scope.given = duals = [dual_at_level(level, *pair) for pair in zip(given, along, strict=True)]
        output, aux = split_aux(func(*unflatten(structure, duals)), has_aux, _JVP)
        outputs, kind = output_tensors(output, _JVP)
        pairs = [_pair(level, tensor, strict) for tensor in outputs]
        aux_result: Any = None
        if has_aux:
            items, aux_kind = flatten(aux)
            for item in items:
                if not isinstance(item, Tensor):
                    raise AutogradError(f"Expected tensors, got unsupported type {type(item)}")
            aux_result = unflatten(aux_kind, [unpack_at_level(level, item).primal for item in items])
    value = unflatten(kind, [primal for primal, _ in pairs])
    moved = unflatten(kind, [tangent for _, tangent in pairs])
    return (value, moved, aux_result) if has_aux else (value, moved)


def _pair(level: TangentLevel, tensor: Tensor, strict: bool) -> tuple[Tensor, Tensor]:
    primal, tangent = unpack_at_level(level, tensor)
    if tangent is None:
        if strict:
            raise AutogradError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        tangent = ops.zeros_as(primal).detach()
    return primal, tangent


@public
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return `func(*primals)` and the function of tangents that is its derivative there.

    That function runs `func` again each time it is called, in forward mode.

    Raises (from the function returned):
        RuntimeError: tangents of another structure or shape than the primals.
    """
    leaves, structure = flatten(primals)
    zeros = unflatten(structure, [ops.zeros_as(leaf).detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves])
    value, _ = _pushed(func, primals, zeros, False, False, checks=False)

    @public
    def derivative(*tangents: Any) -> Any:
        given, other = flatten(tangents)
        if other != structure:
            raise AutogradError(f"Expected the tangents {other} to have the same argspec as the primals {structure}")
        for number, (tangent, primal) in enumerate(zip(given, leaves, strict=True)):
            if tangent.shape != primal.shape:
                raise AutogradError(
                    f"tangent:{number} with shape {list(tangent.shape)} in flattened pytree doesn't match the shape "
                    f"{list(primal.shape)} of the corresponding primal."
                )
        return _pushed(func, primals, tangents, False, False, checks=False)[1]

    return value, derivative
