"""The smallest forward and backward in a session of this process: its time, and how often it passes from room to room.

One Function, a sum, `backward()` and `item()`, with the plan in the cache. A *switch* is a call, or a return, between
code of two top-level rooms (autograd, proto, scheduler, workers, client); code of libraries and of the program belongs
to the room that called it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from measure import Grid, Result, Subject, compare, per_unit

import raygrad as rg

PACKAGE = Path(rg.__file__).parent
ROOMS = tuple(sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
FOLDERS = {str(folder): room for room in ROOMS for folder in {PACKAGE / room, (PACKAGE / room).resolve()}}
CALLS = 50
COUNTED = 64
"""Steps of which switches are counted: now and then one also learns what nodes cost."""


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def step(x: rg.Tensor) -> float:
    """Run one Function, a sum, the backward pass, and read the loss."""
    x.grad = None
    loss = Square.apply(x).sum()
    loss.backward()
    return loss.item()


def room_of(filename: str) -> str | None:
    """Return the top-level room of a file, or None outside of raygrad."""
    return next((room for folder, room in FOLDERS.items() if filename.startswith(folder + "/")), None)


def switches(work: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """Return how often control passes from one room to another while `work` runs, by (from, to), sorted pairs."""
    rooms: dict[str, str | None] = {}
    stack: list[str | None] = [None]
    counted: Counter[tuple[str, str]] = Counter()

    def passed(before: str | None, after: str | None) -> None:
        if before is not None and after is not None and before != after:
            counted[before, after] += 1

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            filename = frame.f_code.co_filename
            if filename not in rooms:
                rooms[filename] = room_of(filename)
            stack.append(rooms[filename] or stack[-1])
            passed(stack[-2], stack[-1])
        elif event == "return" and len(stack) > 1:
            left = stack.pop()
            passed(left, stack[-1])

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def results(quick: bool) -> list[Result | Grid]:
    """Measure the smallest step, and count its switches."""
    with rg.Session():
        x = rg.tensor(np.arange(4.0), requires_grad=True)

        def steps(count: int = CALLS) -> None:
            for _ in range(count):
                step(x)

        steps()
        counted = switches(lambda: steps(COUNTED))

        subject = Subject("raygrad, in process", per_unit(steps, CALLS), aim="0.2 ms")
        timed = compare("one Function, sum, backward, item | step", [subject], 5 if quick else 15)
    rows = [(f"{before} -> {after}", f"{count / COUNTED:.1f}") for (before, after), count in counted.most_common()]
    rows.append(("all", f"{counted.total() / COUNTED:.1f}"))
    return [
        *timed,
        Grid(
            "Switches between rooms in the smallest step, mean of 64 (aim: 70)",
            ("from and to", "switches"),
            tuple(rows),
        ),
    ]
