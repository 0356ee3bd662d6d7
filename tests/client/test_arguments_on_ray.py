"""What forward changes or returns by mistake is told on Ray as eagerly (DR-03, FN-07, OU-02), and memory that a tensor
shares with NumPy follows what workers change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import AutogradError

from ..autograd.functions.test_array_outputs import SLIPS, returning
from .functions.test_changed_arguments import CHANGES, Changes, Solver, Solves
from .functions.test_written_arguments import WRITES, item, writing
from .recording.test_shared_memory import CHANGES as CHANGES_IN_PLACE

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def session(ray_started: Any) -> Any:
    with rg.Session("ray", workers=2) as session:
        yield session


def test_ou_02_an_array_returned_for_a_tensor_is_told_on_ray(session: Any) -> None:
    for what, make in SLIPS.items():
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(TypeError, match=r"Slip\.forward returned .*rg\.from_numpy"):
            pytest.fail(f"{what}: {returning(make).apply(x)}")


def test_fn_07_a_container_that_forward_changes_is_refused_on_ray(session: Any) -> None:
    for name, (value, _) in CHANGES.items():
        before = str(value)
        with pytest.raises(AutogradError, match=r"Changes\.forward changed argument 2.*rg\.emit"):
            Changes.apply(rg.ones(2, requires_grad=True), name, value).tolist()
        assert str(value) == before, name
    with pytest.warns(UserWarning, match=r"Solves\.forward changed argument 1, an object"):
        assert Solves.apply(rg.ones(2), Solver(), True).tolist() == [2, 2]


def test_dr_03_a_write_that_is_not_marked_is_refused_on_ray(session: Any) -> None:
    for write in WRITES:
        x = rg.ones(3)
        with pytest.raises(AutogradError, match=r"Writes changed an argument in place without saying so.*mark_dirty"):
            writing(write).apply(x).tolist()
        assert x.tolist() == [1, 1, 1], write
        assert x.numpy().flags.writeable
    assert writing(item, writable_inputs=True).apply(rg.ones(2)).tolist() == [5, 1]


def test_dr_03_a_change_in_place_reaches_the_array_on_ray(session: Any) -> None:
    for name, (change, expected) in CHANGES_IN_PLACE.items():
        array = np.arange(1.0, 5.0)
        change(rg.from_numpy(array))
        assert (rg.ones(1) + 1.0).item() == 2.0  # a sync point
        assert array.tolist() == expected, name
