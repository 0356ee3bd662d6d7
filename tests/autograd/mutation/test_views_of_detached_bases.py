"""Views of a base that requires no grad any more: they lose their history with the next change of the memory."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

LIBRARIES = ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)]


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return rg if request.param == "raygrad" else pytest.importorskip("torch")


def orphaned(T: Any, log: list[str]) -> tuple[Any, Any]:
    """Return a leaf whose flag was cleared, and a view of a view of it that was made before."""
    x = T.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: log.append("hook"))
    view = x[0:2].view(2, 1)
    x.requires_grad_(False)
    return x, view


def test_a_view_of_a_leaf_whose_flag_was_cleared_keeps_its_place_until_a_change(T: Any):
    log: list[str] = []
    x, view = orphaned(T, log)
    view.sum().backward()
    assert log == ["hook"]
    assert x.grad is None


@pytest.mark.parametrize("change", [lambda x: x.zero_(), lambda x: x.__setitem__(0, 3.0), lambda x: x.detach().zero_()])
def test_a_change_cuts_it_off(T: Any, change: Any):
    log: list[str] = []
    x, view = orphaned(T, log)
    change(x)
    assert view.requires_grad
    assert [edge[0] for edge in view.grad_fn.next_functions] == [None]
    (view * 3).sum().backward()
    assert log == []


def test_its_place_stays_where_the_flag_is_set_again_before_the_change(T: Any):
    log: list[str] = []
    x, view = orphaned(T, log)
    x.requires_grad_(True)
    with T.no_grad():
        x.zero_()
    (view * 3).sum().backward()
    assert log == ["hook"]
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_was_made_of_it_before_the_change_keeps_its_history(T: Any):
    log: list[str] = []
    x, view = orphaned(T, log)
    before = view * 3
    x.zero_()
    before.sum().backward()
    assert log == ["hook"]


def test_a_retained_gradient_is_that_of_the_new_place(T: Any):
    log: list[str] = []
    x, view = orphaned(T, log)
    view.retain_grad()
    x.zero_()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [[3.0], [3.0]]


def test_a_view_of_what_was_detached_in_place_is_cut_off_too(T: Any):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    base = x * 2
    view = base[0:1]
    base.detach_()
    base.zero_()
    view.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("kind", ["pre", "post", "tensor"])
@pytest.mark.parametrize("recorded", [False, True])
def test_hooks_of_its_node_are_called_in_a_session_too(T: Any, kind: str, recorded: bool):
    if recorded and T is not rg:
        pytest.skip("sessions are raygrad's")
    log: list[str] = []
    x = T.tensor([1.0, 2.0], requires_grad=True)

    def tell(*gradients: Any) -> None:
        rg.emit("hook", 1)

    def note(*gradients: Any) -> None:
        log.append("hook")

    hook = tell if recorded else note

    def program() -> None:
        base = x * 2
        view = base[0:1]
        base.detach_()
        base.zero_()
        node = view.grad_fn
        if kind == "pre":
            node.register_prehook(hook)
        elif kind == "post":
            node.register_hook(hook)
        else:
            view.register_hook(hook)
        view.sum().backward()

    if recorded:
        with rg.Session() as session:
            session.on("hook", lambda value: log.append("hook"))
            program()
            session.run().wait()
    else:
        program()
    assert log == ["hook"]
    assert x.grad is None
