"""Random programs whose user code captures objects that the program changes meanwhile: their data, and what runs them.

A program is plain data, so that it can be printed, shrunk and kept as a test. Its objects are of `captured_kinds`;
their numbers, and those of tensors, which count from the newest, are taken modulo how many there are. Steps:

    ("apply", t, forward, backward)   a Function whose forward and backward read these objects
    ("hook", t, o)                    a tensor hook that reads object o
    ("pre_hook" | "post_hook", t, o)  a hook of t's node
    ("mul", t, u)
    ("compiled", t, o)                a compiled function that reads o, of t without its history
    ("draw", t)                       a Function that draws from `rg.generator`, where there is one
    ("change", o, value)              the program changes an object
    ("backward", t, create_graph)     keeps the graph
    ("grad", t)                       by the first leaf; its gradient becomes a tensor
    ("read", t)                       the value is looked at
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import raygrad as rg

from .captured_kinds import Captured

VALUES = [0.5, -1.5, 2.0, 0.75, 3.0]
HAS_GENERATOR = "generator" in rg.__all__
"""Whether user code can draw numbers that do not depend on where it runs."""


@dataclass(frozen=True, slots=True)
class CapturingProgram:
    """A program.

    Attributes:
        objects: (kind, boxes from the inside out, first number) of each object.
        begin: the number of the step before which a session begins.
    """

    objects: tuple[tuple[str, tuple[str, ...], float], ...]
    steps: tuple[tuple[Any, ...], ...]
    begin: int = 0


def capturing_programs(kinds: list[str], boxes: list[str]) -> st.SearchStrategy[CapturingProgram]:
    """Return a strategy for programs with objects of these kinds, in such boxes."""
    number = st.integers(0, 2)
    value = st.sampled_from(VALUES)
    step = st.one_of(
        st.tuples(st.just("apply"), number, number, number),
        st.tuples(st.just("change"), number, value),
        st.tuples(st.sampled_from(["hook", "pre_hook", "post_hook"]), number, number),
        st.tuples(st.just("apply"), number, number, number),
        st.tuples(st.just("change"), number, value),
        st.tuples(st.just("backward"), number, st.booleans()),
        st.tuples(st.sampled_from(["grad", "read", "draw"] if HAS_GENERATOR else ["grad", "read"]), number),
        st.tuples(st.just("compiled"), number, number),
        st.tuples(st.just("mul"), number, number),
    )
    return st.builds(
        CapturingProgram,
        st.lists(
            st.tuples(st.sampled_from(kinds), st.lists(st.sampled_from(boxes), max_size=2).map(tuple), value),
            min_size=1,
            max_size=2,
        ).map(tuple),
        st.lists(step, min_size=8, max_size=24).map(tuple),
        st.one_of(st.just(0), st.integers(0, 6)),
    )


# ---- user code ------------------------------------------------------------------------------------------------------


def make_function(read_forward: Callable[[], float], read_backward: Callable[[], float]) -> Any:
    """Return a Function that reads one object forward and one backward."""

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rate = read_forward()
            return x * ctx.rate

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.rate + g * read_backward()

    return Reads


def make_hook(read: Callable[[], float], kind: str) -> Callable[..., Any]:
    """Return a hook that reads an object."""
    if kind == "hook":
        return lambda g: g * read()
    if kind == "pre_hook":
        return lambda gs: tuple([None if g is None else g * read() for g in gs])
    return lambda gs, _: tuple([None if g is None else g * read() for g in gs])


def make_drawing() -> Any:
    """Return a Function that draws in forward and backward."""

    class Draws(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * float(rg.generator().random())

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float(rg.generator().random()) + float(np.sum(rg.rand(1).numpy()))

    return Draws


# ---- running --------------------------------------------------------------------------------------------------------


class CapturingMachine:
    """A running program: its tensors, objects, and what it has seen."""

    def __init__(self, program: CapturingProgram) -> None:
        self.objects = [Captured(*spec) for spec in program.objects]
        self.leaves = [rg.tensor(np.array(values), requires_grad=True) for values in ([1.0, -2.0], [0.5, 3.0])]
        self.tensors: list[Any] = list(self.leaves)
        self.results: list[Any] = []
        """Of compiled functions."""
        self.seen: list[Any] = []
        self.functions: dict[tuple[int, int], Any] = {}
        self.compiled: dict[int, Any] = {}
        self.session: Any = None
        self.drawing = make_drawing() if HAS_GENERATOR else None

    def tensor(self, number: int) -> Any:
        return self.tensors[-1 - number % len(self.tensors)]

    def reader(self, number: int) -> Callable[[], float]:
        return self.objects[number % len(self.objects)].reader

    def do_apply(self, t: int, forward: int, backward: int) -> None:
        key = (forward % len(self.objects), backward % len(self.objects))
        if key not in self.functions:
            self.functions[key] = make_function(self.reader(forward), self.reader(backward))
        self.tensors.append(self.functions[key].apply(self.tensor(t)))

    def do_draw(self, t: int) -> None:
        if self.drawing is not None:
            self.tensors.append(self.drawing.apply(self.tensor(t)))

    def do_mul(self, t: int, u: int) -> None:
        self.tensors.append(self.tensor(t) * self.tensor(u))

    def do_hook(self, t: int, o: int) -> None:
        tensor = self.tensor(t)
        if tensor.requires_grad:
            tensor.register_hook(make_hook(self.reader(o), "hook"))

    def do_pre_hook(self, t: int, o: int) -> None:
        node = self.tensor(t).grad_fn
        if node is not None:
            node.register_prehook(make_hook(self.reader(o), "pre_hook"))

    def do_post_hook(self, t: int, o: int) -> None:
        node = self.tensor(t).grad_fn
        if node is not None:
            node.register_hook(make_hook(self.reader(o), "post_hook"))

    def do_compiled(self, t: int, o: int) -> None:
        o %= len(self.objects)
        if o not in self.compiled:
            read = self.reader(o)
            self.compiled[o] = lambda x: x * read()
            if self.session is not None:
                self.compiled[o] = self.session.compile(self.compiled[o])
        self.results.append(self.compiled[o](self.tensor(t).detach()))

    def do_change(self, o: int, value: float) -> None:
        self.objects[o % len(self.objects)].change(value)

    def do_backward(self, t: int, create_graph: bool) -> None:
        tensor = self.tensor(t)
        if tensor.requires_grad:
            tensor.sum().backward(retain_graph=True, create_graph=create_graph)

    def do_grad(self, t: int) -> None:
        tensor = self.tensor(t)
        if tensor.requires_grad:
            (found,) = rg.autograd.grad(
                tensor.sum(), self.leaves[:1], retain_graph=True, create_graph=True, materialize_grads=True
            )
            self.tensors.append(found)

    def do_read(self, t: int) -> None:
        self.seen.append(_bytes_of(self.tensor(t)))

    def finish(self) -> list[Any]:
        """Return all that can be seen: what was read on the way, all values, and the gradients of leaves."""
        grads = [None if leaf.grad is None else _bytes_of(leaf.grad) for leaf in self.leaves]
        return [self.seen, [_bytes_of(tensor) for tensor in (*self.tensors, *self.results)], grads]


def _bytes_of(tensor: Any) -> Any:
    array = tensor.detach().numpy()
    return (array.shape, array.dtype.str, array.tolist(), array.tobytes())


def run_capturing(program: CapturingProgram, session: Callable[[], AbstractContextManager[Any]] | None) -> list[Any]:
    """Run a program, from its step `begin` on inside what `session` opens; return what was seen."""
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if HAS_GENERATOR:
            rg.manual_seed(7)
        machine = CapturingMachine(program)
        for number, (kind, *args) in enumerate((*program.steps, ("finish",))):
            if session is not None and number == min(program.begin, len(program.steps)):
                machine.session = stack.enter_context(session())
                machine.compiled.clear()
            if kind == "finish":
                return machine.finish()
            getattr(machine, "do_" + kind)(*args)
    raise AssertionError("a program ends")
