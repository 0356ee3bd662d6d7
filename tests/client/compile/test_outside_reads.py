"""Compiled functions read what their Python code reads uncompiled: compared at each call, or recorded at each call."""

from __future__ import annotations

import abc
import builtins
import contextlib
import enum
import functools
import itertools
import json
import logging
import math
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg

from .outside_reads import ANEW, GUARDED, MODULE, Read

MODES = [{"workers": 1}, {"workers": 2, "strict": True}]


def name_of(make: Callable[[], Read]) -> str:
    return make.__name__


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    for name in (MODULE, MODULE + ".inner"):
        sys.modules.pop(name, None)
    for owner, name in ((builtins, "RAYGRAD_TEST_RATE"), (np, "raygrad_test_rate")):
        if hasattr(owner, name):
            delattr(owner, name)
    os.environ.pop("RAYGRAD_TEST_RATE", None)


def check_guarded(session: Any, read: Read) -> None:
    """Assert that a function with this read gives what the program has set at each call, and is replayed meanwhile."""
    replays: list[int] = []
    get = read.read

    def run(x: Any) -> Any:
        return x * get()

    step = session.compile(run)
    x = rg.tensor([1.0, -2.0])
    for value in (None, None, None, 2.0, None, None, 3.0):
        if value is not None:
            read.change(value)
        expected = read.read()
        found = step(x).tolist()
        assert found == [expected, -2.0 * expected], (value, expected, found, step.reason)
        replays.append(step.replayed)
    assert replays[2] > 0, step.reason
    assert replays[5] > replays[3], step.reason


def check_anew(session: Any, read: Read) -> None:
    """Assert that a function with this read is recorded at each call, with what it reads then."""
    seen: list[float] = []
    get = read.read

    def run(x: Any) -> Any:
        number = get()
        rg.emit("read", number)
        return x * number

    session.on("read", seen.append)
    step = session.compile(run)
    x = rg.tensor([1.0])
    for number in range(4):
        read.change(2.0)
        found = step(x).tolist()
        assert step.recorded == number + 1
        assert found == (x * seen[-1]).tolist()
    assert step.replayed == 0
    assert "cannot be compared" in step.reason


def check_captured_argument(session: Any) -> None:
    """Assert that an argument that is captured too is one tensor with it, and another argument is not."""
    weight, other = rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor([10.0, 20.0])
    step = session.compile(lambda x: (x * weight + weight).detach() * 1.0)
    for _ in range(2):
        assert step(other).tolist() == [11.0, 42.0]
        assert step(weight).tolist() == [2.0, 6.0]
    assert step.replayed >= 1


@pytest.mark.parametrize("options", MODES, ids=["one", "strict"])
def test_argument_that_is_captured_too_is_one_tensor_with_it(options: Any) -> None:
    with rg.Session(**options) as session:
        check_captured_argument(session)


@pytest.mark.parametrize("options", MODES, ids=["one", "strict"])
@pytest.mark.parametrize("make", GUARDED, ids=name_of)
def test_read_that_is_compared_is_that_of_the_call(make: Callable[[], Read], options: Any) -> None:
    with rg.Session(**options) as session:
        check_guarded(session, make())


@pytest.mark.parametrize("make", ANEW, ids=name_of)
def test_read_that_cannot_be_compared_records_at_each_call(make: Callable[[], Read]) -> None:
    read = make()
    with rg.Session() as session:
        seen: list[float] = []
        get = read.read

        def run(x: Any) -> Any:
            number = get()
            rg.emit("read", number)
            return x * number

        session.on("read", seen.append)
        step = session.compile(run)
        x = rg.tensor([1.0])
        for number in range(4):
            read.change(2.0)
            found = step(x).tolist()
            assert step.recorded == number + 1
            assert found == rg.tensor([1.0]).mul(seen[-1]).tolist()
        assert step.replayed == 0
        assert "cannot be compared" in step.reason


class Interface(abc.ABC):
    kinds: ClassVar[dict[str, float]] = {"one": 1.0}

    @abc.abstractmethod
    def scaled(self, x: Any) -> Any: ...


class Layer(Interface):
    def __init__(self) -> None:
        self.weight = rg.tensor([1.0], requires_grad=True)
        self.lock, self.log, self.seen = threading.Lock(), logging.getLogger("layer"), iter([1.0])

    @functools.cached_property
    def rate(self) -> float:
        return self.kinds["one"]

    @functools.lru_cache  # noqa: B019
    def table(self, number: int) -> Any:
        return np.arange(number)

    @contextlib.contextmanager
    def locked(self) -> Any:
        with self.lock:
            yield

    def scaled(self, x: Any) -> Any:
        with self.locked():
            self.log.debug("scaled")
            return x * self.weight * self.rate * float(self.table(3)[2])


class Color(enum.Enum):
    RED = 2.0


def test_what_steps_commonly_capture_is_replayed() -> None:
    layer, path, pattern = Layer(), Path("a"), re.compile("a")
    optimizer = rg.optim.Adam([layer.weight])
    schedule = rg.optim.lr_scheduler.StepLR(optimizer, 100)

    def train(x: Any) -> Any:
        optimizer.zero_grad()
        layer.scaled(x).sum().backward()
        optimizer.step()
        return x * schedule.get_last_lr()[0]

    steps: dict[str, Any] = {
        "train": train,
        "constants": lambda x: x * Color.RED.value * math.pi * np.float64(2.0) * len((path / "b").name),
        "libraries": lambda x: x * float(np.linalg.norm([3.0])) * bool(pattern.match("a")) * len(json.dumps({})),
        "iterators of its own": lambda x: x * float(sum(itertools.islice(itertools.count(), 3))),
        "a seeded generator": lambda x: x * np.random.default_rng(0).random(),
        "transforms": lambda x: rg.vmap(rg.func.grad(lambda one: one * one))(x),
        "checkpoint": lambda x: rg.checkpoint(layer.scaled, x) * 1.0,
    }
    with rg.Session() as session:
        for name, run in steps.items():
            step = session.compile(run)
            for _ in range(6):
                step(rg.tensor([1.0]))
            assert step.replayed >= 2, (name, step.reason)


@pytest.mark.parametrize(
    "names", ["holder.module.who()", "getattr(holder.module, 'wh' + 'o')()", "holder.module.asks()"]
)
def test_function_of_a_module_in_an_attribute_is_visited_where_code_can_reach_it(names: str) -> None:
    module: Any = types.ModuleType(MODULE)
    space: Any = vars(module)
    space["os"] = os
    exec("def who(): return float(os.getpid() > 0)\ndef asks(): return who()", space)
    holder = types.SimpleNamespace(module=module)
    here: Any = {"holder": holder}
    exec(f"def run(x): return x * {names}", here)
    with rg.Session() as session:
        step = session.compile(here["run"])
        for _ in range(4):
            assert step(rg.tensor([2.0])).tolist() == [2.0]
        assert step.replayed == 0
        assert "os.getpid" in step.reason


def test_argument_counts_with_the_attributes_that_a_program_gave_it() -> None:
    with rg.Session() as session:
        step = session.compile(lambda x: x * x.rate)
        one, two = (rg.tensor([1.0]) for _ in range(2))
        one.rate, two.rate = 2.0, 3.0  # type: ignore[attr-defined]
        assert [step(x).item() for x in (one, two, one, two)] == [2.0, 3.0, 2.0, 3.0]
        assert step.replayed == 2


def test_clock_that_a_function_reads_on_its_worker_is_read_in_each_replay() -> None:
    seen: list[float] = []

    class Timed(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.emit("at", float(time.perf_counter_ns()))
            return x * 2.0

    with rg.Session() as session:
        session.on("at", seen.append)
        step = session.compile(lambda x: Timed.apply(x) * 1.0)
        for _ in range(5):
            assert step(rg.tensor([1.0])).tolist() == [2.0]
        assert step.replayed >= 2
    assert len(set(seen)) == 5


def test_state_that_hooks_of_an_argument_read_is_that_of_the_call() -> None:
    scale = 1.0

    def hook(grad: Any) -> Any:
        return grad * scale

    with rg.Session() as session:

        def run(x: Any) -> Any:
            (x * 1.0).sum().backward()
            return x.grad

        step = session.compile(run)
        for scale in (1.0, 1.0, 1.0, 2.0, 2.0, 3.0):
            x = rg.tensor([1.0], requires_grad=True)
            x.register_hook(hook)
            assert step(x).tolist() == [scale]
        assert step.replayed >= 1


@pytest.mark.ray
@pytest.mark.timeout(180)
def test_reads_that_are_compared_are_those_of_the_call_on_ray(ray_started: Any) -> None:
    with rg.Session("ray", workers=1) as session:
        check_captured_argument(session)
        for make in GUARDED:
            check_guarded(session, make())
        for make in ANEW:
            check_anew(session, make())
