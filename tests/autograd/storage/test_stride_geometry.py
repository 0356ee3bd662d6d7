"""Strides of what a session has recorded: known through views, waited for, noted before a change (H1)."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.autograd.storage.stride_geometry import geometry_in_owner, is_contiguous, reshapes_to_view, strides_of

VIEWS = {
    "itself": lambda x: x,
    "transposed": lambda x: x.t(),
    "permuted": lambda x: x.permute(1, 0),
    "row": lambda x: x[1],
    "steps": lambda x: x[:, ::2],
    "none": lambda x: x[:0],
    "more": lambda x: x.unsqueeze(1),
    "expanded": lambda x: x.unsqueeze(1).expand(2, 4, 3),
    "diagonal": lambda x: x.diagonal(),
    "detached": lambda x: x.detach().t(),
    "reshaped": lambda x: x.reshape(3, 2).t(),
}


def matrix():
    return rg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=rg.float64)


@pytest.mark.parametrize("name", VIEWS)
def test_strides_are_those_that_an_array_has(name):
    expected = VIEWS[name](matrix() * 2).numpy().strides
    with rg.Session():
        assert strides_of(VIEWS[name](matrix() * 2)) == expected


@pytest.mark.parametrize("name", VIEWS)
def test_reshape_copies_where_it_does_eagerly(name):
    eager = VIEWS[name](matrix() * 2)
    with rg.Session():
        tensor = VIEWS[name](matrix() * 2)
        assert reshapes_to_view(tensor, (eager.numel(),)) is (eager.reshape(-1)._base is not None)
        assert (tensor.reshape(-1)._base is None) is (eager.reshape(-1)._base is None)


def test_what_only_a_kernel_knows_can_be_waited_for():
    with rg.Session():
        x = matrix()
        y = x @ x.t()
        assert reshapes_to_view(y, (4,)) is None
        assert reshapes_to_view(y, (4,), wait=True)
        assert reshapes_to_view(y.t(), (4,), wait=True) is False


def test_a_change_leaves_the_strides():
    with rg.Session():
        x = matrix() * 2
        x.t().fill_(1.0)
        assert strides_of(x) == (24, 8)
        flat = x.reshape(-1)
        flat.add_(1.0)
        assert x.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_contiguous_is_told_as_of_an_array(name):
    expected = VIEWS[name](matrix() * 2).numpy().flags.c_contiguous
    with rg.Session():
        assert is_contiguous(VIEWS[name](matrix() * 2)) is expected
        x = matrix()
        unknown = x @ x.t()
        assert is_contiguous(unknown)
        assert not is_contiguous(unknown.t())


def test_which_elements_a_view_shows_is_told_without_waiting_where_that_does_not_hang_on_the_layout():
    with rg.Session() as session:
        x = matrix()
        y = x @ x.t()
        assert geometry_in_owner(y[1]) == ((0, 1), 1, 2, (1,))
        assert geometry_in_owner(y.t()) == ((0, 1), 1, 0, (1, 2))
        assert session.last_run is None
        assert geometry_in_owner(y.as_strided((2,), (1,))) == ((0, 1), 1, 0, (1,))
        turned = x.t() * 1
        assert geometry_in_owner(turned.t().reshape(-1)[2:]) == ((1, 0), 1, 2, (1,))
        assert geometry_in_owner(y.t().reshape(4)) is None  # a copy
