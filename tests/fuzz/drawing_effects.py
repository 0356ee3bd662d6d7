"""Draws the steps of random programs that do something to tensors: change them in place, hook them, set their flags,
give them to a custom Function.

A function draws one kind of step, and tells the `World` what is different after it.
"""

from __future__ import annotations

from typing import Any

from .aliasing import CHANGING, PASSING, VIEWING
from .drawing_ops import draw_index
from .functions import ARITY
from .programs import Step
from .world import NUMBERS, NoneFits, Sketch, World, broadcast

IN_PLACE = (
    "add_ mul_ sub_ mul_ copy_ div_ zero_ fill_ neg_ exp_ tanh_ sigmoid_ relu_ square_ sqrt_ abs_ sin_ pow_".split()
)
TAKES_OTHER = {"add_", "mul_", "sub_", "div_", "copy_", "pow_"}


# ---- changes in place ------------------------------------------------------------------------------------------------


def _changeable(world: World) -> int:
    """Return a tensor that may be changed in place: as a rule not a leaf that requires grad."""
    return world.tensor(lambda s: not (s.stuck and world.grad) and s.dtype != "bool")


def _changed(world: World, t: int, *sources: Sketch) -> None:
    target = world.tensors[t]
    needs = target.needs or (world.grad and any(source.needs for source in sources))
    world.tensors[t] = target._replace(needs=needs, leaf=target.leaf and not needs, stuck=False)


def inplace(world: World) -> Step:
    t, name = _changeable(world), world.one(IN_PLACE)
    if name == "pow_" and world.tensors[t].dtype[0] == "c":  # torch's 0 ** 0 is no complex number
        raise NoneFits
    target = world.tensors[t]
    args: tuple[Any, ...] = ()
    if name in TAKES_OTHER and world.below(4):

        def fits(other: Sketch) -> bool:
            return broadcast(target.shape, other.shape) == target.shape and (
                other.dtype == target.dtype or name == "copy_"
            )

        u = world.tensor(fits)
        args = (("tensor", u),)
        _changed(world, t, world.tensors[u])
    elif name in TAKES_OTHER or name == "fill_":
        args = (world.one(NUMBERS),) if name != "copy_" else (("tensor", t),)
    return ("inplace", name, t, args)


def masked_fill(world: World) -> Step:
    return ("masked_fill_", _changeable(world), world.one([0.3, -0.6]), world.one(NUMBERS))


def setitem(world: World) -> Step:
    t = world.tensor(lambda s: not (s.stuck and world.grad) and len(s.shape) > 0)
    where, shape = draw_index(world, world.tensors[t], basic=world.below(3) > 0)
    if world.rarely(3):
        return ("setitem", t, where, ("number", world.one(NUMBERS)))
    differentiable = world.tensors[t].dtype[0] in "fc"
    u = world.tensor(lambda other: broadcast(shape, other.shape) == shape and (differentiable or not other.needs))
    _changed(world, t, world.tensors[u])
    return ("setitem", t, where, u)


# ---- Functions, hooks, flags -----------------------------------------------------------------------------------------


def apply(world: World) -> Step:
    name = world.one(_NEW if world.below(2) else _ALIASING)
    changing = name in CHANGING
    t = world.tensor(lambda s: s.dtype[0] == "f" and not (changing and s.stuck and world.grad))
    source = world.tensors[t]
    ts = (t,)
    if ARITY[name] == 2:
        exact = name != "sum_to"
        ts = (t, world.tensor(lambda s: s.dtype == source.dtype and (s.shape == source.shape if exact else True)))
    sources = [world.tensors[i] for i in ts]
    if changing:
        _changed(world, t, *sources)
        if name == "change_":
            world.like(source.shape, *sources)
        world.tensors.append(world.tensors[t])
        return ("apply", name, ts)
    if name in ("mix", "mix_undefined", "passing_both", "passing_beside"):
        world.like(source.shape, *sources)
    shape = source.shape
    if name == "sliced" and shape:
        shape = (max(shape[0] - 1, 0), *shape[1:])
    elif name == "turned" and shape:
        shape = (shape[-1], *shape[1:-1], shape[0]) if len(shape) > 1 else shape
    elif name == "flat":
        shape = (source.size,)
    world.like(shape, *sources)
    if name in VIEWING or name in PASSING:
        for position in range(-2 if name == "passing_both" else -1, 0):
            world.tensors[position] = world.tensors[position]._replace(stuck=True)
    if name == "sign":
        world.made(source.shape, source.dtype)
    return ("apply", name, ts)


_ALIASING = [*CHANGING, *VIEWING, *PASSING]
_NEW = sorted(set(ARITY) - set(_ALIASING))


def _needing(world: World) -> int:
    return world.tensor(lambda s: s.needs)


def hook(world: World) -> Step:
    return ("hook", world.one(["log", "log", "double", "clone"]), _needing(world))


def node_hook(world: World) -> Step:
    kind = world.one(["pre", "post", "pre_double", "post_double"])
    return ("node_hook", kind, world.tensor(lambda s: s.needs and not s.leaf))


def post_accumulate(world: World) -> Step:
    return ("post_accumulate", world.tensor(lambda s: s.needs and s.leaf))


def retain_grad(world: World) -> Step:
    return ("retain_grad", _needing(world))


def requires_grad(world: World) -> Step:
    t = world.tensor(lambda s: s.leaf and s.dtype[0] in "fc")
    flag = world.below(2) == 1
    target = world.tensors[t]
    world.tensors[t] = target._replace(needs=flag, stuck=flag) if target.leaf else target
    return ("requires_grad_", t, flag)


def detach_(world: World) -> Step:
    t = world.tensor()
    world.tensors[t] = world.tensors[t]._replace(needs=False, leaf=True, stuck=False)
    return ("detach_", t)


def data(world: World) -> Step:
    if world.below(3):  # what follows is compared in little (CX-14)
        raise NoneFits
    t = world.tensor()
    target = world.tensors[t]
    return ("data", t, world.tensor(lambda s: s.shape == target.shape and s.dtype == target.dtype))
