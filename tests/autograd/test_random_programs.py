"""Random programs under torch and raygrad: the same hooks in the same order, seeing the same gradients.

Left out is where SEMANTICS says to differ: non-leaves in `inputs` (EN-12, HK-08), a pass that reaches none of them
(EN-16), `needs_input_grad` in partial passes (CX-18), and hooks in passes over gradients, whose nodes are our own.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg

Log = list[Any]
PROGRAMS = 160


def shown(gradient: Any) -> Any:
    return None if gradient is None else gradient.detach().tolist()


def functions(T: Any, log: Log) -> Any:
    """Functions of several inputs and outputs, in both styles, and one whose gradient is undefined."""

    class Mix(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, materialize):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(a, b)
            return a * b, a + 2 * b

        @staticmethod
        def backward(ctx, g, h):
            log.append(("mix", shown(g), shown(h)))
            a, b = ctx.saved_tensors
            da = db = None
            if g is not None:
                da, db = g * b, g * a
            if h is not None:
                da, db = h if da is None else da + h, 2 * h if db is None else db + 2 * h
            return da, db, None

    class Square(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            log.append(("square", shown(g)))
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            log.append(("nothing", shown(g)))
            return None

    return Mix.apply, Square.apply, Nothing.apply


def build(T: Any, chance: random.Random, log: Log) -> list[Any]:
    """Return leaves and what was made of them, in order."""
    mix, square, nothing = functions(T, log)
    tensors = [
        T.tensor([chance.choice([-2.0, -1.0, 0.5, 2.0]) for _ in range(2)], dtype=T.float64, requires_grad=flag)
        for flag in (True, True, chance.random() < 0.5)
    ]
    binary = [
        lambda a, b: a * b * 0.5,
        lambda a, b: a + b,
        lambda a, b: square(a) * 0.25,
        lambda a, b: a - b,
        lambda a, b: -a,
        lambda a, b: a * 3,
    ]
    for _ in range(chance.randint(3, 14)):
        a, b, kind = chance.choice(tensors), chance.choice(tensors), chance.randrange(9)
        if kind < 6:
            tensors.append(binary[kind](a, b))
        elif kind < 8:
            tensors += mix(a, b, kind == 6)
        else:
            tensors.append(nothing(a))
    return tensors


def hook(chance: random.Random, tensors: list[Any], log: Log) -> None:
    """Register hooks of every kind at random places."""
    for i, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            continue
        if chance.random() < 0.4:
            tensor.register_hook(lambda g, i=i: log.append(("tensor", i, shown(g))))
        if chance.random() < 0.15:
            tensor.register_hook(lambda g: None if g is None else g * 2)
        if tensor.grad_fn is not None and chance.random() < 0.2:
            tensor.grad_fn.register_prehook(lambda gs, i=i: log.append(("pre", i, [shown(g) for g in gs])))
        if tensor.grad_fn is not None and chance.random() < 0.2:
            tensor.grad_fn.register_hook(lambda ins, outs, i=i: log.append(("post", i, [shown(g) for g in outs])))
        if chance.random() < 0.2:
            tensor.retain_grad()


def program(T: Any, seed: int) -> tuple[Log, list[Any]]:
    """Build a graph, run passes over it; return what the hooks saw and the gradients after each pass."""
    chance, log, results = random.Random(seed), [], []
    tensors = build(T, chance, log)
    hook(chance, tensors, log)
    beside = T.ones(2, dtype=T.float64, requires_grad=True)  # a pass always reaches something
    roots = [t for t in chance.sample(tensors[3:], 2) if t.requires_grad] + [beside * 1]
    for _ in range(3):
        seeds = [T.tensor([1.0, chance.choice([1.0, 2.0])], dtype=T.float64) for _ in roots]
        leaves = [leaf for leaf in tensors[:3] if leaf.requires_grad and chance.random() < 0.7] or [beside]
        again, kind = chance.random() < 0.3, chance.randrange(3)
        log.append(("pass", kind, again))
        if kind == 0:
            T.autograd.backward(roots, seeds, retain_graph=True, create_graph=again)
        elif kind == 1:
            T.autograd.backward(roots, seeds, retain_graph=True, create_graph=again, inputs=leaves)
        else:
            found = T.autograd.grad(roots, leaves, seeds, retain_graph=True, create_graph=again, allow_unused=True)
            results += [shown(g) for g in found]
            above = [g.sum() for g in found if g is not None and g.requires_grad]
            if above:
                before = len(log)
                second = T.autograd.grad(above, leaves, allow_unused=True, retain_graph=True)
                results += [shown(g) or [0.0, 0.0] for g in second]  # which zeros are undefined is our formulas' affair
                del log[before:]
        results += [shown(t.grad) for t in tensors]
    return log, results


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(4))
def test_random_programs_mean_the_same(block):
    torch = pytest.importorskip("torch")
    for seed in range(block * PROGRAMS // 4, (block + 1) * PROGRAMS // 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gradients of non-leaves are read, graphs of gradients are stored
            (expected_log, expected), (log, results) = program(torch, seed), program(rg, seed)
        assert log == expected_log, seed
        assert [r is None for r in results] == [e is None for e in expected], seed
        for result, wanted in zip(results, expected, strict=True):
            if wanted is not None:
                np.testing.assert_allclose(result, wanted, rtol=1e-12, err_msg=str(seed))
