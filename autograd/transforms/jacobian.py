"""Jacobians and Hessians: one product along each basis vector (SEMANTICS FT-03)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..tensor import Tensor
from ..trees import Structure, flatten, unflatten
from .common import Argnums, output_tensors, parted, positions_of, settled_tree, with_arguments
from .forward import jvp
from .reverse import vjp

Tensors = Sequence[Tensor]


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by reverse mode: one backward per element of the output.

    Args:
        func: it returns tensors, or nested containers of them.
        argnums: the positional argument by which, or a tuple of such.
        has_aux: `func` returns (output, auxiliary tensors), and the Jacobian comes as (Jacobian, auxiliary tensors).
        chunk_size: how many rows are computed before they are put together: it bounds what is kept beside the result.

    Returns:
        A function of `func`'s arguments. In place of each output tensor stands the structure of the argument (a tuple
        of such for several), with tensors of shape `output.shape + input.shape`.

    Raises:
        ValueError: `chunk_size` is not positive.
        RuntimeError (when called): as `vjp`.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0, got {chunk_size}.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        chosen = [args[position] for position in positions]

        def of_chosen(*values: Any) -> Any:
            return func(*with_arguments(args, positions, values), **kwargs)

        value, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        outputs, kind = flatten(value)
        inputs, structure = flatten(tuple(chosen))

        def rows(number: int, basis: Tensor) -> Tensors:
            seeds = [basis if i == number else ops.zeros_as(o).detach() for i, o in enumerate(outputs)]
            return flatten(pullback(unflatten(kind, seeds)))[0]

        blocks = [
            _assembled([rows(number, basis) for basis in basis_of(output)], output, inputs, chunk_size)
            for number, output in enumerate(outputs)
        ]
        found = unflatten(kind, [_by_argument(structure, block, argnums) for block in blocks])
        return (found, aux[0]) if has_aux else found

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by forward mode: one run per element of the argument.

    Args and Returns: as `jacrev`.

    Raises (when called):
        RuntimeError: as `jvp`.
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        chosen = tuple([args[position] for position in positions])
        inputs, structure = flatten(chosen)

        def of_chosen(*values: Any) -> Any:
            return func(*with_arguments(args, positions, values), **kwargs)

        columns: list[list[list[Tensor]]] = []  # by input, by its element, by output
        kind: Structure | None = None
        aux: Any = None
        shapes: list[tuple[int, ...]] = []
        for number, tensor in enumerate(inputs):
            columns.append([])
            for basis in basis_of(tensor):
                along = [basis if i == number else ops.zeros_as(t).detach() for i, t in enumerate(inputs)]
                result = jvp(of_chosen, chosen, unflatten(structure, along), has_aux=has_aux)
                tangents, kind = flatten(result[1])
                shapes = [t.shape for t in tangents]
                columns[-1].append(tangents)
                aux = result[2] if has_aux else None
        if kind is None:  # inputs without elements: only the outputs' shapes are wanted
            output, aux = parted(of_chosen(*chosen), has_aux, "jacfwd")
            outputs, kind = output_tensors(output, "jacfwd")
            shapes = [o.shape for o in outputs]
            aux = settled_tree(aux) if has_aux else None
        blocks = [
            [_columns([c[place] for c in columns[i]], shape, tensor) for i, tensor in enumerate(inputs)]
            for place, shape in enumerate(shapes)
        ]
        found = unflatten(kind, [_by_argument(structure, block, argnums) for block in blocks])
        return (found, aux) if has_aux else found

    return jacobian


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `func`: forward mode over reverse mode; see `jacfwd`, `jacrev`."""
    return jacfwd(jacrev(func, argnums), argnums)


def basis_of(tensor: Tensor) -> list[Tensor]:
    """Return, for each element of a tensor, the tensor of its shape that is one there and zero elsewhere."""
    size = tensor._data.size
    rows = np.eye(size, dtype=tensor.dtype).reshape(size, *tensor.shape)
    return [Tensor.made(rows[number]) for number in range(size)]


def _assembled(rows: Sequence[Tensors], output: Tensor, inputs: Tensors, chunk_size: int | None) -> list[Tensor]:
    """Return, for each input, its rows put together."""
    blocks: list[Tensor] = []
    for place, tensor in enumerate(inputs):
        shape = (*output.shape, *tensor.shape)
        if not rows:
            blocks.append(Tensor.made(np.zeros(shape, tensor.dtype)))
            continue
        parts = [row[place] for row in rows]
        size = chunk_size or len(parts)
        chunks = [ops.stack(parts[start : start + size]) for start in range(0, len(parts), size)]
        blocks.append(ops.reshape(chunks[0] if len(chunks) == 1 else ops.cat(chunks), shape))
    return blocks


def _columns(columns: Sequence[Tensor], shape: tuple[int, ...], tensor: Tensor) -> Tensor:
    if not columns:
        return Tensor.made(np.zeros((*shape, *tensor.shape), tensor.dtype))
    return ops.reshape(ops.stack(list(columns), -1), (*shape, *tensor.shape))


def _by_argument(structure: Structure, blocks: Sequence[Tensor], argnums: Argnums) -> Any:
    """Return the blocks in the structure of the chosen arguments; for one argument, of it alone."""
    found = unflatten(structure, blocks)
    return found if isinstance(argnums, tuple) else found[0]
