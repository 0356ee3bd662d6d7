"""The transforms `jacrev`, `jacfwd` and `hessian` of `raygrad.func`: functions that compute Jacobians and Hessians
(FT-03).

They take products along all basis vectors at once, by `vmap`. Where user code on the way asks for arrays, which a
batched tensor does not have, it runs again from the start, one basis vector after the other. `jacobian` and `hessian`
of `torch.autograd.functional` are in `autograd/functional.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from raygrad.errors import NoSingleValue
from raygrad.tracebacks import public

from .. import ops
from ..core.batched_data import VmapLevel, open_vmap_level
from ..core.pytree import Structure, flatten, unflatten
from ..devices.serving import factory_device
from ..dispatch.device_dispatch import made_on
from ..dispatch.random_numbers import GeneratorState, drawn_alike
from ..tensor.tensor import Tensor
from ..vmap.vmap import vmap
from .common import Argnums, positions_of, with_arguments
from .forward import jvp
from .reverse import vjp


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by reverse mode, a row per element of the output.

    Args:
        func: it returns tensors, or nested containers of them.
        argnums: the positional argument by which, or a tuple of such.
        has_aux: `func` returns (output, auxiliary tensors), and the Jacobian comes as (Jacobian, auxiliary tensors).
        chunk_size: how many rows are computed at once, all by default.

    Returns:
        A function of `func`'s arguments. In place of each output tensor stands the structure of the argument (a tuple
        of such for several), with tensors of shape `output.shape + input.shape`.

    Raises:
        ValueError: `chunk_size` is not positive.
        RuntimeError (when called): as `vjp`.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0, got {chunk_size}.")

    @public
    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        chosen = [args[position] for position in positions]

        def of_chosen(*values: Any) -> Any:
            return func(*with_arguments(args, positions, values), **kwargs)

        value, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        outputs, kind = flatten(value)
        inputs, structure = flatten(tuple(chosen))

        def row(number: int, seed: Tensor) -> tuple[Tensor, ...]:
            seeds = [seed if i == number else ops.zeros_as(o).detach() for i, o in enumerate(outputs)]
            return tuple(flatten(pullback(unflatten(kind, seeds)))[0])

        blocks = [
            [
                ops.reshape(rows, (*output.shape, *tensor.shape))
                for rows, tensor in zip(
                    along_basis(functools.partial(row, number), output, chunk_size=chunk_size),
                    inputs,
                    strict=True,
                )
            ]
            for number, output in enumerate(outputs)
        ]
        found = unflatten(kind, [_by_argument(structure, block, argnums) for block in blocks])
        return (found, aux[0]) if has_aux else found

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by forward mode, a column per element of the input.

    Args and Returns: as `jacrev`; `randomness` as for `vmap`.

    Raises (when called):
        RuntimeError: as `jvp`.
    """

    @public
    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        chosen = tuple([args[position] for position in positions])
        inputs, structure = flatten(chosen)

        def of_chosen(*values: Any) -> Any:
            return func(*with_arguments(args, positions, values), **kwargs)

        kind: Structure | None = None
        aux: Any = None

        def column(number: int, tangent: Tensor) -> tuple[Tensor, ...]:
            nonlocal kind, aux
            along = [tangent if i == number else ops.zeros_as(t).detach() for i, t in enumerate(inputs)]
            result = jvp(of_chosen, chosen, unflatten(structure, along), has_aux=has_aux)
            aux = result[2] if has_aux else None
            tangents, kind = flatten(result[1])
            return tuple(tangents)

        columns = [
            along_basis(functools.partial(column, number), tensor, randomness=randomness)
            for number, tensor in enumerate(inputs)
        ]
        blocks = [
            [
                ops.reshape(ops.movedim(one, 0, -1), (*one.shape[1:], *tensor.shape))
                for one, tensor in zip(outputs, inputs, strict=True)
            ]
            for outputs in zip(*columns, strict=True)
        ]
        assert kind is not None
        found = unflatten(kind, [_by_argument(structure, block, argnums) for block in blocks])
        return (found, aux) if has_aux else found

    return jacobian


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `func` by forward mode over reverse mode; see `jacfwd`, `jacrev`.
    `autograd.functional.hessian` returns the Hessian itself."""
    return jacfwd(jacrev(func, argnums), argnums)


def _basis_of(tensor: Tensor) -> Tensor:
    size = tensor._data.size
    shape = (size, *tensor.shape)
    return Tensor.made(
        made_on(factory_device(tensor.device), lambda xp: xp.eye(size, dtype=tensor.dtype).reshape(shape))
    )


def along_basis(
    product: Callable[[Tensor], tuple[Tensor, ...]],
    tensor: Tensor,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> tuple[Tensor, ...]:
    """Return the results of `product` for each basis vector of `tensor`, stacked along a new first dimension."""
    before = GeneratorState()
    try:
        return vmap(product, randomness=randomness, chunk_size=chunk_size)(_basis_of(tensor))
    except NoSingleValue:
        before.back()  # what ran in vain is not counted
        return one_by_one(product, tensor, randomness)


def one_by_one(
    product: Callable[[Tensor], tuple[Tensor, ...]], tensor: Tensor, randomness: str = "different"
) -> tuple[Tensor, ...]:
    """Return the same as `along_basis`, by one call of `product` after the other."""
    basis, size = _basis_of(tensor), tensor._data.size
    vectors = [basis[number] for number in range(size)] or [ops.zeros_as(basis.sum(0))]
    found: list[tuple[Tensor, ...]] = []
    forbidding = open_vmap_level(VmapLevel(len(vectors))) if randomness == "error" else nullcontext()
    with drawn_alike(randomness != "different") as again, forbidding:
        for vector in vectors:
            again()
            found.append(product(vector))
    return tuple([ops.stack(list(rows))[:size] for rows in zip(*found, strict=True)])


def _by_argument(structure: Structure, blocks: Sequence[Tensor], argnums: Argnums) -> Any:
    """Return the blocks in the structure of the differentiated arguments; for one argument, its block alone."""
    found = unflatten(structure, blocks)
    return found if isinstance(argnums, tuple) else found[0]
