"""What forward changes or returns by mistake is told on Ray as eagerly (DR-03, FN-07, OU-02), and memory that a tensor
shares with NumPy follows what workers change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.errors import AutogradError, CheckpointError

from ..autograd.functions.test_array_outputs import SLIPS, returning
from .functions.changing_functions import Calls, of_a_closure
from .functions.test_changed_arguments import CHANGES, Changes, Solver, Solves
from .functions.test_checkpointed_attributes import regions
from .functions.test_shared_outputs import SHARED, returning as returning_shared
from .functions.test_written_arguments import WRITES, item, writing
from .recording.test_axis_order import trained_in_fortran_order
from .recording.test_shared_memory import CHANGES as CHANGES_IN_PLACE
from .recording.test_watched_leaves import SAVING, gradients

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


def test_dr_03_a_pass_reads_what_numpy_has_written_to_what_was_saved_on_ray(session: Any) -> None:
    ambient = state.recorder
    for name, saving in SAVING.items():
        inside = gradients(saving)
        state.recorder = None
        try:
            assert inside == gradients(saving), name
        finally:
            state.recorder = ambient


def test_pp_08_what_changes_attributes_in_a_region_before_the_pass_is_refused_on_ray(session: Any) -> None:
    for name in regions():
        region, change = regions()[name]
        y = rg.checkpoint(lambda x, region=region: region(x) * 3.0, rg.ones(2, requires_grad=True))
        change()
        with pytest.raises(CheckpointError, match="stores attributes on its ctx"):
            y.sum().backward()


def test_fn_07_a_function_that_changes_its_variables_is_warned_of_on_ray(session: Any) -> None:
    x = rg.ones(1)
    with pytest.warns(UserWarning, match=r"Calls\.forward changed argument 1, an object"):
        assert Calls.apply(x, of_a_closure()).tolist() == [1.0]


def test_dr_03_an_output_over_memory_of_the_program_is_warned_of_on_ray(session: Any) -> None:
    make, others, what = SHARED["captured"]
    with pytest.warns(UserWarning, match=rf"the memory of {what}"):
        returning_shared(make).apply(rg.ones(4, dtype=rg.float64), *others)


def test_en_32_a_parameter_keeps_the_order_of_its_axes_on_ray(session: Any) -> None:
    assert trained_in_fortran_order() == (1, 2)
