from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import SessionError
from raygrad.workers.code import captured_state
from raygrad.workers.code.captured_state import CapturedState


def test_an_instance_of_a_library_is_looked_into_where_its_class_is_named():
    held = Namespace(tensor=rg.zeros(1), rate=1)
    named, unnamed = CapturedState([lambda: held], (Namespace,)), CapturedState([lambda: held])
    assert [one is held.tensor for one in named.tensors] == [True]
    assert unnamed.tensors == []
    held.rate = 2
    assert not named.holds()
    assert unnamed.holds()


def test_an_attribute_that_is_new_on_an_object_without_any_is_seen():
    class Empty:
        pass

    held: Any = Empty()
    state = CapturedState([lambda: held])
    held.value = 1
    assert not state.holds()


def test_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(captured_state, "MOST", 10)
    shared = [0]
    CapturedState([[shared] * 100])
    with pytest.raises(SessionError, match="more than 10 objects"):
        CapturedState([[[0] for _ in range(20)]])


def test_objects_in_an_array_are_looked_into():
    inside = {"rate": 1.0}
    objects = np.array([inside, None], dtype=object)
    state = CapturedState([lambda: objects[0]["rate"]])
    assert state.holds()
    inside["rate"] = 2.0
    assert not state.holds()
