from __future__ import annotations

from typing import Any

import pytest

from raygrad.workers.process import versions as module
from raygrad.workers.process.versions import compare_versions, versions


def test_equal_versions_agree():
    assert compare_versions(versions()) == ("", "")


@pytest.mark.parametrize(
    ("name", "here", "there", "which"),
    [
        ("raygrad", "0.1.0", "0.1.1", 0),
        ("protocol", "7", "8", 0),
        ("Python", "3.11.7", "3.12.7", 0),
        ("Python", "3.11.7", "3.11.9", None),
        ("NumPy", "2.4.6", "1.26.4", 0),
        ("NumPy", "2.4.6", "2.1.0", None),
        ("cloudpickle", "3.1.2", "2.2.1", 1),
        ("cloudpickle", "3.1.2", "3.0.0", None),
    ],
)
def test_what_must_agree_and_what_should(monkeypatch: Any, name: str, here: str, there: str, which: int | None):
    known = {**versions(), name: here}
    monkeypatch.setattr(module, "versions", lambda: known)
    found = compare_versions({**known, name: there})
    expected = ["", ""]
    if which is not None:
        expected[which] = f"{name} {there} there, {here} here"
    assert found == tuple(expected)


def test_versions_that_a_process_does_not_tell_differ():
    must, should = compare_versions({})
    assert must.startswith("raygrad unknown there, ")
    assert should.startswith("cloudpickle unknown there, ")
