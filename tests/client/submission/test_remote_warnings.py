"""Warnings of workers are issued once per run at the client, under its filters and with their own place."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

from raygrad.client.submission.remote_warnings import RemoteWarnings
from raygrad.proto.ir.program import CapturedWarning, Record
from raygrad.workers.code.exceptions import pack_exception

PLACE = "/elsewhere/lib.py"


def record(*texts: str, run: int = 1, segment: int = 0, kind: type[Warning] = UserWarning, module: str = "lib") -> Any:
    warned = [
        CapturedWarning(number, kind.__name__, text, PLACE, 7, module, pack_exception(kind(text)))
        for number, text in enumerate(texts)
    ]
    return Record(run, segment, 0, "worker 0", 1, 0.0, "done", (), (), (), (), (), (), (), None, tuple(warned))


def issued(remote: RemoteWarnings, action: Any = "always") -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        remote.issue()
    assert {(one.filename, one.lineno) for one in seen} <= {(PLACE, 7)}
    return [str(one.message) for one in seen]


def test_each_text_and_place_once_per_run():
    remote = RemoteWarnings()
    remote.take(record("a", "b"))
    remote.take(record("b", "c", segment=1))
    assert issued(remote) == ["a", "b", "c"]
    remote.take(record("c", segment=2))
    assert issued(remote) == []
    remote.take(record("c", run=2))
    remote.forget(2)
    remote.take(record("c", run=2))
    assert issued(remote) == ["c", "c"]


def test_the_clients_filters_apply_by_category_text_and_module():
    remote = RemoteWarnings()
    remote.take(record("old", kind=DeprecationWarning))
    remote.take(record("noise"))
    remote.take(record("mine", module="mine"))
    remote.take(record("left"))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="noise")
        warnings.filterwarnings("ignore", module="mine")
        remote.issue()
    assert [str(one.message) for one in seen] == ["left"]


def test_a_warning_that_is_shown_once_by_default_is_shown_once_over_all_runs():
    remote = RemoteWarnings()
    for run in (1, 2):
        remote.take(record("again", run=run))
    assert issued(remote, "default") == ["again"]


def test_a_loaded_module_notes_what_was_shown_as_if_it_had_been_issued_there(monkeypatch: Any):
    module = sys.modules[__name__]
    monkeypatch.delattr(module, "__warningregistry__", raising=False)
    remote = RemoteWarnings()
    remote.take(record("noted", module=__name__))
    assert issued(remote, "default") == ["noted"]
    assert ("noted", UserWarning, 7) in vars(module)["__warningregistry__"]


def test_one_that_is_an_error_is_raised_with_its_node_and_the_others_come_later():
    remote = RemoteWarnings()
    remote.take(record("first", "second"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="first") as caught:
            remote.issue()
    assert caught.value.__notes__ == ["raygrad: issued by node 0 of run 1 on worker 0"]
    assert issued(remote) == ["second"]


def test_nothing_is_issued_while_they_are_kept_and_nothing_is_raised_on_the_way_out():
    remote = RemoteWarnings()
    remote.take(record("one", "two"))
    with remote.deferred():
        assert issued(remote) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        remote.close()
    assert issued(remote) == []
