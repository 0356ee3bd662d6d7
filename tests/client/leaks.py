"""What a session holds after many training steps, and that it is no more than after few: for the tests of leaks."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import raygrad as rg
from raygrad.client.session.session import executor_of

SIZE = 14_000
"""Elements of an array: more than Ray keeps in its owner's memory instead of the store (100 KiB), and no more, so that
a step is the work of the session rather than of NumPy."""
ARRAY = 8 * SIZE
WARM, STEPS = 50, 1000
RESIDENT = 8 * 2**20
"""Bytes by which a process may grow: what allocators hold back, and far less than one array per step."""
FILES = 5
"""Files that may be open besides: connections of Ray's own. One per step would be two hundred times as many."""
OBJECTS = 500
"""Python objects that may be more: caches that fill up. One per step would be twice as many."""


class Layer(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.inner = x.numpy() * w.numpy()
        ctx.save_for_backward(x, w)
        return rg.from_numpy(ctx.inner * ctx.inner)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        outer = 2.0 * ctx.inner
        return grad * rg.from_numpy(outer * w.numpy()), grad * rg.from_numpy(outer * x.numpy())


class Held(NamedTuple):
    stored: int
    saved: int
    objects: int
    files: int
    """Open in all of the session's processes."""
    resident: int
    """Bytes of all of them, the object store's left out."""


def held(session: rg.Session) -> Held:
    session._waiter.wait_for_everything()
    gc.collect()
    processes = sorted({os.getpid(), *executor_of(session).pids()})
    return Held(
        session.stored_bytes(),
        session.saved_bytes,
        len(gc.get_objects()),
        sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in processes),
        sum(map(_own_memory, processes)),
    )


def _own_memory(pid: int) -> int:
    """Return the bytes that are a process's own: pages of the object store that it has mapped are counted there."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def step(w: Any, x: Any) -> None:
    y = x
    for _ in range(3):
        y = (Layer.apply(y, w) * 0.5).relu()
    loss = y.sum()
    loss.item()  # what is saved has to last from one submission to the next
    loss.backward()
    w.grad = None


def trained(session: rg.Session) -> Sequence[Held]:
    generator = np.random.default_rng(0)
    w = rg.tensor(generator.standard_normal(SIZE) * 0.1, requires_grad=True)
    x = rg.tensor(generator.standard_normal(SIZE), requires_grad=True)
    found: list[Held] = []
    for number in range(1, STEPS + 1):
        step(w, x)
        x.grad = None
        if number in (WARM, STEPS):
            found.append(held(session))
    return found


def assert_nothing_is_left(early: Held, late: Held) -> None:
    assert late.saved == early.saved
    assert late.stored <= early.stored
    assert late.files <= early.files + FILES
    assert late.objects <= early.objects + OBJECTS
    assert late.resident <= early.resident + RESIDENT
