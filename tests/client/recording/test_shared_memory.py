"""Memory that tensors share with NumPy: what a session changes in place comes home at the next sync point (DR-03)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import SessionError

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "in process": rg.Session,
    "two workers": lambda: rg.Session(workers=2),
    "strict": lambda: rg.Session(strict=True),
}


@pytest.fixture(params=MODES.values(), ids=list(MODES))
def opened(request: Any) -> Any:
    with request.param() as session:
        yield session


class Doubles(rg.autograd.Function):
    """Doubles its argument in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2.0)
        return x


def sync() -> None:
    assert (rg.ones(1) + 1.0).item() == 2.0


CHANGES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "an operation": (lambda t: t.add_(1.0), [2, 3, 4, 5]),
    "an element": (lambda t: t.__setitem__(0, 9.0), [9, 2, 3, 4]),
    "a view": (lambda t: t[1:3].mul_(10.0), [1, 20, 30, 4]),
    "a view of a view": (lambda t: t.reshape(2, 2)[1].zero_(), [1, 2, 0, 0]),
    "a detached alias": (lambda t: t.detach().neg_(), [-1, -2, -3, -4]),
    "a Function": (Doubles.apply, [2, 4, 6, 8]),
    "copy_": (lambda t: t.copy_(rg.zeros(4)), [0, 0, 0, 0]),
    "twice": (lambda t: t.add_(1.0).mul_(2.0), [4, 6, 8, 10]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_dr_03_a_change_in_place_reaches_the_array_at_the_next_sync_point(opened: Any, change: Any) -> None:
    array = np.arange(1.0, 5.0)
    change[0](rg.from_numpy(array))
    sync()
    assert array.tolist() == change[1]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_dr_03_it_is_there_when_the_session_is_closed_and_the_memory_is_shared_on(mode: Any) -> None:
    array = np.zeros((2, 3))
    tensor = rg.from_numpy(array[:, ::2])
    with mode():
        tensor.add_(1.0)
    assert array.tolist() == [[1, 0, 1], [1, 0, 1]]
    tensor.mul_(3.0)
    array[0, 0] = 7.0
    assert array.tolist() == [[7, 0, 3], [3, 0, 3]]
    assert tensor.tolist() == [[7, 3], [3, 3]]


def test_dr_03_what_numpy_writes_after_a_sync_point_is_read(opened: Any) -> None:
    array = np.zeros(1000)
    tensor = rg.from_numpy(array)
    for step in range(3):
        tensor.add_(1.0)
        assert tensor.sum().item() == 1000.0 * (step + 1) + 5.0 * step
        array[3] += 5.0


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("export", [lambda t: t.numpy(), lambda t: t.read(), np.asarray, lambda t: t[:].numpy()])
def test_dr_03_an_exported_tensor_and_its_array_are_one(mode: Any, export: Any) -> None:
    tensor = rg.zeros(2)
    array = export(tensor)
    with mode():
        tensor.add_(1.0)
        sync()
        assert array.tolist() == [1, 1]
        array[0] = 5.0
        assert (tensor * 2.0).tolist() == [10, 2]


def test_dr_03_views_follow_what_numpy_writes_to_their_base(opened: Any) -> None:
    base = rg.zeros(4)
    view = base[1:]
    of_view = view[1:].reshape(2, 1)
    assert view.tolist() == [0, 0, 0]
    base.numpy()[1:3] = 9.0
    assert (view + 1.0).tolist() == [10, 10, 1]
    assert of_view.tolist() == [[9], [0]]
    array = base.read()
    array[3] = 4.0
    assert view.tolist() == [9, 9, 4]
    assert base.sum().item() == 22.0
    array[3] = 5.0
    assert base.sum().item() == 23.0
    assert (of_view * 1.0).tolist() == [[9], [5]]


def test_dr_03_views_of_an_array_with_gaps_follow_it(opened: Any) -> None:
    array = np.zeros((3, 4))
    base = rg.from_numpy(array[:, ::2])
    view = base[1:]
    assert view.sum().item() == 0.0
    array[2, 2] = 3.0
    assert view.sum().item() == 3.0
    view.add_(1.0)
    sync()
    assert array.tolist() == [[0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 4, 0]]


def test_dr_03_parameters_over_arrays_are_trained_in_the_arrays(opened: Any) -> None:
    array = np.ones(2)
    weight = rg.from_numpy(array).requires_grad_()
    optimizer = rg.optim.SGD([weight], lr=0.5)
    for step in range(3):
        optimizer.zero_grad()
        loss = (weight * 2.0).sum()
        loss.backward()
        optimizer.step()
        assert loss.item() == 4.0 - 4.0 * step
        sync()
        assert array.tolist() == [-step, -step]


@pytest.mark.parametrize("strict", [False, True])
def test_dr_03_an_array_that_both_write_to_is_refused(strict: bool) -> None:
    array = np.zeros(2)
    with rg.Session(strict=strict):
        rg.from_numpy(array).add_(1.0)
        array[0] = 5.0
        with pytest.raises(SessionError, match="was written to while a session was changing"):
            sync()


def test_h8_a_failed_change_leaves_the_array_as_it_was() -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise ValueError("no")

    array = np.zeros(2)
    tensor = rg.from_numpy(array)
    with rg.Session():
        tensor.add_(1.0)
        with pytest.raises(ValueError, match="no"):
            Fails.apply(tensor)
        assert tensor.tolist() == array.tolist()
    assert tensor.tolist() == array.tolist() == [0, 0]


def test_memory_that_only_its_tensor_has_is_not_brought_home() -> None:
    with rg.Session() as session:
        tensor = rg.from_numpy(np.zeros(2))
        tensor.add_(1.0)
        sync()
        before = tensor._data
        sync()
        assert tensor._data is before
        assert not session._log.shared
    assert tensor.tolist() == [1, 1]


def test_a_tensor_of_a_closed_session_can_be_changed() -> None:
    with rg.Session(strict=True):
        tensor = rg.ones(2) + 1.0
    assert tensor.sum().item() == 4.0
    assert tensor.add_(1.0).tolist() == [3, 3]
