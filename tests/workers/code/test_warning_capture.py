"""Warnings of a worker's process: collected while a segment runs, once each, a bounded number of them."""

from __future__ import annotations

import pickle
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from raygrad.workers.code.warning_capture import KEPT, TEXT_KEPT, WarningCollector, unpack_warning


class Imprecise(UserWarning):
    def __init__(self, digits: int, hint: str = "") -> None:
        super().__init__(f"only {digits} digits")
        self.digits, self.hint = digits, hint


class Stubborn(DeprecationWarning):
    def __reduce__(self) -> Any:
        raise TypeError("stays here")


def stays_here() -> type[Warning]:
    class Stays(DeprecationWarning):
        lock = threading.Lock()

    return Stays


@pytest.fixture
def collector() -> Iterator[WarningCollector]:
    with warnings.catch_warnings():
        yield WarningCollector()


def line() -> int:
    return sys._getframe(1).f_lineno


def test_a_warning_is_told_with_its_place_and_node(collector: WarningCollector):
    node = 3
    collector.begin(lambda: node)
    warnings.warn("first", stacklevel=1)
    where = line() - 1
    node = 5
    warnings.warn(Imprecise(2, "more"), stacklevel=1)
    first, second = collector.end()
    assert first[:-1] == (3, "UserWarning", "first", __file__, where, __name__)
    assert second[:3] == (5, "Imprecise", "only 2 digits")
    rebuilt: Any = unpack_warning(second)
    assert (type(rebuilt), rebuilt.args, rebuilt.digits, rebuilt.hint) == (Imprecise, ("only 2 digits",), 2, "more")


def test_one_text_at_one_place_is_told_once_in_a_segment_and_again_in_the_next(collector: WarningCollector):
    for _ in range(2):
        collector.begin(lambda: 0)
        for text in "aab":
            warnings.warn(text, RuntimeWarning, stacklevel=1)
        assert [warned.message for warned in collector.end()] == ["a", "b"]


def test_more_than_so_many_are_counted_only(collector: WarningCollector):
    collector.begin(lambda: 0)
    for number in range(KEPT + 7):
        warnings.warn(f"number {number}", stacklevel=1)
    told = collector.end()
    assert len(told) == KEPT + 1
    assert told[-1].message.startswith("7 more warnings")
    assert str(unpack_warning(told[-1])) == told[-1].message
    assert told[-1].filename == __file__


def test_a_long_text_is_cut(collector: WarningCollector):
    collector.begin(lambda: 0)
    warnings.warn("x" * 10 * TEXT_KEPT, stacklevel=1)
    (told,) = collector.end()
    assert told.message == "x" * TEXT_KEPT
    assert str(unpack_warning(told)) == told.message


def test_one_that_cannot_be_pickled_goes_as_the_nearest_builtin_type(collector: WarningCollector):
    collector.begin(lambda: 0)
    warnings.warn(stays_here()("old"), stacklevel=1)
    warnings.warn(Stubborn("old"), stacklevel=1)
    nearest, itself = map(unpack_warning, collector.end())
    assert type(nearest) is DeprecationWarning
    assert str(nearest) == "Stays: old"
    assert (type(itself), str(itself)) == (Stubborn, "old")


def test_one_whose_type_is_missing_here_is_a_user_warning_that_names_it(collector: WarningCollector):
    collector.begin(lambda: 0)
    warnings.warn("text", stacklevel=1)
    (told,) = collector.end()
    warning = unpack_warning(
        told._replace(category="OtherWarning", warning=pickle.dumps(([("OtherWarning", "text")], [b"no"])))
    )
    assert (type(warning), str(warning)) == (UserWarning, "OtherWarning: text")


def test_filters_of_the_code_itself_hold(collector: WarningCollector):
    collector.begin(lambda: 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("ignored", stacklevel=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn("caught", stacklevel=1)
    warnings.warn("told", stacklevel=1)
    assert [str(one.message) for one in caught] == ["caught"]
    assert [told.message for told in collector.end()] == ["told"]


def test_outside_of_segments_they_are_shown_as_ever():
    with warnings.catch_warnings(record=True) as shown:
        collector = WarningCollector()
        warnings.warn("between", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        collector.begin(lambda: 0)
        assert collector.end() == ()
    assert [str(one.message) for one in shown] == ["between"]
