"""Named values: what a name holds, while other threads release names."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from raygrad.workers.memory.named_values import NO_NAME, NamedValues


def holding(**values: Any) -> NamedValues:
    named = NamedValues()
    for number, value in enumerate(values.values()):
        named[1, number] = value
    return named


def test_a_name_holds_a_value_until_it_is_released() -> None:
    named = holding(a="a", b="b")
    assert (named[1, 0], named.get((1, 1)), len(named), (1, 1) in named) == ("a", "b", 2, True)
    named.release([(1, 0), (1, 1), (7, 7)])
    assert (len(named), named.get(NO_NAME)) == (0, None)
    with pytest.raises(KeyError):
        named[1, 1]


def test_locations_are_told_the_oldest_first() -> None:
    named = holding(a="a", b="b")
    named.exchange((1, 0), "a", "c")
    assert named.locations() == [(named, (1, 0), "c"), (named, (1, 1), "b")]


def test_a_value_is_exchanged_only_for_what_is_known_to_be_held() -> None:
    first, other = object(), object()
    named = holding(a=first)
    assert not named.exchange((1, 0), other, "new")
    assert named.exchange((1, 0), first, "new")
    named.release([(1, 0)])
    assert not named.exchange((1, 0), "new", "late"), "a released name stays released"
    assert len(named) == 0


def test_names_are_released_while_others_look_at_them() -> None:
    named, errors = NamedValues(), list[BaseException]()

    def release() -> None:
        try:
            for number in range(20_000):
                named.release([(1, number)])
        except BaseException as error:
            errors.append(error)

    for number in range(20_000):
        named[1, number] = number
    thread = threading.Thread(target=release)
    thread.start()
    while thread.is_alive():
        for _, name, value in named.locations()[:5]:
            named.exchange(name, value, -1)
    thread.join()
    assert (errors, len(named)) == ([], 0)


def test_garbage_may_release_names_while_the_lock_is_held() -> None:
    named = holding(a="a", b="b")

    class Holds:
        def __del__(self) -> None:
            named.release([(1, 1)])

    cycle: Any = Holds()
    cycle.me = cycle
    del cycle
    with named._lock:
        gc.collect()
    assert named.held() == ["a"]
