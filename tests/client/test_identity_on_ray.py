"""What programs compare with `is` stays itself on Ray (DR-13), and arrays lie there as they do eagerly (H1)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .functions import array_programs, common_object_programs, identity_programs as programs
from .functions.test_identity import closure

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def test_dr_13_and_h1_objects_are_themselves_on_ray_and_arrays_lie_alike(ray_started: Any) -> None:
    tells, same, other, _ = closure()
    shared = common_object_programs.values()
    with rg.Session("ray", workers=2) as session:
        assert common_object_programs.values() == shared
        assert programs.wrong_in(session) == []
        assert [tells.apply(rg.ones(()), one).item() for one in same] == [1, 2, 3, 4]
        assert [tells.apply(rg.ones(()), one).item() for one in other] == [0, 0, 0, 0]
        assert array_programs.differences(session) == []
