"""The transform `raygrad.vmap` (`raygrad.func.vmap`): a function of one example made a function of a batch (VM-12 to
VM-17).

It batches inputs by `in_dims` and unpacks outputs by `out_dims`. Inside, tensors hold `Batched` data, and ops are
applied by `batched_call`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import attribute_of, public

from .. import ops
from ..core.batched_data import VmapLevel, open_vmap_level, unwrap_batched, without_closed_levels
from ..core.modes import transforming
from ..core.pytree import LEAF, Structure, broadcast_prefix, flatten, unflatten
from ..dispatch.random_numbers import drawn_alike
from ..registry.define_op import axis_of
from ..tensor.tensor import Tensor
from . import along, batched

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` to each example of a batch, all of them at once.

    Args:
        func: takes and returns tensors, in lists, tuples, named tuples and dicts as it likes.
        in_dims: along which dimension of each argument the examples lie, None for one that is the same for all; an
            integer, or a tuple that has the structure of the positional arguments, or the beginning of it. Keyword
            arguments are the same for all.
        out_dims: along which dimension of each output they are to lie, None for one that is not batched.
        randomness: what random factories do inside: raise ("error"), draw for each example ("different"), or once for
            all ("same").
        chunk_size: how many examples are computed at once, all by default.

    Raises:
        RuntimeError: another `randomness`; and, inside, what one value per example does not allow: `item()`, branches
            on values, a batched value written into a tensor that is not.
        ValueError: when called: arguments or results that do not fit `in_dims` and `out_dims`.
    """
    if randomness not in RANDOMNESS:
        raise AutogradError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and (isinstance(chunk_size, bool) or chunk_size <= 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = attribute_of(func, "__name__") or repr(func)

    @public
    @functools.wraps(func)
    def over_batch(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(out_dims, name)
        leaves, dims, structure = _inputs(args, in_dims, name)
        size = _size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, name, leaves, dims, structure, kwargs, VmapLevel(size, randomness), out_dims)
        return _in_chunks(func, name, leaves, dims, structure, kwargs, size, chunk_size, randomness, out_dims)

    return over_batch


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _inputs(args: tuple[Any, ...], in_dims: Any, name: str) -> tuple[list[Any], list[int | None], Structure]:
    """Return the leaves of the arguments, the batch dimension of each, and the structure."""
    call = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if type(in_dims) is not int and not isinstance(in_dims, tuple):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)} (of sequences, only for tuples is it clear what they mean: expected in_dims to be "
            "int or tuple)"
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    given = broadcast_prefix(in_dims, structure)
    if given is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of inputs. in_dims has structure "
            f"{flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    return leaves, [_in_dim(leaf, dim, call) for leaf, dim in zip(leaves, given, strict=True)], structure


def _in_dim(leaf: Any, dim: Any, call: str) -> int | None:
    if dim is None:
        return None
    if type(dim) is not int:
        raise ValueError(
            f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{call}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.ndim} so "
            f"expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def _size(leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    """Return the batch size."""
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over, but every in_dim is None")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


# ---- outputs ---------------------------------------------------------------------------------------------------------


def _check_out_dims(out_dims: Any, name: str) -> None:
    for dim in flatten(out_dims)[0]:
        if dim is not None and type(dim) is not int:
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
                "ints representing where in the outputs the vmapped dimension should appear."
            )


def _out_dims(out_dims: Any, structure: Structure, name: str) -> list[Any]:
    """Return an out_dim for each leaf of the results."""
    if structure == LEAF and isinstance(out_dims, tuple):
        one: tuple[Any, ...] = cast("Any", out_dims)
        given = list(one) if len(one) == 1 else None
    else:
        given = broadcast_prefix(out_dims, structure)
    if given is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    return given


def _unwrapped(result: Any, dim: int | None, level: VmapLevel, name: str) -> Any:
    """Return an output with its batch dimension at `dim`."""
    if not isinstance(result, Tensor):
        if dim is None:
            return result
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(result)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    value, lies = unwrap_batched(without_closed_levels(result), level)
    if dim is None:
        if lies is not None:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    return along(value, lies, axis_of(dim, result.ndim + 1), level.size)


# ---- running ---------------------------------------------------------------------------------------------------------


def _run(
    func: Callable[..., Any],
    name: str,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    kwargs: dict[str, Any],
    level: VmapLevel,
    out_dims: Any,
) -> Any:
    with transforming("vmap", reverse=False), open_vmap_level(level):
        given = [batched(leaf, dim, level) if dim is not None else leaf for leaf, dim in zip(leaves, dims, strict=True)]
        outs, out_structure = flatten(func(*unflatten(structure, given), **kwargs))
        wanted = _out_dims(out_dims, out_structure, name)
        results = [_unwrapped(out, dim, level, name) for out, dim in zip(outs, wanted, strict=True)]
    return unflatten(out_structure, results)


def _in_chunks(
    func: Callable[..., Any],
    name: str,
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    kwargs: dict[str, Any],
    size: int,
    chunk_size: int,
    randomness: str,
    out_dims: Any,
) -> Any:
    """Run the function on chunks of the batch, and join the outputs; with "same" randomness all chunks draw alike."""
    parts: list[list[Any]] = []
    out_structure = LEAF
    with drawn_alike(randomness == "same") as again:
        for start in range(0, size, chunk_size):
            again()
            count = min(chunk_size, size - start)
            some = [
                leaf if dim is None else ops.narrow(leaf, dim, start, count)
                for leaf, dim in zip(leaves, dims, strict=True)
            ]
            result = _run(func, name, some, dims, structure, kwargs, VmapLevel(count, randomness), out_dims)
            outs, out_structure = flatten(result)
            parts.append(outs)
    wanted = _out_dims(out_dims, out_structure, name)
    joined = [
        pieces[0] if dim is None else ops.cat(pieces, axis_of(dim, pieces[0].ndim))
        for dim, *pieces in zip(wanted, *parts, strict=True)
    ]
    return unflatten(out_structure, joined)
