"""Random programs over captured state: containers, classes, partials, modules and arrays, nested in each other, changed
by the program at random moments."""

from __future__ import annotations

import array
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import raygrad as rg


class Held:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


class HeldInSlots:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


@dataclass
class HeldInRecord:
    inner: Any


class Table(dict[str, Any]):
    pass


class Row(list[Any]):
    pass


Reader = Callable[[Any], Any]


def _in_module(inner: Any) -> Any:
    module: Any = ModuleType("held_by_a_module")
    module.inner = inner
    return module


def _at_key(made: Any, inner: Any) -> Any:
    made["inner"] = inner
    return made


def _inner(one: Any) -> Any:
    return one.inner


def _item(one: Any) -> Any:
    return one["inner"]


def _first(one: Any) -> Any:
    return one[0]


def _called(one: Any) -> Any:
    return one()


def _given(inner: Any) -> Any:
    return inner


def _sets_attribute(one: Any, new: Any) -> None:
    one.inner = new


def _sets_item(one: Any, new: Any) -> None:
    one["inner"] = new


def _sets_first(one: Any, new: Any) -> None:
    one[0] = new


def _sets_keyword(one: Any, new: Any) -> None:
    one.keywords["inner"] = new


HOLDERS: list[tuple[Callable[[Any], Any], Reader, Callable[[Any, Any], None] | None]] = [
    (Held, _inner, _sets_attribute),
    (HeldInSlots, _inner, _sets_attribute),
    (HeldInRecord, _inner, _sets_attribute),
    (lambda inner: SimpleNamespace(inner=inner), _inner, _sets_attribute),
    (_in_module, _inner, _sets_attribute),
    (lambda inner: {"inner": inner}, _item, _sets_item),
    (lambda inner: Table(inner=inner), _item, _sets_item),
    (lambda inner: OrderedDict(inner=inner), _item, _sets_item),
    (lambda inner: _at_key(defaultdict(list), inner), _item, _sets_item),
    (lambda inner: [inner], _first, _sets_first),
    (lambda inner: Row([inner]), _first, _sets_first),
    (lambda inner: deque([inner]), _first, _sets_first),
    (lambda inner: (inner,), _first, None),
    (lambda inner: functools.partial(_given, inner), _called, None),
    (lambda inner: functools.partial(_given, inner=inner), _called, _sets_keyword),
]
"""What may hold another object: how it is made, read, and given another one."""

LEAVES: list[tuple[Callable[[float], Any], Reader, Callable[[Any, float], None] | None]] = [
    (float, float, None),
    (lambda value: [value], _first, _sets_first),
    (lambda value: np.full(3, value), _first, _sets_first),
    (lambda value: array.array("d", [value]), _first, _sets_first),
    (lambda value: bytearray([int(value)]), _first, _sets_first),
]


class Captured:
    """A nest of objects around one number."""

    def __init__(self, random: Random) -> None:
        self.random = random
        make, self.read_leaf, self.write_leaf = random.choice(LEAVES)
        self.makes = [random.choice(HOLDERS) for _ in range(random.randint(1, 3))]
        self.make_leaf = make
        self.root = self._made(1, 0)

    def _made(self, value: int, depth: int) -> Any:
        made = self.make_leaf(value)
        for make, _, _ in reversed(self.makes[depth:]):
            made = make(made)
        return made

    def change(self, value: int) -> None:
        """Have it hold another number, by a change at some depth where there can be one."""
        held, places = self.root, []
        for depth, (_, read, write) in enumerate(self.makes):
            if write is not None:
                places.append(functools.partial(self._exchange, write, held, depth + 1))
            held = read(held)
        if self.write_leaf is not None:
            write_leaf = self.write_leaf
            places.append(lambda value: write_leaf(held, value))
        if places:
            self.random.choice(places)(value)

    def _exchange(self, write: Callable[[Any, Any], None], held: Any, depth: int, value: int) -> None:
        write(held, self._made(value, depth))

    def reader(self) -> Callable[[], float]:
        """Return a function that captures it and returns the number."""
        root, steps = self.root, [read for _, read, _ in self.makes]
        read_leaf = self.read_leaf

        def read() -> float:
            held = root
            for step in steps:
                held = step(held)
            return float(read_leaf(held))

        return read


def run_program(seed: int) -> list[Any]:
    """Run the program of a seed, and return what it has seen."""
    random = Random(seed)
    captured = [Captured(random) for _ in range(random.randint(1, 2))]
    reads = [one.reader() for one in captured]

    def read() -> float:
        return sum([one() for one in reads])

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * read()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * read()

    def hook(grad: Any) -> Any:
        return grad * read()

    def node_hook(before: Any, after: Any) -> Any:
        return tuple([None if one is None else one * read() for one in before])

    x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    found: list[Any] = []
    outputs: list[Any] = []
    for _ in range(random.randint(4, 12)):
        action = random.choice(("apply", "apply", "hook", "node hook", "pass", "read", "change", "change"))
        if action == "change":
            random.choice(captured).change(random.randint(2, 9))
        elif action == "apply":
            outputs.append(Reads.apply(outputs[-1] if outputs and random.random() < 0.3 else x * 1.0))
        elif outputs and action == "hook":
            outputs[-1].register_hook(hook)
        elif outputs and action == "node hook":
            outputs[-1].grad_fn.register_hook(node_hook)
        elif outputs and action == "read":
            found.append(random.choice(outputs).tolist())
        elif outputs and action == "pass":
            sum(outputs[1:], outputs[0]).sum().backward()  # pyright: ignore[reportAttributeAccessIssue]
            outputs.clear()
            if random.random() < 0.5:
                found.append(x.grad.tolist())
    found += [one.tolist() for one in outputs]
    found.append(None if x.grad is None else x.grad.tolist())
    return found
