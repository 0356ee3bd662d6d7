from __future__ import annotations

import threading
from typing import Any

from raygrad.workers.code.culprit import path_to_unpicklable
from raygrad.workers.code.visitor import named_parts


def fits(value: Any) -> bool:
    return not isinstance(value, type(threading.Lock())) and all(fits(one) for _, one in named_parts(value, "class"))


def test_the_path_to_a_culprit_is_told_by_the_names_of_its_author():
    lock = threading.Lock()
    boxed = {"inside": [1, lock]}

    def named(x: Any, *, given: Any = boxed) -> Any:
        return boxed, x, given

    assert path_to_unpicklable(named, fits) == "'boxed' ['inside'] [1] (a lock)"


def test_defaults_attributes_and_self_are_searched():
    class Box:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def method(self) -> None: ...

    def with_default(x: Any = threading.Lock()) -> None: ...  # noqa: B008

    assert path_to_unpicklable(Box().method, fits) == "'self' 'Box.lock' (a lock)"
    assert path_to_unpicklable(with_default, fits) == "default of 'x' (a lock)"


def test_an_object_that_is_itself_the_culprit_has_no_path():
    assert path_to_unpicklable(threading.Lock(), fits) == ""
