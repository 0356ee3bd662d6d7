"""Passes of several threads over one graph (EN-25)."""

from __future__ import annotations

import threading

import raygrad as rg


def in_threads(work, count: int) -> list[BaseException]:
    """Run `work` on threads at once and return what they raised."""
    raised: list[BaseException] = []
    together = threading.Barrier(count, timeout=10)

    def run() -> None:
        together.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_en_25_one_pass_wins_on_a_graph_that_is_not_retained():
    for _ in range(20):
        x = rg.ones(3, dtype=rg.float64, requires_grad=True)
        y = x
        for _ in range(20):
            y = y.exp().tanh()
        raised = in_threads(y.sum().backward, 4)
        assert len(raised) == 3
        assert all("Specify retain_graph=True" in str(error) for error in raised)
        assert x.grad is not None


def test_en_25_a_shared_part_that_holds_nothing_is_run_by_all():
    x = rg.ones(3, dtype=rg.float64, requires_grad=True)
    shared = x + 1
    for _ in range(20):
        shared = shared + 1

    def run() -> None:
        (shared * 2).sum().backward()

    assert in_threads(run, 4) == []
    assert x.grad is not None
    assert x.grad.tolist() == [8.0] * 3


def test_en_25_accumulation_into_a_shared_leaf_loses_nothing():
    x = rg.zeros(200_000, dtype=rg.float64, requires_grad=True)

    def run() -> None:
        for _ in range(10):
            x.sum().backward()

    assert in_threads(run, 4) == []
    assert x.grad is not None
    assert x.grad.min().item() == x.grad.max().item() == 40


def test_en_25_passes_over_a_retained_graph_do_not_wait():
    x = rg.ones(2, dtype=rg.float64, requires_grad=True)
    together = threading.Barrier(2, timeout=10)
    y = x.exp()
    y.register_hook(lambda g: (together.wait(), None)[1])
    loss = y.sum()
    assert in_threads(lambda: loss.backward(retain_graph=True), 2) == []


def test_en_25_a_pass_inside_another_one_does_not_wait():
    x = rg.ones(2, dtype=rg.float64, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    seen = []

    def inner(g: rg.Tensor) -> None:
        if not seen:
            seen.append(True)
            loss.backward(retain_graph=True)

    y.register_hook(inner)
    loss.backward()
    assert len(seen) == 1
