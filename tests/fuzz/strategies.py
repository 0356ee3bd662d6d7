"""Makes random programs: mostly valid ones, with some that are not.

Rules of this file: a `World` guesses the shape and dtype of every tensor that a program makes, so that most steps fit;
one step in `WILD` does not ask it. A wrong guess costs nothing: the libraries say what a program means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from .aliasing import CHANGING, PASSING, VIEWING
from .functions import ARITY
from .programs import Leaf, Program, Step

WILD = 25
SHAPES = [(2, 3), (3,), (), (2, 1), (1, 3), (0, 3), (3, 2), (2, 2), (2, 2, 3), (0,), (1,)]
DTYPES = ["float64"] * 12 + ["float32"] * 3 + ["complex128", "int64"]

UNARY = "neg exp sin cos tanh sigmoid relu abs square sqrt log reciprocal log1p clone sign floor".split()
SMOOTH = UNARY[:9]
BINARY = "mul add sub mul add div maximum minimum pow atan2".split()
REDUCE = "sum sum mean prod amax amin logsumexp max min norm".split()
ALONG = "cumsum softmax log_softmax".split()
IN_PLACE = (
    "add_ mul_ sub_ mul_ copy_ div_ zero_ fill_ neg_ exp_ tanh_ sigmoid_ relu_ square_ sqrt_ abs_ sin_ pow_".split()
)
TAKES_OTHER = {"add_", "mul_", "sub_", "div_", "copy_", "pow_"}
NUMBERS = [2.0, 0.5, -1.0, 3.0, 2, 0.0]


class Sketch(NamedTuple):
    """What is guessed of a tensor.

    Attributes:
        needs: it requires grad.
        stuck: it is a leaf that requires grad, or a view of one: not to be changed in place with recording on.
    """

    shape: tuple[int, ...]
    dtype: str
    needs: bool
    leaf: bool
    stuck: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class NoneFits(Exception):
    """No tensor is there for the kind of step that was drawn: another is made."""


class World:
    """The tensors made so far, and what the draws are made with."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self.tensors: list[Sketch] = []
        self.grad = True
        self.depth = 0

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def below(self, n: int) -> int:
        return self._draw(_BELOW[n]) if n < len(_BELOW) else self._draw(st.integers(0, n - 1))

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def rarely(self, n: int) -> bool:
        """Say yes once in `n`."""
        return self.below(n) == n - 1

    def tensor(self, fits: Callable[[Sketch], bool] | None = None) -> int:
        """Return the number of a tensor that fits, the newest ones more often.

        Raises:
            NoneFits: there is none.
        """
        candidates: Sequence[int] = range(len(self.tensors))
        if self.below(3):
            candidates = [i for i in candidates if self.tensors[i].needs] or candidates
        if fits is not None and not self.rarely(WILD):
            candidates = [i for i in candidates if fits(self.tensors[i])] or [
                i for i, sketch in enumerate(self.tensors) if fits(sketch)
            ]
            if not candidates:
                raise NoneFits
        newest = candidates[-3:]
        return self.one(newest if self.below(3) else candidates)

    def dim(self, rank: int) -> int:
        if self.rarely(WILD):
            return rank
        return self.below(2 * rank) - rank if rank else 0

    def permutation(self, rank: int) -> tuple[int, ...]:
        left = list(range(rank))
        return tuple(left.pop(self.below(len(left))) for _ in range(rank))

    # ---- guessing ----------------------------------------------------------------------------------------------------

    def made(self, shape: tuple[int, ...], dtype: str, *sources: Sketch, stuck: bool = False) -> None:
        differentiable = dtype[0] in "fc"
        needs = self.grad and differentiable and any(source.needs for source in sources)
        self.tensors.append(Sketch(tuple(shape), dtype, needs, not needs, stuck))

    def like(self, shape: tuple[int, ...], *sources: Sketch) -> None:
        dtype = sources[0].dtype
        for source in sources[1:]:
            dtype = np.promote_types(dtype, source.dtype).name
        self.made(shape, dtype, *sources)


_BELOW = [st.just(0), *(st.integers(0, n - 1) for n in range(1, 64))]


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


# ---- ops -------------------------------------------------------------------------------------------------------------


def _real(sketch: Sketch) -> bool:
    return sketch.dtype[0] == "f"


def _unary(world: World) -> Step:
    name = world.one(UNARY if world.below(2) else SMOOTH)
    t = world.tensor(_real if name in ("relu", "floor", "sign") else None)
    source = world.tensors[t]
    world.made(source.shape, "float32" if source.dtype[0] in "ib" else source.dtype, source)
    return ("unary", name, t)


def _binary(world: World) -> Step:
    name = world.one(BINARY)
    t = world.tensor(None if name in ("add", "mul", "sub") else _real)
    source = world.tensors[t]
    if world.rarely(4) and name not in ("maximum", "minimum", "atan2"):
        world.like(source.shape, source)
        return ("binary", name, t, ("number", world.one(NUMBERS)))
    u = world.tensor(
        lambda other: (
            (name in ("add", "mul", "sub") or _real(other)) and _broadcast(source.shape, other.shape) is not None
        )
    )
    other = world.tensors[u]
    if name == "pow" and "c" in (source.dtype[0], other.dtype[0]):  # torch's 0 ** 0 is no complex number
        raise NoneFits
    world.like(_broadcast(source.shape, other.shape) or (), source, other)
    return ("binary", name, t, u)


def _reduced(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    dims = tuple(d % max(len(shape), 1) for d in dims)
    return tuple(1 if i in dims else n for i, n in enumerate(shape) if keepdim or i not in dims)


def _reduce(world: World) -> Step:
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


def _along(world: World) -> Step:
    t = world.tensor(_real)
    source = world.tensors[t]
    world.made(source.shape, source.dtype, source)
    return ("along", world.one(ALONG), t, world.dim(len(source.shape)))


def _matmul(world: World) -> Step:
    t = world.tensor(lambda s: len(s.shape) > 0)
    source = world.tensors[t]
    inner = source.shape[-1] if source.shape else -1

    def fits(other: Sketch) -> bool:
        return other.dtype == source.dtype and bool(other.shape) and other.shape[-2:][0] == inner

    u = world.tensor(fits)
    other = world.tensors[u]
    world.like((*source.shape[:-1], *other.shape[-2:][1:]), source, other)
    return ("matmul", t, u)


def _join(world: World) -> Step:
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


def _where(world: World) -> Step:
    t = world.tensor()
    source = world.tensors[t]
    u = world.tensor(lambda other: _broadcast(source.shape, other.shape) is not None)
    v = world.tensor(lambda other: _broadcast(source.shape, world.tensors[u].shape, other.shape) is not None)
    ones = [world.tensors[i] for i in (t, u, v)]
    world.like(_broadcast(*(s.shape for s in ones)) or (), *ones[1:])
    return ("where", t, world.one([0.3, -0.6, 1.1]), u, v)


# ---- indices and views -----------------------------------------------------------------------------------------------


def _index(world: World, source: Sketch, basic: bool = False) -> tuple[Any, tuple[int, ...]]:
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


def _getitem(world: World) -> Step:
    t = world.tensor(lambda s: len(s.shape) > 0)
    index, shape = _index(world, world.tensors[t])
    world.made(shape, world.tensors[t].dtype, world.tensors[t], stuck=world.tensors[t].stuck)
    return ("getitem", t, index)


def _factors(world: World, size: int) -> tuple[int, ...]:
    if not size:
        return world.one([(0,), (0, 2), (3, 0)])
    first = world.one([n for n in range(1, size + 1) if size % n == 0])
    return world.one([(first, size // first), (size,), (size // first, 1, first)])


def _view(world: World) -> Step:
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


def _views(world: World) -> Step:
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


# ---- changes in place ------------------------------------------------------------------------------------------------


def _changeable(world: World) -> int:
    """Return a tensor that may be changed in place: as a rule not a leaf that requires grad."""
    return world.tensor(lambda s: not (s.stuck and world.grad) and s.dtype != "bool")


def _changed(world: World, t: int, *sources: Sketch) -> None:
    target = world.tensors[t]
    needs = target.needs or (world.grad and any(source.needs for source in sources))
    world.tensors[t] = target._replace(needs=needs, leaf=target.leaf and not needs, stuck=False)


def _inplace(world: World) -> Step:
    t, name = _changeable(world), world.one(IN_PLACE)
    if name == "pow_" and world.tensors[t].dtype[0] == "c":  # torch's 0 ** 0 is no complex number
        raise NoneFits
    target = world.tensors[t]
    args: tuple[Any, ...] = ()
    if name in TAKES_OTHER and world.below(4):

        def fits(other: Sketch) -> bool:
            return _broadcast(target.shape, other.shape) == target.shape and (
                other.dtype == target.dtype or name == "copy_"
            )

        u = world.tensor(fits)
        args = (("tensor", u),)
        _changed(world, t, world.tensors[u])
    elif name in TAKES_OTHER or name == "fill_":
        args = (world.one(NUMBERS),) if name != "copy_" else (("tensor", t),)
    return ("inplace", name, t, args)


def _masked_fill(world: World) -> Step:
    return ("masked_fill_", _changeable(world), world.one([0.3, -0.6]), world.one(NUMBERS))


def _setitem(world: World) -> Step:
    t = world.tensor(lambda s: not (s.stuck and world.grad) and len(s.shape) > 0)
    index, shape = _index(world, world.tensors[t], basic=world.below(3) > 0)
    if world.rarely(3):
        return ("setitem", t, index, ("number", world.one(NUMBERS)))
    differentiable = world.tensors[t].dtype[0] in "fc"
    u = world.tensor(lambda other: _broadcast(shape, other.shape) == shape and (differentiable or not other.needs))
    _changed(world, t, world.tensors[u])
    return ("setitem", t, index, u)


# ---- Functions, hooks, flags -----------------------------------------------------------------------------------------


def _apply(world: World) -> Step:
    name = world.one(_NAMES)
    t = world.tensor(lambda s: s.dtype[0] == "f")
    source = world.tensors[t]
    ts = (t,)
    if ARITY[name] == 2:
        exact = name != "sum_to"
        ts = (t, world.tensor(lambda s: s.dtype == source.dtype and (s.shape == source.shape if exact else True)))
    sources = [world.tensors[i] for i in ts]
    world.like(source.shape, *sources)
    if name == "passing":
        world.tensors[-1] = world.tensors[-1]._replace(stuck=True)
    if name in ("mix", "mix_undefined"):
        world.like(source.shape, *sources)
    elif name == "sign":
        world.made(source.shape, source.dtype)
    return ("apply", name, ts)


_NAMES = sorted(set(ARITY) - {*CHANGING, *VIEWING, *PASSING} | {"passing"})
"""Those whose outputs share memory otherwise are run by `test_found` alone so far."""


def _needing(world: World) -> int:
    return world.tensor(lambda s: s.needs)


def _hook(world: World) -> Step:
    return ("hook", world.one(["log", "log", "double", "clone"]), _needing(world))


def _node_hook(world: World) -> Step:
    kind = world.one(["pre", "post", "pre_double", "post_double"])
    return ("node_hook", kind, world.tensor(lambda s: s.needs and not s.leaf))


def _post_accumulate(world: World) -> Step:
    return ("post_accumulate", world.tensor(lambda s: s.needs and s.leaf))


def _retain_grad(world: World) -> Step:
    return ("retain_grad", _needing(world))


def _requires_grad(world: World) -> Step:
    t = world.tensor(lambda s: s.leaf and s.dtype[0] in "fc")
    flag = world.below(2) == 1
    target = world.tensors[t]
    world.tensors[t] = target._replace(needs=flag, stuck=flag) if target.leaf else target
    return ("requires_grad_", t, flag)


def _detach_(world: World) -> Step:
    t = world.tensor()
    world.tensors[t] = world.tensors[t]._replace(needs=False, leaf=True, stuck=False)
    return ("detach_", t)


def _data(world: World) -> Step:
    t = world.tensor()
    target = world.tensors[t]
    return ("data", t, world.tensor(lambda s: s.shape == target.shape and s.dtype == target.dtype))


# ---- modes and passes ------------------------------------------------------------------------------------------------


def _block(world: World) -> Step:
    if world.depth > 1:
        return _binary(world)
    kind = world.one(["no_grad", "no_grad", "enable_grad"])
    before, world.grad = world.grad, kind == "enable_grad"
    world.depth += 1
    steps = tuple(_step(world) for _ in range(1 + world.below(3)))
    world.depth -= 1
    world.grad = before
    return (kind, steps)


def _set_grad_enabled(world: World) -> Step:
    world.grad = world.below(2) == 1
    return ("set_grad_enabled", world.grad)


def _root(world: World) -> int:
    return world.tensor(lambda s: s.needs and not s.leaf)


def _roots(world: World) -> tuple[int, ...]:
    return tuple(_root(world) for _ in range(1 + world.below(3)))


def _options(world: World) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if world.below(4):
        options["retain_graph"] = True
    if world.rarely(4):
        options["create_graph"] = True
    return options


def _backward(world: World) -> Step:
    options = _options(world)
    if world.rarely(4):
        inputs = (world.tensor(lambda s: s.needs and s.leaf) for _ in range(1 + world.below(2)))
        options["inputs"] = tuple(inputs)
    return ("backward", _roots(world), options)


def _grad(world: World) -> Step:
    options = _options(world)
    if world.below(4):
        options["allow_unused"] = True
    elif world.rarely(3):
        options["materialize_grads"] = True
    roots = _roots(world)
    leaves = world.below(4)
    wanted = tuple(world.tensor(lambda s: s.needs and (s.leaf or not leaves)) for _ in range(1 + world.below(3)))
    for number in wanted:
        target = world.tensors[number]
        higher = "create_graph" in options
        world.tensors.append(target._replace(needs=higher, leaf=not higher, stuck=False))
    return ("grad", roots, wanted, options)


def _with_grad(kind: str) -> Callable[[World], Step]:
    def step(world: World) -> Step:
        t = world.tensor(lambda s: s.needs and s.leaf)
        if kind == "take_grad":
            world.tensors.append(world.tensors[t]._replace(needs=False, leaf=True, stuck=False))
        return (kind, t)

    return step


_KINDS: list[Callable[[World], Step]] = [
    step
    for step, weight in {
        _binary: 7,
        _unary: 4,
        _view: 6,
        _apply: 7,
        _inplace: 5,
        _backward: 4,
        _hook: 5,
        _reduce: 3,
        _getitem: 3,
        _grad: 3,
        _setitem: 2,
        _block: 2,
        _matmul: 1,
        _join: 1,
        _where: 1,
        _along: 1,
        _views: 1,
        _masked_fill: 1,
        _node_hook: 2,
        _post_accumulate: 1,
        _retain_grad: 1,
        _requires_grad: 1,
        _detach_: 1,
        _data: 1,
        _set_grad_enabled: 1,
        _with_grad("clear"): 1,
        _with_grad("zero_grad"): 1,
        _with_grad("take_grad"): 1,
    }.items()
    for _ in range(weight)
]


def _step(world: World) -> Step:
    try:
        return world.one(_KINDS)(world)
    except NoneFits:
        source = world.tensors[-1]
        world.like(source.shape, source)
        return ("binary", "mul", len(world.tensors) - 2, ("number", 2.0))


@st.composite
def programs(draw: Callable[[Any], Any], longest: int = 20) -> Program:
    """Make a program of up to `longest` steps, with a pass at its end."""
    world = World(draw)
    leaves: list[Leaf] = []
    for _ in range(1 + world.below(4)):
        shape, dtype = world.one(SHAPES), world.one(DTYPES)
        needs = not world.rarely(4) and dtype != "int64"
        leaves.append(Leaf(shape, dtype, needs, world.below(50)))
        world.tensors.append(Sketch(shape, dtype, needs, True, needs))
    steps = [_step(world) for _ in range(4 + world.below(longest - 4))]
    if any(sketch.needs and not sketch.leaf for sketch in world.tensors):
        needing = [i for i, sketch in enumerate(world.tensors) if sketch.needs and not sketch.leaf]
        steps.append(("backward", tuple(needing[-1 - world.below(3) :]), _options(world)))
    return Program(tuple(leaves), tuple(steps))
