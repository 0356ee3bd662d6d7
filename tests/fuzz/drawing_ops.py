"""Draws the steps of random programs that make tensors: ops, indices and views.

A function draws one kind of step, and tells the `World` what it makes.
"""

from __future__ import annotations

import math
from typing import Any

from .programs import Step
from .world import NUMBERS, NoneFits, Sketch, World, broadcast

UNARY = "neg exp sin cos tanh sigmoid relu abs square sqrt log reciprocal log1p clone sign floor".split()
SMOOTH = UNARY[:9]
BINARY = "mul add sub mul add div maximum minimum pow atan2".split()
REDUCE = "sum sum mean prod amax amin logsumexp max min norm".split()
ALONG = "cumsum softmax log_softmax".split()


# ---- ops -------------------------------------------------------------------------------------------------------------


def _real(sketch: Sketch) -> bool:
    return sketch.dtype[0] == "f"


def unary(world: World) -> Step:
    name = world.one(UNARY if world.below(2) else SMOOTH)
    t = world.tensor(_real if name in ("relu", "floor", "sign") else None)
    source = world.tensors[t]
    world.made(source.shape, "float32" if source.dtype[0] in "ib" else source.dtype, source)
    return ("unary", name, t)


def binary(world: World) -> Step:
    name = world.one(BINARY)
    t = world.tensor(None if name in ("add", "mul", "sub") else _real)
    source = world.tensors[t]
    if world.rarely(4) and name not in ("maximum", "minimum", "atan2"):
        world.like(source.shape, source)
        return ("binary", name, t, ("number", world.one(NUMBERS)))
    u = world.tensor(
        lambda other: (
            (name in ("add", "mul", "sub") or _real(other)) and broadcast(source.shape, other.shape) is not None
        )
    )
    other = world.tensors[u]
    if name == "pow" and "c" in (source.dtype[0], other.dtype[0]):  # torch's 0 ** 0 is no complex number
        raise NoneFits
    world.like(broadcast(source.shape, other.shape) or (), source, other)
    return ("binary", name, t, u)


def _reduced(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    dims = tuple(d % max(len(shape), 1) for d in dims)
    return tuple(1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims)


def reduce(world: World) -> Step:
    name = world.one(REDUCE)
    t = world.tensor(None if name in ("sum", "prod") else _real)
    source = world.tensors[t]
    rank, keepdim = len(source.shape), world.below(2) == 1
    if name == "norm":
        world.made((), source.dtype, source)
        return ("reduce", "norm", t, None, False)
    pair = name in ("max", "min")
    dim: Any = world.dim(rank)
    dims: tuple[int, ...] = (dim,)
    if world.rarely(3) and name != "logsumexp":
        dim, dims, keepdim, pair = None, tuple(range(rank)), False, False
    elif world.rarely(4) and name in ("sum", "mean", "amax", "amin", "logsumexp"):
        dim = dims = tuple(range(rank))
    world.made(_reduced(source.shape, dims, keepdim), source.dtype, source)
    if pair:
        world.made(_reduced(source.shape, dims, keepdim), "int64", source)
    return ("reduce", name, t, dim, keepdim)


def along(world: World) -> Step:
    t = world.tensor(_real)
    source = world.tensors[t]
    world.made(source.shape, source.dtype, source)
    return ("along", world.one(ALONG), t, world.dim(len(source.shape)))


def matmul(world: World) -> Step:
    t = world.tensor(lambda s: len(s.shape) > 0)
    source = world.tensors[t]
    inner = source.shape[-1] if source.shape else -1

    def fits(other: Sketch) -> bool:
        return other.dtype == source.dtype and bool(other.shape) and other.shape[-2:][0] == inner

    u = world.tensor(fits)
    other = world.tensors[u]
    world.like((*source.shape[:-1], *other.shape[-2:][1:]), source, other)
    return ("matmul", t, u)


def join(world: World) -> Step:
    name, t = world.one(["cat", "stack"]), world.tensor(lambda s: len(s.shape) > 0)
    source = world.tensors[t]
    ts = (t, *(world.tensor(lambda other: other.shape == source.shape) for _ in range(world.below(3))))
    sources = [world.tensors[u] for u in ts]
    if name == "stack":
        dim = world.dim(len(source.shape) + 1)
        at = dim % (len(source.shape) + 1)
        world.like((*source.shape[:at], len(ts), *source.shape[at:]), *sources)
    else:
        dim = world.dim(len(source.shape))
        at = dim % max(len(source.shape), 1)
        world.like(tuple(n * len(ts) if i == at else n for i, n in enumerate(source.shape)), *sources)
    return ("join", name, ts, dim)


def where(world: World) -> Step:
    t = world.tensor()
    source = world.tensors[t]
    u = world.tensor(lambda other: broadcast(source.shape, other.shape) is not None)
    v = world.tensor(lambda other: broadcast(source.shape, world.tensors[u].shape, other.shape) is not None)
    ones = [world.tensors[i] for i in (t, u, v)]
    world.like(broadcast(*(s.shape for s in ones)) or (), *ones[1:])
    return ("where", t, world.one([0.3, -0.6, 1.1]), u, v)


# ---- indices and views -----------------------------------------------------------------------------------------------


def draw_index(world: World, source: Sketch, basic: bool = False) -> tuple[Any, tuple[int, ...]]:
    """Return an index, and the shape that it selects."""
    shape = source.shape
    if not basic and world.rarely(6):
        return (("mask", world.one([0.3, -0.6])),), (source.size // 2,)
    items: list[Any] = []
    selected: list[int] = []
    for extent in shape:
        choice = world.below(8)
        if choice < 2 and extent:
            items.append(world.below(extent) - (extent if world.below(2) else 0))
        elif choice == 2 and not basic and extent and not any(isinstance(i, tuple) and i[0] == "list" for i in items):
            chosen = tuple(world.below(extent) for _ in range(1 + world.below(3)))
            items.append(("list", chosen))
            selected.append(len(chosen))
        else:
            start, step = world.one([(None, None), (1, None), (0, 2), (None, None)])
            stop = world.one([None, None, -1, 1])
            items.append(("slice", start, stop, step))
            selected.append(len(range(*slice(start, stop, step).indices(extent))))
        if choice == 7 and world.rarely(2):
            items.append(None)
            selected.append(1)
    if not items or (world.rarely(5) and items[-1] == ("slice", None, None, None)):
        items[-1:] = ["..."]
    return tuple(items), tuple(selected)


def getitem(world: World) -> Step:
    t = world.tensor(lambda s: len(s.shape) > 0)
    where, shape = draw_index(world, world.tensors[t])
    world.made(shape, world.tensors[t].dtype, world.tensors[t], stuck=world.tensors[t].stuck)
    return ("getitem", t, where)


def _factors(world: World, size: int) -> tuple[int, ...]:
    if not size:
        return world.one([(0,), (0, 2), (3, 0)])
    first = world.one([n for n in range(1, size + 1) if size % n == 0])
    return world.one([(first, size // first), (size,), (size // first, 1, first)])


def view(world: World) -> Step:
    t = world.tensor()
    source = world.tensors[t]
    shape, rank = source.shape, len(source.shape)
    name = world.one(_VIEWS)
    args: tuple[Any, ...] = ()
    dtype, needs = source.dtype, source.needs
    if name in ("view", "reshape"):
        shape = _factors(world, source.size)
        args = shape if world.below(4) else (*shape[:-1], -1) if math.prod(shape[:-1]) else shape
    elif name in ("transpose", "movedim", "diagonal"):
        a, b = world.dim(rank), world.dim(rank)
        args = (a, b)
        if name == "diagonal" or rank < 2:
            name = "diagonal" if rank >= 2 else "unsqueeze"
            args = (world.below(3) - 1,) if rank >= 2 else (0,)
            shape = (*shape[2:], min(shape[:2])) if rank >= 2 else (1, *shape)
        elif name == "transpose":
            order = list(shape)
            order[a % rank], order[b % rank] = order[b % rank], order[a % rank]
            shape = tuple(order)
        else:
            order = list(shape)
            order.insert(b % rank, order.pop(a % rank))
            shape = tuple(order)
    elif name == "permute":
        order = world.permutation(rank)
        args, shape = (order,), tuple(shape[i] for i in order)
    elif name == "expand":
        shape = args = (2, *(3 if n == 1 else n for n in shape))
    elif name == "unsqueeze":
        at = world.dim(rank + 1)
        args, at = (at,), at % (rank + 1)
        shape = (*shape[:at], 1, *shape[at:])
    elif name == "squeeze":
        args = (world.dim(rank),) if world.below(2) else ()
        shape = tuple(n for i, n in enumerate(shape) if n != 1 or (args and i != args[0] % max(rank, 1)))
    elif name in ("select", "narrow") and rank:
        d = world.dim(rank)
        at = d % rank
        extent = shape[at]
        start = world.below(max(extent, 1))
        if name == "select":
            args, shape = (d, start), (*shape[:at], *shape[at + 1 :])
        else:
            length = world.below(extent - start + 1) if extent > start else 0
            args, shape = (d, start, length), (*shape[:at], length, *shape[at + 1 :])
    elif name == "flatten":
        shape = (source.size,)
    elif name == "T" and rank == 2:
        shape = shape[::-1]
    elif name in ("real", "imag") and source.dtype.startswith("complex"):
        dtype = "float64"
    elif name in ("detach", "data"):
        needs = False
    else:
        world.made(shape, dtype, source, stuck=source.stuck)
        return ("getitem", t, ("...",))
    world.made(shape, dtype, source._replace(needs=needs), stuck=source.stuck and needs)
    return ("view", name, t, args)


_VIEWS = (
    "view reshape transpose permute expand unsqueeze squeeze select narrow diagonal detach data flatten movedim T real "
    "imag view transpose detach"
).split()


def views(world: World) -> Step:
    t = world.tensor(lambda s: len(s.shape) > 0)
    source = world.tensors[t]
    rank = len(source.shape)
    name, d = world.one(["unbind", "chunk", "split"]), world.dim(rank)
    at = d % max(rank, 1)
    extent = source.shape[at] if rank else 0
    if name == "unbind":
        for _ in range(extent):
            world.made((*source.shape[:at], *source.shape[at + 1 :]), source.dtype, source, stuck=True)
        return ("views", name, t, (d,))
    for i in range(0, max(extent, 1), 2):
        world.made((*source.shape[:at], min(2, extent - i), *source.shape[at + 1 :]), source.dtype, source, stuck=True)
    return ("views", name, t, (2 if name == "split" else max(1, (extent + 1) // 2), d))
