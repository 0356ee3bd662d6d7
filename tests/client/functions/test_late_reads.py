"""H17: what user code reads is that of its application, of the pass, as eagerly, whatever the program changes later."""

from __future__ import annotations

from typing import Any

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

    x = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
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
    return [*found, x.grad.tolist(), late.tolist()]


MODES = [{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}]


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
