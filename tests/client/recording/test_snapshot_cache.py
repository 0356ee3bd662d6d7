"""Copies of memory that others may write to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.recording.snapshot_cache import is_still
from raygrad.workers.code.guard import is_fixed


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_what_is_still_the_same_is_told_bit_for_bit() -> None:
    array = np.array([[0.0, np.nan], [1.0, 2.0]])
    assert is_still(array.copy(), array)
    assert not is_still(np.array([[-0.0, np.nan], [1.0, 2.0]]), array)
    assert not is_still(array.reshape(4).copy(), array)
    assert not is_still(array.view(np.int64).copy(), array)
    assert not is_still(array.T.copy(order="K"), array.T)


def test_who_owns_an_array_may_write_to_it() -> None:
    array = np.ones(3)
    view = array[:]
    view.flags.writeable = False
    assert not is_fixed(view)
    array.flags.writeable = False
    assert is_fixed(view)
    assert not is_fixed(np.frombuffer(bytearray(8)))


def test_memory_that_others_may_write_to_is_sent_anew_only_if_it_has_changed(session: Any) -> None:
    array = np.arange(12.0).reshape(3, 4)
    shared = rg.from_numpy(array)
    recorder = session._recorder
    first = recorder.leaf(shared)
    assert recorder.leaf(shared) is first
    before = (shared * 1.0).detach()
    array[1, 2] = np.nan
    second = recorder.leaf(shared)
    assert second is not first
    assert recorder.leaf(shared) is second  # NaN is itself
    array[0, 0] = -0.0
    assert recorder.leaf(shared) is not second
    assert before.numpy()[1, 2] == 6.0
    assert np.isnan((shared * 1.0).detach().numpy()[1, 2])
    turned = rg.from_numpy(array.T)
    assert (turned * 1.0).detach().numpy().tobytes() == np.ascontiguousarray(array.T).tobytes()
    for empty in (np.array(2.0), np.ones((0, 3))):
        kept = rg.from_numpy(empty)
        assert recorder.leaf(kept) is recorder.leaf(kept)


def with_data(value: Any) -> Any:
    x = rg.zeros(2)
    x.data = value
    return x


def both(value: Any) -> Any:
    return with_data(value), value.numpy()


def after_numpy(value: Any) -> Any:
    array = value.numpy()
    return with_data(value), array


EXPORTED = {
    "by a detached alias": lambda x: (x, x.detach().numpy()),
    "by its data": lambda x: (x, x.data.numpy()),
    "by a view": lambda x: (x, x[:1].numpy()),
    "of a view by its base": lambda x: (x[:1], x.numpy()),
    "of a view by another": lambda x: (x[:1], x[0].numpy()),
    "by another library": lambda x: (x, np.from_dlpack(x)),
    "by what was assigned to data": both,
    "by what was assigned to data, before that": after_numpy,
}
"""A tensor of the memory of another, and an array of it."""


@pytest.mark.parametrize("name", EXPORTED)
def test_what_is_written_to_memory_through_an_array_is_seen_by_all_tensors_of_it(name: str) -> None:
    tensor, array = EXPORTED[name](rg.tensor([1.0, 2.0]))
    with rg.Session(workers=1):
        assert (tensor * 1.0).tolist() == [1.0, 2.0][: len(tensor)]
        array[...] = 7.0
        assert (tensor * 1.0).tolist() == tensor.tolist()
        assert tensor.tolist()[0] == 7.0


def test_an_array_that_is_asked_for_after_a_session_has_read_a_view_is_seen_too() -> None:
    base = rg.tensor([1.0, 2.0, 3.0])
    view = base[1:]
    with rg.Session(workers=1):
        assert (view * 1.0).tolist() == [2.0, 3.0]
        base.numpy()[:] = 5.0
        assert (view * 1.0).tolist() == [5.0, 5.0]


def test_tensors_over_the_same_memory_are_sent_once_while_it_does_not_change(session: Any) -> None:
    array = np.ones((40, 40))
    recorder = session._recorder
    one, other = rg.from_numpy(array), rg.from_numpy(array)
    first = recorder.leaf(one).record.constant
    assert recorder.leaf(one) is not recorder.leaf(other)
    assert recorder.leaf(other).record.constant is first
    assert recorder.inputs.source(array) is first
    assert recorder.leaf(rg.from_numpy(array.reshape(1600))).record.constant is not first
    array[0, 0] = 2.0
    assert recorder.leaf(rg.from_numpy(array)).record.constant is not first
    assert recorder.inputs.source(array) is not first
    assert (other * 1.0).detach().numpy()[0, 0] == 2.0
    gone = recorder.leaf(rg.from_numpy(np.ones((50, 50))))
    held = len(recorder.inputs.snapshots)
    del gone
    assert len(recorder.inputs.snapshots) == held - 1


def test_memory_of_an_argument_and_of_a_tensor_made_inside_are_two_values_of_a_compiled_function(session: Any) -> None:
    array = np.ones((40, 40))
    difference = session.compile(lambda x: (x - rg.from_numpy(array)).sum())
    assert difference(rg.from_numpy(array)).item() == 0.0
    assert difference(rg.from_numpy(np.full((40, 40), 3.0))).item() == 3200.0


def test_copies_of_other_memory_shape_or_dtype_do_not_displace_each_other(session: Any) -> None:
    copies = session._recorder.inputs.snapshots
    array, elsewhere = np.ones((40, 40)), np.zeros((40, 40))
    arrays = [array, elsewhere, array.reshape(1600), array.view(np.int64)]
    made = [copies.of(one) for one in arrays]
    assert len({id(one) for one in made}) == len(copies) == 4
    assert [copies.of(one) for one in arrays] == made


def test_a_copy_that_goes_leaves_a_newer_one_of_its_memory_known(session: Any) -> None:
    copies, array = session._recorder.inputs.snapshots, np.ones((40, 40))
    first = copies.of(array)
    array[0, 0] = 2.0
    second = copies.of(array)
    del first
    assert copies.of(array) is second
