"""Warnings of workers are issued once per run at the client, under its filters and with their own place."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

from raygrad.client.submission.remote_warnings import Reissue
from raygrad.proto.ir.program import Record, Warned
from raygrad.workers.code.exceptions import pack_exception

PLACE = "/elsewhere/lib.py"


def record(*texts: str, run: int = 1, segment: int = 0, kind: type[Warning] = UserWarning, module: str = "lib") -> Any:
    warned = [
        Warned(number, kind.__name__, text, PLACE, 7, module, pack_exception(kind(text)))
        for number, text in enumerate(texts)
    ]
    return Record(run, segment, 0, "worker 0", 1, 0.0, "done", (), (), (), (), (), (), (), None, tuple(warned))


def issued(reissue: Reissue, action: Any = "always") -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        reissue.issue()
    assert {(one.filename, one.lineno) for one in seen} <= {(PLACE, 7)}
    return [str(one.message) for one in seen]


def test_each_text_and_place_once_per_run():
    reissue = Reissue()
    reissue.take(record("a", "b"))
    reissue.take(record("b", "c", segment=1))
    assert issued(reissue) == ["a", "b", "c"]
    reissue.take(record("c", segment=2))
    assert issued(reissue) == []
    reissue.take(record("c", run=2))
    reissue.forget(2)
    reissue.take(record("c", run=2))
    assert issued(reissue) == ["c", "c"]


def test_the_clients_filters_apply_by_category_text_and_module():
    reissue = Reissue()
    reissue.take(record("old", kind=DeprecationWarning))
    reissue.take(record("noise"))
    reissue.take(record("mine", module="mine"))
    reissue.take(record("left"))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="noise")
        warnings.filterwarnings("ignore", module="mine")
        reissue.issue()
    assert [str(one.message) for one in seen] == ["left"]


def test_a_warning_that_is_shown_once_by_default_is_shown_once_over_all_runs():
    reissue = Reissue()
    for run in (1, 2):
        reissue.take(record("again", run=run))
    assert issued(reissue, "default") == ["again"]


def test_a_loaded_module_notes_what_was_shown_as_if_it_had_been_issued_there(monkeypatch: Any):
    module = sys.modules[__name__]
    monkeypatch.delattr(module, "__warningregistry__", raising=False)
    reissue = Reissue()
    reissue.take(record("noted", module=__name__))
    assert issued(reissue, "default") == ["noted"]
    assert ("noted", UserWarning, 7) in vars(module)["__warningregistry__"]


def test_one_that_is_an_error_is_raised_with_its_node_and_the_others_come_later():
    reissue = Reissue()
    reissue.take(record("first", "second"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="first") as caught:
            reissue.issue()
    assert caught.value.__notes__ == ["raygrad: issued by node 0 of run 1 on worker 0"]
    assert issued(reissue) == ["second"]


def test_nothing_is_issued_while_they_are_kept_and_nothing_is_raised_on_the_way_out():
    reissue = Reissue()
    reissue.take(record("one", "two"))
    with reissue.kept():
        assert issued(reissue) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reissue.close()
    assert issued(reissue) == []


@pytest.mark.parametrize(
    ("component", "value"),
    [("category", "FutureWarning"), ("message", "b"), ("filename", "/elsewhere/other.py"), ("line", 8)],
)
def test_warnings_of_one_run_that_differ_in_one_thing_alone_are_all_issued(component: str, value: Any) -> None:
    first = record("a")
    other = first._replace(warned=(first.warned[0]._replace(**{component: value}),))
    reissue = Reissue()
    for one in (first, other, first, other):
        reissue.take(one)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        reissue.issue()
    assert len(seen) == 2
