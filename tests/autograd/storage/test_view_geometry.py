"""Where views lie in the arguments of Functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.mutation.view_replay import replay_geometry, write_through_geometry
from raygrad.autograd.storage.view_geometry import GeometricView, ViewGeometry, geometry_of

Array = np.ndarray[Any, Any]

VIEWS: dict[str, Callable[[Array], Array]] = {
    "itself": lambda a: a[...],
    "a part": lambda a: a[1:, ::2],
    "turned": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-1],
    "a diagonal": lambda a: a.diagonal(1),
    "a number": lambda a: a[1, 2, ...],
    "of another shape": lambda a: a.reshape(2, 6),
    "a flat one, as it lies": lambda a: a.ravel(order="K"),
    "repeated": lambda a: np.broadcast_to(a[1], (2, 4)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=1),
    "nothing": lambda a: a[:0],
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_a_view_is_found_again_in_other_values_of_its_argument(view: Callable[[Array], Array], order: Any) -> None:
    argument = np.arange(12.0).reshape(3, 4).copy(order=order)
    shown = view(argument)
    if not np.shares_memory(shown, argument) and shown.size:
        pytest.skip("NumPy copies")
    place = geometry_of(shown, argument)
    assert place is not None
    placed = GeometricView(place, shown.shape)
    now = rg.tensor(argument.copy(order="C") * 10.0)
    np.testing.assert_array_equal(replay_geometry(placed, now).numpy(), shown * 10.0)
    laid = placed.over(argument)
    assert laid is not None
    np.testing.assert_array_equal(laid, shown)
    assert not shown.size or np.shares_memory(laid, argument)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("repeated", "windows")])
def test_what_is_written_to_a_view_stands_in_its_argument(name: str) -> None:
    argument = np.arange(12.0).reshape(3, 4)
    shown = VIEWS[name](argument)
    place = geometry_of(shown, argument)
    assert place is not None
    written = write_through_geometry(
        GeometricView(place, shown.shape), rg.tensor(argument.copy()), rg.tensor(-shown - 1.0)
    ).numpy()
    np.testing.assert_array_equal(VIEWS[name](written), -shown - 1.0)
    assert (written != argument).sum() == shown.size


def test_elements_that_are_shown_twice_are_not_written() -> None:
    argument = np.arange(3.0)
    place = geometry_of(np.broadcast_to(argument, (2, 3)), argument)
    assert place is not None
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        write_through_geometry(GeometricView(place, (2, 3)), rg.tensor(argument), rg.ones((2, 3)))


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_numbers_have_a_place(part: str) -> None:
    argument = np.arange(6.0).reshape(2, 3) + 5j
    shown = getattr(argument, part)[:, 1]
    place = geometry_of(shown, argument)
    assert place is not None
    placed = GeometricView(place, shown.shape)
    np.testing.assert_array_equal(replay_geometry(placed, rg.tensor(argument * 2.0)).numpy(), shown * 2.0)
    written = write_through_geometry(placed, rg.tensor(argument.copy()), rg.tensor([7.0, 8.0]))
    shown[...] = [7.0, 8.0]
    np.testing.assert_array_equal(written.numpy(), argument)
    laid = placed.over(argument)
    assert laid is not None
    np.testing.assert_array_equal(laid, shown)
    assert np.shares_memory(laid, argument)


def test_places_do_not_depend_on_how_the_argument_is_laid_out() -> None:
    argument = np.arange(12.0).reshape(3, 4)
    turned = np.asfortranarray(argument)
    assert (
        geometry_of(argument[1:, 1], argument) == geometry_of(turned[1:, 1], turned) == ViewGeometry((0, 1), 1, 5, (4,))
    )


def test_what_lies_elsewhere_or_is_of_another_kind_has_no_place() -> None:
    argument = np.arange(4.0)
    whole = np.arange(12.0)
    assert geometry_of(whole[4:], whole[:4]) is None
    assert geometry_of(argument.view(np.int64), argument) is None
    assert geometry_of(argument.view(np.float32), argument.view(np.int64)) is None
    assert geometry_of(np.asfortranarray(argument.reshape(2, 2))[:1], whole[:4].reshape(2, 2)) is None


def test_a_view_that_forward_could_only_copy_of_a_part_has_no_strides() -> None:
    argument = np.arange(4.0).reshape(2, 2)
    place = geometry_of(argument.reshape(4), argument)
    assert place is not None
    gaps = np.arange(6.0).reshape(2, 3)[:, :2]
    placed = GeometricView(place, (4,))
    assert placed.strides_in(gaps.shape, gaps.strides, gaps.itemsize) is None
    assert placed.over(gaps) is None


@pytest.mark.parametrize("index", [(slice(1, None), slice(None, None, 2)), (2,), (slice(None), 1)])
def test_a_view_starts_where_its_first_element_lies(index: Any):
    whole = np.arange(12.0).reshape(4, 3)
    part = whole[index]
    place = geometry_of(part, whole)
    assert place is not None
    placed = GeometricView(place, part.shape)
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    assert placed.start_in(whole.shape, whole.strides, whole.itemsize) == start
    turned = np.zeros((3, 4)).T
    over = placed.over(turned)
    assert over is not None
    start = over.__array_interface__["data"][0] - turned.__array_interface__["data"][0]
    assert placed.start_in(turned.shape, turned.strides, turned.itemsize) == start
