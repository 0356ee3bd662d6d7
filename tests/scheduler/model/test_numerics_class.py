"""Workers are compared by what decides over bits, per kind of device."""

from __future__ import annotations

from raygrad.scheduler.model.numerics_class import describe_differences

A, B = ("cpu", "OpenBLAS for Zen"), ("cpu", "OpenBLAS for SkylakeX")
GPU, OTHER = ("cuda", "CuPy on H200"), ("cuda", "CuPy on A100")


def test_workers_that_agree_or_say_nothing_do_not_differ() -> None:
    assert describe_differences([]) == ""
    assert describe_differences([("a", (A,)), ("b", (A, GPU)), ("c", ()), ("d", (A, GPU))]) == ""


def test_each_class_is_told_with_who_is_in_it() -> None:
    told = describe_differences([("a", (A,)), ("b", (B,)), ("c", (A,))])
    assert told == "a, c: cpu, OpenBLAS for Zen; b: cpu, OpenBLAS for SkylakeX"


def test_kinds_of_device_are_compared_each_by_itself() -> None:
    told = describe_differences([("a", (A, GPU)), ("b", (A,)), ("c", (A, OTHER))])
    assert told == "a: cuda, CuPy on H200; c: cuda, CuPy on A100"


def test_of_many_workers_a_few_are_named() -> None:
    told = describe_differences([*((f"w{number}", (A,)) for number in range(9)), ("b", (B,))])
    assert told.startswith("w0, w1, w2, w3 and 5 more: cpu, ")
