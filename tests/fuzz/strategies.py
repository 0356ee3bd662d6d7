"""Makes random programs: mostly valid ones, with some that are not.

Blocks and passes, how often each kind of step is drawn, and the whole program. The other kinds of
steps are drawn in `drawing_ops` and `drawing_effects`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from . import drawing_effects, drawing_ops
from .programs import Leaf, Program, Step
from .world import NoneFits, Sketch, World

SHAPES = [(2, 3), (3,), (), (2, 1), (1, 3), (0, 3), (3, 2), (2, 2), (2, 2, 3), (0,), (1,)]
DTYPES = ["float64"] * 12 + ["float32"] * 3 + ["complex128", "int64"]


# ---- modes and passes ------------------------------------------------------------------------------------------------


def _block(world: World) -> Step:
    if world.depth > 1:
        return drawing_ops.binary(world)
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
    count = 1 + world.below(3)
    leaves = world.below(4)
    wanted = tuple(world.tensor(lambda s: s.needs and (s.leaf or not leaves)) for _ in range(count))
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
        drawing_ops.binary: 7,
        drawing_ops.unary: 4,
        drawing_ops.view: 6,
        drawing_effects.apply: 7,
        drawing_effects.inplace: 5,
        _backward: 4,
        drawing_effects.hook: 5,
        drawing_ops.reduce: 3,
        drawing_ops.getitem: 3,
        _grad: 3,
        drawing_effects.setitem: 2,
        _block: 2,
        drawing_ops.matmul: 1,
        drawing_ops.join: 1,
        drawing_ops.where: 1,
        drawing_ops.along: 1,
        drawing_ops.views: 1,
        drawing_effects.masked_fill: 1,
        drawing_effects.node_hook: 2,
        drawing_effects.post_accumulate: 1,
        drawing_effects.retain_grad: 1,
        drawing_effects.requires_grad: 1,
        drawing_effects.detach_: 1,
        drawing_effects.data: 1,
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


def make(world: World, longest: int) -> Program:
    """Make a program of up to `longest` steps, with a pass at its end."""
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
    return Program(tuple(leaves), tuple(steps), world.below(len(steps)) if world.rarely(3) else 0)


@st.composite
def programs(draw: Callable[[Any], Any], longest: int = 20) -> Program:
    """Draw a program of up to `longest` steps."""
    return make(World(draw), longest)
