"""Operands that share memory with what is changed in place: in a session, where there is no memory yet, a change is
refused or made exactly where it is eagerly (EN-30)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .agreement import MODES, attempted, disagreements, eagerly, in_session, plain, refusal

OVERLAP = "refer to a single memory location"

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "an alias": lambda x: x.detach(),
    "a row": lambda x: x[0],
    "another row": lambda x: x[-1],
    "rows": lambda x: x[1:3],
    "every other row": lambda x: x[::2],
    "a column": lambda x: x[:, 1],
    "columns": lambda x: x[:, 1:3],
    "an element": lambda x: x[1, 2],
    "a row with a dimension more": lambda x: x[1].unsqueeze(0),
    "a row with two dimensions more": lambda x: x[1][None, :, None],
    "a squeezed row": lambda x: x[1:2].squeeze(0),
    "transposed": lambda x: x.T,
    "rows of the transposed": lambda x: x.T[1:3],
    "a view of a view of a view": lambda x: x[1:][:2].T[1:3],
    "the line": lambda x: x.view(16),
    "a part of the line": lambda x: x.view(16)[3:7],
    "the next part of the line": lambda x: x.view(16)[4:8],
    "the line of a part": lambda x: x[1:3].view(8),
    "a part in another shape": lambda x: x[1:3].reshape(4, 2),
    "blocks": lambda x: x.view(2, 2, 4).permute(2, 0, 1)[:, 1],
    "the diagonal": lambda x: x.diagonal(),
    "beside the diagonal": lambda x: x.diagonal(1)[:2],
    "windows": lambda x: x.view(16).unfold(0, 4, 4),
    "strided": lambda x: x.as_strided((2, 2), (4, 1), 5),
    "strided without gaps": lambda x: x.as_strided((2, 2), (2, 1), 5),
    "the last rows": lambda x: x[2:],
    "the last row alone": lambda x: x[3:],
    "the diagonal of the transposed": lambda x: x.T.diagonal(),
    "the lowest diagonal": lambda x: x.diagonal(-3),
    "nothing": lambda x: x[:0],
}

READ_ONLY: dict[str, Callable[[Any], Any]] = {
    "windows that overlap": lambda x: x.view(16).unfold(0, 4, 2),
    "an expanded row": lambda x: x[0].expand(2, 4),
}
"""Views whose elements share places with one another: they can be read, but not changed."""

UNDEFINED = {
    ("a column", "a part of the line"),
    ("a part of the line", "a column"),
    ("a part of the line", "the diagonal"),
    ("the diagonal", "a part of the line"),
    ("the diagonal of the transposed", "a part of the line"),
    ("a part of the line", "the diagonal of the transposed"),
}
"""Copies between places with gaps that meet in one element, which no check sees: whether that is read before it is
written to is not said."""

CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "added": lambda target, operand: target.add_(operand),
    "copied": lambda target, operand: target.copy_(operand),
    "put": lambda target, operand: target.__setitem__(..., operand),
    "put at indices": lambda target, operand: target.__setitem__(rg.tensor([0]), operand),
    "added as an element's factor": lambda target, operand: target.addcmul_(operand, operand),
}


def all_pairs(change: Callable[[Any, Any], Any], make: Callable[[], Any]) -> dict[str, Any]:
    """Return what a change of each view of a tensor by each other view of it does, and leaves in the tensor."""
    found: dict[str, Any] = {}
    for one, target in VIEWS.items():
        for other, operand in {**VIEWS, **READ_ONLY}.items():
            if (one, other) in UNDEFINED:
                continue
            base = make()
            views = attempted(lambda base=base, target=target, operand=operand: [target(base), operand(base)])
            if isinstance(views, Exception):
                found[f"{one} by {other}"] = views
                continue
            refused = refusal(lambda views=views: change(*views))
            found[f"{one} by {other}"] = [refused, base, base._version, views]
    return found


def matrix() -> Any:
    return rg.from_numpy(np.arange(16.0)).clone().view(4, 4)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_each_view_is_changed_by_each_other_or_refused_as_it_is_eagerly(change: str) -> None:
    def program() -> Any:
        return all_pairs(CHANGES[change], matrix)

    expected = eagerly(program)
    assert disagreements(in_session(program, "in process"), expected) == {}
    refused = [pair for pair, seen in expected.items() if OVERLAP in str(seen)]
    assert 10 < len(refused) < len(expected) / 2


def places(view: Callable[[Any], Any]) -> np.ndarray:
    """Return where the elements of a view lie: the matrix holds its own places."""
    return np.asarray(view(matrix()).numpy()).astype(int)


def is_dense(lie: np.ndarray) -> bool:
    return sorted(lie.flat) == list(range(lie.min(), lie.min() + lie.size))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["eagerly", "in a session"])
def test_a_change_is_refused_if_dense_places_meet_and_are_not_the_same(where: str) -> None:
    lie = {name: places(view) for name, view in VIEWS.items()}
    with nullcontext() if where == "eagerly" else rg.Session(workers=1):
        seen: dict[tuple[str, str], tuple[bool, bool]] = {}
        for one, target in VIEWS.items():
            for other, operand in VIEWS.items():
                mine, its = lie[one], lie[other]
                shapes = mine.shape, its.shape
                if 1 in (*mine.shape, *its.shape) or 0 in (mine.size, its.size):
                    continue  # strides of single elements have a rule of their own
                if its.ndim > mine.ndim or mine.shape[mine.ndim - its.ndim :] != its.shape:
                    continue
                same = shapes[0] == shapes[1] and bool((mine == its).all())
                meet = bool(set(mine.flat) & set(its.flat))
                x = matrix()
                refused = refusal(lambda x=x, t=target, o=operand: t(x).add_(o(x)))
                expected = meet and is_dense(mine) and is_dense(its) and not same
                seen[one, other] = (refused is not None and OVERLAP in str(refused), expected)
    assert {pair: found for pair, found in seen.items() if found[0] != found[1]} == {}
    assert len(seen) > 200
    assert sum(refused for refused, _ in seen.values()) > 50


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", READ_ONLY)
def test_views_whose_elements_share_places_are_not_changed(view: str, change: str) -> None:
    def program() -> Any:
        x = matrix()
        refused = refusal(lambda: CHANGES[change](READ_ONLY[view](x), rg.ones(4, dtype=rg.float64)))
        return [isinstance(refused, RuntimeError), x]

    expected = eagerly(program)
    assert expected[0]
    for mode in MODES:
        assert disagreements(in_session(program, mode), expected) == {}


def of_a_complex(change: Callable[[Any, Any], Any]) -> list[Any]:
    parts: list[Callable[[Any], Any]] = [
        lambda z: z.real,
        lambda z: z.imag,
        lambda z: z[1:].real,
        lambda z: z.imag[:-1],
        lambda z: z.real[1:],
        lambda z: z.imag[1:],
        lambda z: z.real[1:2],
        lambda z: z.imag[1],
    ]
    seen: list[Any] = []
    for target in parts:
        for operand in parts:
            z = rg.tensor([1 + 2j, 3 + 4j, 5 + 6j])
            seen += [refusal(lambda z=z, t=target, o=operand: change(t(z), o(z))), z]
    return seen


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", ["added", "put"])
def test_parts_of_complex_numbers_are_changed_by_one_another_as_they_are_eagerly(change: str, mode: str) -> None:
    def program() -> Any:
        return of_a_complex(CHANGES[change])

    assert disagreements(in_session(program, mode), eagerly(program)) == {}


def with_gradients(target: str, operand: str, change: str) -> list[Any]:
    """Return the gradients of a leaf, from which a tensor was made, by way of what was changed and of other views."""
    leaf = rg.tensor(np.arange(16.0).reshape(4, 4), requires_grad=True)
    x = leaf * 2.0
    before = x[2:].sum()
    kept = VIEWS[target](x)
    CHANGES[change](kept, VIEWS[operand](x))
    weights = rg.tensor(np.linspace(0.5, 1.5, 16).reshape(4, 4))
    ((x * weights).sum() + (kept * kept).sum() + before).backward()
    return [leaf.grad, x, kept]


TARGETS = ["a row", "rows of the transposed", "a view of a view of a view", "the diagonal", "a squeezed row", "strided"]
OPERANDS = ["itself", "a row", "a column", "an element", "a part of the line", "blocks", "the diagonal", "rows"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", TARGETS)
def test_gradients_flow_through_changed_views_as_they_do_eagerly(target: str, mode: str) -> None:
    def program() -> Any:
        return [
            attempted(lambda o=operand, c=change: with_gradients(target, o, c))
            for operand in OPERANDS
            for change in ("added", "copied", "put")
        ]

    assert disagreements(in_session(program, mode), eagerly(program)) == {}


def test_leaves_that_require_grad_and_views_of_them_are_not_changed_while_recording() -> None:
    def program() -> Any:
        seen: list[Any] = []
        for view in ("itself", "a row", "a view of a view of a view", "the line"):
            x = matrix().requires_grad_()
            seen.append(attempted(lambda x=x, view=view: VIEWS[view](x).add_(1.0)))
            with rg.no_grad():
                VIEWS[view](x).add_(1.0)
            seen += [x, x._version]
        return seen

    expected = eagerly(program)
    assert "leaf" in str(expected[0])
    for mode in MODES:
        assert disagreements(in_session(program, mode), expected) == {}


def test_changes_of_what_an_earlier_run_left_are_refused_or_made_as_they_are_eagerly() -> None:
    def program() -> Any:
        seen: list[Any] = []
        for target, operand in (("rows", "a part in another shape"), ("a row", "another row"), ("a row", "a column")):
            x = matrix() + 0.0
            views = VIEWS[target](x), VIEWS[operand](x)
            plain(x)  # read, so that what was recorded has run
            seen += [refusal(lambda views=views: views[0].mul_(views[1].reshape(views[0].shape))), x, *views]
        return seen

    expected = eagerly(program)
    for mode in MODES:
        assert disagreements(in_session(program, mode), expected) == {}


def test_views_that_a_function_returns_are_told_apart_by_where_they_lie() -> None:
    class Halves(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:2], x[1:3]

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return None

    def program() -> Any:
        seen: list[Any] = []
        for _ in range(2):  # what it returns is known the second time
            x = matrix()
            first, second = Halves.apply(x)
            for target, operand in ((first, second), (second, first), (first, x[2:]), (x[:1], second[:1])):
                seen += [refusal(lambda t=target, o=operand: t.add_(o)), x]
        return seen

    expected = eagerly(program)
    assert OVERLAP in expected[0][1]
    for mode in MODES:
        assert disagreements(in_session(program, mode), expected) == {}
