"""H17: what user code reads is that of its application, of the pass, as eagerly, whatever the program changes later."""

from __future__ import annotations

import heapq
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .captured_kinds import IN_PROCESS, KINDS, Kind


def reads_at_each_moment(kind: Kind) -> list[Any]:
    """Change what a Function and hooks read before an application, before the pass, and before results are read."""
    read, put = kind.read, kind.put

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
        return tuple(None if grad is None else grad * read() for grad in before)

    x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    y = x * 1.0
    first = Reads.apply(y)
    again = Reads.apply(y)
    put(3.0)
    second = Reads.apply(y)
    put(5.0)
    third = Reads.apply(y)
    y.register_hook(hook)
    third.grad_fn.register_hook(node_hook)
    put(7.0)
    (first + again * second + third).sum().backward()
    put(11.0)
    found = [first.tolist(), again.tolist(), second.tolist(), third.tolist(), x.grad.tolist()]
    x.grad = None
    late = Reads.apply(x * 1.0)
    put(13.0)
    late.sum().backward()
    put(17.0)
    return [*found, x.grad.tolist(), late.tolist()]  # pyright: ignore[reportAttributeAccessIssue]


def derivatives_of_a_changed_backward(kind: Kind) -> list[Any]:
    """Differentiate a gradient after what its pass read has changed; a new pass reads what stands there now."""
    read, put = kind.read, kind.put

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rate = read()
            return x * ctx.rate

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.rate + grad * read()

    x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    y = Reads.apply(x)
    (first,) = rg.autograd.grad((y * y * y).sum(), x, create_graph=True)
    put(3.0)
    (second,) = rg.autograd.grad(first.sum(), x, create_graph=True)
    put(5.0)
    second.sum().backward(retain_graph=True)
    put(7.0)
    y.sum().backward()
    return [first.tolist(), second.tolist(), x.grad.tolist()]


MODES: list[dict[str, Any]] = [{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}]


@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
@pytest.mark.parametrize("name", ["namespace", "list", "array", "default"])
def test_h17_derivatives_of_a_backward_read_what_it_read_at_its_pass(name: str) -> None:
    eagerly = derivatives_of_a_changed_backward(KINDS[name]())
    for options in MODES:
        with rg.Session(**options):
            assert derivatives_of_a_changed_backward(KINDS[name]()) == eagerly, options


@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_h17_what_code_captures_is_read_when_it_is_applied_and_at_the_pass(name: str) -> None:
    eagerly = reads_at_each_moment(KINDS[name]())
    for options in MODES:
        kind = KINDS[name]()
        with rg.Session(**options):
            assert reads_at_each_moment(kind) == eagerly, options


@pytest.mark.parametrize("name", IN_PROCESS)
def test_h17_what_cannot_travel_is_read_in_time_in_process_too(name: str) -> None:
    eagerly = reads_at_each_moment(IN_PROCESS[name]())
    kind = IN_PROCESS[name]()
    with rg.Session():
        assert reads_at_each_moment(kind) == eagerly


def changes_at_each_moment() -> list[Any]:
    """Run code that changes what it captures, itself or by a library, beside code that reads that; look each time."""
    calls, seen, heap, factor = 0, [], [4.0], np.full(2, 2.0)
    found: list[Any] = []

    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            nonlocal calls
            calls += 1
            return x * (float(calls) * float(factor[0]))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append("backward")
            return grad * float(len(seen))

    class Pushes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            heapq.heappush(heap, heap[0] - 1.0)
            return x * heap[0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * heap[0]

    def keeps(grad: Any) -> None:
        seen.append("hook")

    def reads(grad: Any) -> Any:
        return grad * float(len(seen))

    def looks(grad: Any) -> None:
        found.append(len(seen))

    def pushes(grad: Any) -> None:
        heapq.heappush(heap, -float(len(heap)))

    x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    for step in range(3):
        y = x * 1.0
        first = Counts.apply(y)
        found.append(calls)
        calls += 10
        second = Counts.apply(y)
        found.append(calls)
        third = Pushes.apply(y)
        found.append(list(heap))
        factor[0] = 3.0 + step
        for hook in (keeps, reads, pushes, reads):
            y.register_hook(hook)
        y.register_hook(looks, client=True)
        (first + second * third).sum().backward()
        found.extend([list(seen), list(heap)])
        seen.append("program")
        found.append([one.tolist() for one in (first, second, third, x.grad)])
    return found


@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_dr_06_code_that_changes_what_it_captures_runs_at_once_in_process(workers: int) -> None:
    eagerly = changes_at_each_moment()
    with rg.Session(workers=workers):
        assert changes_at_each_moment() == eagerly


def test_dr_06_a_change_beside_a_captured_tensor_is_the_program_s_too() -> None:
    def run() -> list[Any]:
        weight, seen = rg.tensor([2.0, 3.0], dtype=rg.float64), {"calls": 0}

        class Weighs(rg.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                seen["calls"] += 1
                return x * weight

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * weight

        x: Any = rg.ones(2, dtype=rg.float64, requires_grad=True)
        found = [(Weighs.apply(x), seen["calls"])[1] for _ in range(3)]
        Weighs.apply(x).sum().backward()
        return [*found, x.grad.tolist()]

    eagerly = run()
    with rg.Session(), pytest.warns(UserWarning, match="'Weighs' captures 'seen'.*at once"):
        assert run() == eagerly


def test_code_that_only_reads_what_it_captures_neither_warns_nor_waits() -> None:
    settings = {"rate": [2.0]}

    class Scales(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * settings["rate"][0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * settings["rate"][0]

    def hook(grad: Any) -> Any:
        return grad * settings["rate"][0]  # warnings are errors here

    with rg.Session(workers=1) as session:
        x: Any = rg.ones(2, requires_grad=True)
        for _ in range(2):
            y = Scales.apply(x)
            y.register_hook(hook)
            y.sum().backward()
            assert x.grad is not None
        x.grad.tolist()
        y = Scales.apply(x)
        y.register_hook(hook)
        before = session.last_run
        y.sum().backward()
        last_run = session.last_run
        assert last_run is not None
        assert last_run is not before
        assert last_run.records == []


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
def test_h17_on_ray_what_code_captures_is_that_of_its_application_and_of_the_pass(ray_started: Any) -> None:
    eagerly = {name: reads_at_each_moment(make()) for name, make in KINDS.items()}
    found = {}
    with rg.Session("ray", workers=2):
        for name, make in KINDS.items():
            found[name] = reads_at_each_moment(make())
    assert found == eagerly


@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
def test_dr_06_a_function_that_counts_or_fills_an_array_does_so_at_once() -> None:
    def run() -> list[Any]:
        calls, filled, settings = 0, np.zeros(2), SimpleNamespace(history=[])

        class Fills(rg.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                nonlocal calls
                calls += 1
                filled[0] += 1.0
                return x * filled[0]

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                settings.history.append(calls)
                return grad * filled[0]

        x: Any = rg.ones(2, requires_grad=True)
        found: list[Any] = []
        for _ in range(3):
            y = Fills.apply(x)
            found += [calls, filled.tolist()]
            y.sum().backward()
            found += [list(settings.history), x.grad.tolist()]
        return found

    eagerly = run()
    with rg.Session():
        assert run() == eagerly


def test_what_is_changed_in_a_captured_object_is_warned_of_where_it_is_lost() -> None:
    settings = SimpleNamespace(history=[])

    class Fills(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            settings.history.append(1)
            return x * 2.0

    with rg.Session(strict=True), pytest.warns(UserWarning, match="'Fills' changes 'settings'.*stays on the worker"):
        Fills.apply(rg.ones(2))
