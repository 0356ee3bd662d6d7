"""One training step of `examples/digits.py`: in process, on Ray with two workers, eagerly, and by hand in NumPy; in
sessions also replayed by `session.compile`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from measure import Result, Subject, compare, elsewhere, per_unit

import raygrad as rg

STEPS = 11
"""Steps per round; one number is read at the end, as the example does once an epoch."""


def example() -> ModuleType:
    """Import the example from its file."""
    path = Path(__file__).resolve().parents[1] / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits"] = module
    spec.loader.exec_module(module)
    return module


class Trainer:
    """The example's training, an epoch's worth of steps at a time, eagerly or in the ambient session."""

    def __init__(self, digits: Any, session: rg.Session | None = None) -> None:
        self.digits = digits
        self.x, self.target, *_ = digits.digits()
        for array in (self.x, self.target):
            array.flags.writeable = False  # else a compiled step, which reaches them by `self`, compares their bytes
        self.step: Callable[[Any], Any] = self._step if session is None else session.compile(self._step)
        self.parameters = digits.initial_parameters()
        self.optimizer = rg.optim.SGD(self.parameters, lr=digits.LEARNING_RATE, momentum=digits.MOMENTUM)

    def steps(self) -> float:
        """Take the steps and return their mean loss."""
        total = rg.zeros((), dtype=rg.float64)
        for rows in self.digits.batches(len(self.x), 0)[:STEPS]:
            total = total + self.step(self.digits.branches_of(self.x[rows], self.target[rows]))
        return (total / STEPS).item()

    def _step(self, branches: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.digits.loss_of(self.parameters, branches)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class ByHand:
    """The same arithmetic without any autograd: what the machine needs for the numbers themselves."""

    def __init__(self, digits: Any) -> None:
        self.digits = digits
        self.x, self.target, *_ = digits.digits()
        self.parameters = [p.detach().numpy().copy() for p in digits.initial_parameters()]
        self.momentum = [np.zeros_like(p) for p in self.parameters]

    def branch(self, x: Any, target: Any) -> tuple[Any, list[Any]]:
        """Return the loss of one branch, and what it adds to the gradients."""
        w1, b1, w2, b2 = self.parameters
        hidden = np.tanh(x @ w1 + b1)
        logits = hidden @ w2 + b2
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        log_softmax = shifted - log_sum
        loss = -(log_softmax * target).sum() / len(x)
        grad = -target / len(x) / self.digits.BRANCHES
        grad = grad - np.exp(log_softmax) * grad.sum(axis=1, keepdims=True)
        norm = float(np.linalg.norm(grad))
        if norm > self.digits.CLIP:
            grad = grad * (self.digits.CLIP / norm)
        back = grad @ w2.T
        float(np.linalg.norm(back))  # what the example's node hook emits
        back = back * (1.0 - hidden**2)
        return loss, [x.T @ back, back.sum(axis=0), hidden.T @ grad, grad.sum(axis=0)]

    def steps(self) -> float:
        """Take the steps and return their mean loss."""
        total = 0.0
        for rows in self.digits.batches(len(self.x), 0)[:STEPS]:
            x, target = self.x[rows], self.target[rows]
            parts = [
                self.branch(x[part], target[part]) for part in np.array_split(np.arange(len(x)), self.digits.BRANCHES)
            ]
            total += sum(loss for loss, _ in parts) / len(parts)
            for number, parameter in enumerate(self.parameters):
                self.momentum[number] *= self.digits.MOMENTUM
                self.momentum[number] += sum(grads[number] for _, grads in parts)
                parameter -= self.digits.LEARNING_RATE * self.momentum[number]
        return total / STEPS


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    digits = example()
    rounds = 3 if quick else 9
    work = f"training step of the demo, {digits.BATCH} images in {digits.BRANCHES} branches | step"
    by_hand, eager = ByHand(digits), Trainer(digits)
    np.testing.assert_allclose(by_hand.steps(), eager.steps(), rtol=1e-10)
    anchor = "NumPy by hand"
    found = compare(
        work,
        [
            Subject(anchor, per_unit(by_hand.steps, STEPS)),
            Subject("raygrad, eager", per_unit(eager.steps, STEPS), anchor),
        ],
        rounds,
    )
    with elsewhere():
        for name, address in (("raygrad, in process", "local"), ("raygrad, on two Ray workers", "ray")):
            with rg.Session(address, workers=2) as session:
                afresh, replayed = Trainer(digits), Trainer(digits, session)
                subjects = [
                    Subject(f"{name}, by hand beside it", per_unit(by_hand.steps, STEPS)),
                    Subject(name, per_unit(afresh.steps, STEPS), f"{name}, by hand beside it"),
                    Subject(
                        f"{name}, session.compile",
                        per_unit(replayed.steps, STEPS),
                        f"{name}, by hand beside it",
                        "<= 3 ms more" if address == "ray" else "",
                    ),
                ]
                found += compare(work, subjects, rounds)
                afresh.optimizer.zero_grad()
    return found
