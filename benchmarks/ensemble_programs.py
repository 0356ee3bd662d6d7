"""The programs of `ensemble.py`: K branches of one model and one loss, by hand in NumPy and as raygrad records them.

A program says what one branch computes forward and backward on arrays; whoever runs the branches (in one process, on
bare actors, by Dask or torch) only distributes these two. A `Client` is what such a program does beside its branches.
`recorded` is the same program with raygrad. All give the same bits: gradients are summed in raygrad's tree.

The branches are no model of anything: they take given times on one core, keep given bytes for backward, and both
results depend on all that goes in.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import raygrad as rg

Array = np.ndarray
Grads = list[Array]

SIDE: Final = 96
PERIOD: Final = 4
"""Inputs repeat after so many steps, so that what they should give is computed by hand only as often."""

MATRIX: Final = np.random.default_rng(0).standard_normal((SIDE, SIDE)) * (1.5 / SIDE**0.5)
MATRIX.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step gives: the loss, and the gradients by leaf if they come to the client."""

    loss: float
    grads: Grads


@dataclass(frozen=True, slots=True)
class Work:
    """What one node does: iterations forward and backward, and float64 numbers that forward keeps for backward."""

    forward: int
    backward: int
    kept: int

    @property
    def kept_bytes(self) -> int:
        return 8 * self.kept


# ---- one node, in NumPy --------------------------------------------------------------------------------------------


def busy(start: float, iterations: int) -> Array:
    """Return (SIDE, SIDE) numbers that depend on `start`, after so many products and hyperbolic tangents."""
    h = MATRIX * start
    for _ in range(iterations):
        h = np.tanh(MATRIX @ h)
    return h


def forward(work: Work, x: Array, index: float, factor: float) -> tuple[Array, Array]:
    """Return an output of the shape of `x`, and what is kept for backward; `factor` times the usual work."""
    h = busy(1.0 + 0.1 * x[0] + index, round(work.forward * factor))
    kept = np.resize(h, work.kept)
    kept[0] = factor
    return x + np.resize(h, x.size), kept


def backward(work: Work, kept: Array, grad: Array) -> Array:
    """Return the gradient of `x`; reads all that was kept."""
    h = busy(float(kept[1:].mean()) + grad[0], round(work.backward * kept[0]))
    return grad + np.resize(h, grad.size)


def calibrated(seconds: tuple[float, float], kept_bytes: int, out: int) -> Work:
    """Return the work of a node that takes so many seconds forward and backward, as this machine now is."""
    none, x = Work(0, 0, kept_bytes // 8), np.linspace(0.1, 0.9, out)
    kept = forward(none, x, 0.0, 1.0)[1]
    pace = fastest(lambda: busy(1.0, 50)) / 50
    fixed = fastest(lambda: forward(none, x, 0.0, 1.0)), fastest(lambda: backward(none, kept, x))
    iterations = [max(1, round((wanted - least) / pace)) for wanted, least in zip(seconds, fixed, strict=True)]
    return Work(iterations[0], iterations[1], none.kept)


def fastest(work: Callable[[], Any], times: int = 7) -> float:
    """Return the seconds of a core that the fastest of some runs takes, however busy the machine is."""
    taken: list[float] = []
    for _ in range(times):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return min(taken)


# ---- programs ------------------------------------------------------------------------------------------------------


class Client(ABC):
    """What a program by hand does beside its branches, step by step."""

    @abstractmethod
    def begin(self) -> tuple[Grads, list[float]]:
        """Return the leaves of the next step, and by which factor each branch takes longer than usual."""

    @abstractmethod
    def end(self, losses: Sequence[float], grads: Grads) -> Outcome:
        """Return what the step gives, from the losses by branch and the sum of their gradients by leaf."""


class Program(ABC):
    """K branches, and a loss that is the sum of theirs; frozen parameters, so that any process can make its data."""

    name: str
    branches: int

    @abstractmethod
    def client(self) -> Client:
        """Return the client's part by hand, at its first step."""

    @abstractmethod
    def forward(self, leaves: Grads, index: int, factor: float) -> tuple[float, Any]:
        """Return the loss of a branch, and its context."""

    @abstractmethod
    def backward(self, context: Any) -> Grads:
        """Return the gradients of a branch's loss by leaf."""

    @abstractmethod
    def recorded(self, session: rg.Session, *, compiled: bool) -> Callable[[], Outcome]:
        """Return what takes one step after another with raygrad, from the first on."""

    @abstractmethod
    def one_run(self) -> float:
        """Return the seconds of one run of one of its Functions, here and now."""

    def prepare(self) -> None:  # noqa: B027 - most have none to make
        """Make the data that branches read, in this process, before any clock runs."""

    def same_as(self, number: int) -> int:
        """Return the number of the first step that has the inputs of this one."""
        return number

    def branch(self, leaves: Grads, index: int, factor: float) -> tuple[float, Grads]:
        """Return loss and gradients of one branch."""
        loss, context = self.forward(leaves, index, factor)
        return loss, self.backward(context)


class _Repeating(Client):
    """The client of a program without state, whose inputs repeat."""

    def __init__(self, program: Ensemble | Pipeline) -> None:
        self.program, self.number = program, 0

    def begin(self) -> tuple[Grads, list[float]]:
        number, self.number = self.number % PERIOD, self.number + 1
        return self.program.leaves(number), self.program.factors(number)

    def end(self, losses: Sequence[float], grads: Grads) -> Outcome:
        return Outcome(self.program.loss(losses), grads)


@dataclass(frozen=True)
class Ensemble(Program):
    """Branches that have a model of `out` numbers in common: each gives as many numbers, and half their squares."""

    name: str
    branches: int
    work: Work
    out: int
    numbered: bool = False
    """Whether a branch is told its number by a Python int, and the losses are added one by one; else by a tensor,
    and they are collected in a list."""
    durations: tuple[float, ...] = ()
    """By which factor the branches take longer than `work`; () for equal ones."""
    slow: float = 1.0
    """By how much one branch of each step, never the one of the step before, takes longer than it did."""

    def client(self) -> Client:
        return _Repeating(self)

    def same_as(self, number: int) -> int:
        return number % PERIOD

    def leaves(self, number: int) -> Grads:
        """Return the model of a step."""
        return [np.linspace(0.1, 0.9, self.out) + 0.01 * number]

    def factors(self, number: int) -> list[float]:
        """Return how much longer each branch of a step takes."""
        factors = list(self.durations or [1.0] * self.branches)
        if self.slow != 1.0:
            factors[(5 + 7 * number) % self.branches] *= self.slow
        return factors

    def loss(self, losses: Sequence[float]) -> float:
        """Return the loss, added in the order in which the recorded program adds it."""
        if not self.numbered:
            return float(np.array(losses).sum())
        total = 0.0
        for loss in losses:
            total += loss
        return total

    def forward(self, leaves: Grads, index: int, factor: float) -> tuple[float, Any]:
        y, kept = forward(self.work, leaves[0], float(index), factor)
        return 0.5 * float((y * y).sum()), (kept, y)

    def backward(self, context: Any) -> Grads:
        kept, y = context
        return [backward(self.work, kept, y)]

    def one_run(self) -> float:
        longest = max(self.durations, default=1.0)
        return fastest(lambda: forward(self.work, self.leaves(0)[0], 0.0, longest), 3)

    def recorded(self, session: rg.Session, *, compiled: bool) -> Callable[[], Outcome]:
        branch = numbered_branch(self.work, self.durations) if self.numbered else branch_of(self.work)

        def collected(x, members):
            losses = []
            for member in members:
                y = branch.apply(x, member)
                losses.append(0.5 * (y * y).sum())
            loss = rg.stack(losses).sum()
            loss.backward()
            return loss.detach()

        def added(x, members):
            loss = rg.zeros((), dtype=rg.float64)
            for index in range(len(members)):
                y = branch.apply(x, index)
                loss = loss + 0.5 * (y * y).sum()
            loss.backward()
            return loss.detach()

        passes = added if self.numbered else collected
        if compiled:
            passes = session.compile(passes)
        client = self.client()

        def step() -> Outcome:
            (model,), factors = client.begin()
            x = rg.tensor(model, requires_grad=True)
            loss = passes(x, [rg.tensor([float(index), factor]) for index, factor in enumerate(factors)])
            return Outcome(loss.item(), [x.grad.numpy()])

        return step


def backward_of(work: Work) -> Callable[..., Any]:
    """Return the backward of the Functions of a branch, whose forwards save what they keep."""

    def branch_backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return rg.from_numpy(backward(work, kept.numpy(), grad.numpy())), None

    return branch_backward


def branch_of(work: Work) -> type[rg.autograd.Function]:
    """Return the Function of a branch whose second argument holds its number and its factor."""

    class Branch(rg.autograd.Function):
        """One branch: (out,), (2,) -> (out,)."""

        @staticmethod
        def forward(ctx, x, member):
            index, factor = member.tolist()
            y, kept = forward(work, x.numpy(), index, factor)
            ctx.save_for_backward(rg.from_numpy(kept))
            return rg.from_numpy(y)

        backward = staticmethod(backward_of(work))

    return Branch


def numbered_branch(work: Work, durations: tuple[float, ...]) -> type[rg.autograd.Function]:
    """Return the Function of a branch whose second argument is its number, an int."""

    class NumberedBranch(rg.autograd.Function):
        """One branch: (out,), int -> (out,)."""

        @staticmethod
        def forward(ctx, x, index):
            y, kept = forward(work, x.numpy(), float(index), durations[index] if durations else 1.0)
            ctx.save_for_backward(rg.from_numpy(kept))
            return rg.from_numpy(y)

        backward = staticmethod(backward_of(work))

    return NumberedBranch


@dataclass(frozen=True)
class Pipeline(Program):
    """Stages with weights, through which microbatches of `out` numbers pass; a branch is a microbatch."""

    name: str
    branches: int
    stages: int
    work: Work
    out: int

    def client(self) -> Client:
        return _Repeating(self)

    def same_as(self, number: int) -> int:
        return number % PERIOD

    def leaves(self, number: int) -> Grads:
        """Return the weights of the stages at a step."""
        return [np.linspace(0.9, 1.1, self.out) + 0.01 * (number + stage) for stage in range(self.stages)]

    def microbatch(self, index: int) -> Array:
        """Return the numbers of a microbatch."""
        return np.linspace(-1.0, 1.0, self.out) + 0.1 * index

    def factors(self, number: int) -> list[float]:
        """Return that all take as long as usual."""
        return [1.0] * self.branches

    def loss(self, losses: Sequence[float]) -> float:
        """Return the loss."""
        return float(np.array(losses).sum())

    def forward(self, leaves: Grads, index: int, factor: float) -> tuple[float, Any]:
        h = self.microbatch(index)
        contexts = []
        for weight in leaves:
            y, kept = forward(self.work, h * weight, 0.0, factor)
            contexts.append((h, weight, kept))
            h = y
        return 0.5 * float((h * h).sum()), (contexts, h)

    def backward(self, context: Any) -> Grads:
        contexts, grad = context
        grads: Grads = []
        for h, weight, kept in reversed(contexts):
            inner = backward(self.work, kept, grad)
            grad = inner * weight
            grads.append(inner * h)
        return grads[::-1]

    def one_run(self) -> float:
        return fastest(lambda: forward(self.work, self.leaves(0)[0], 0.0, 1.0), 3)

    def recorded(self, session: rg.Session, *, compiled: bool) -> Callable[[], Outcome]:
        stage, parts = stage_of(self.work), [session.put(self.microbatch(index)) for index in range(self.branches)]

        def passes(weights):
            losses = []
            for h in parts:
                for weight in weights:
                    h = stage.apply(h, weight)
                losses.append(0.5 * (h * h).sum())
            loss = rg.stack(losses).sum()
            loss.backward()
            return loss.detach()

        run = session.compile(passes) if compiled else passes
        client = self.client()

        def step() -> Outcome:
            leaves, _ = client.begin()
            weights = [rg.tensor(leaf, requires_grad=True) for leaf in leaves]
            loss = run(weights)
            return Outcome(loss.item(), [weight.grad.numpy() for weight in weights])

        return step


def stage_of(work: Work) -> type[rg.autograd.Function]:
    """Return the Function of a stage."""

    class Stage(rg.autograd.Function):
        """One stage: activations and weights, (out,) each, to activations."""

        @staticmethod
        def forward(ctx, h, weight):
            y, kept = forward(work, h.numpy() * weight.numpy(), 0.0, 1.0)
            ctx.save_for_backward(h, weight, rg.from_numpy(kept))
            return rg.from_numpy(y)

        @staticmethod
        def backward(ctx, grad):
            h, weight, kept = (tensor.numpy() for tensor in ctx.saved_tensors)
            inner = backward(work, kept, grad.numpy())
            return rg.from_numpy(inner * weight), rg.from_numpy(inner * h)

    return Stage
