"""What apply returns in a session; the programs of DR and OU show the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import GraphError


class Scale(rg.autograd.Function):
    """Doubles its argument in place if asked to, else a copy; says which or not."""

    @staticmethod
    def forward(ctx: Any, x: Any, in_place: bool, says: bool) -> Any:
        if not in_place:
            return x * 2.0
        if says:
            ctx.mark_dirty(x)
        x.numpy()[...] *= 2.0
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None, None


class Tail(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x[1:]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return rg.cat([rg.zeros(1), grad])


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def session(request: Any) -> Any:
    with rg.Session(workers=1, strict=request.param) as session:
        yield session


def test_dr_03_a_dirty_input_is_written_in_a_private_copy(session: Any) -> None:
    x = rg.tensor(np.ones(3))
    doubled = x * 1.0
    before = doubled + 0.0
    for _ in range(2):
        assert Scale.apply(doubled, True, True) is doubled
    assert before.numpy().tolist() == [1.0, 1.0, 1.0]
    assert doubled.numpy().tolist() == [4.0, 4.0, 4.0]
    assert x.numpy().tolist() == [1.0, 1.0, 1.0]


def test_ou_23_a_write_by_numpy_without_mark_dirty_is_found_the_first_time(session: Any) -> None:
    with pytest.raises(RuntimeError, match="mark_dirty"):
        Scale.apply(rg.tensor(np.ones(3)) * 1.0, True, False)


def test_dr_03_a_write_that_comes_later_says_what_to_do(session: Any) -> None:
    class Sometimes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if float(x.sum()) > 10.0:
                x.numpy()[0] = 0.0
            return x * 2.0

    Sometimes.apply(rg.tensor(np.ones(3)))
    with pytest.raises(RuntimeError, match="changed an argument in place without saying so"):
        Sometimes.apply(rg.tensor(np.full(3, 9.0))).numpy()


def test_a_function_with_writable_inputs_is_given_copies(session: Any) -> None:
    class Sorts(rg.autograd.Function):
        writable_inputs = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.numpy().sort()
            return x.clone()

    x = rg.tensor(np.array([3.0, 1.0, 2.0]))
    for _ in range(2):
        assert Sorts.apply(x).numpy().tolist() == [1.0, 2.0, 3.0]
    assert x.numpy().tolist() == [3.0, 1.0, 2.0]


def test_ou_12_a_view_shows_what_its_base_was_changed_to(session: Any) -> None:
    base = rg.tensor(np.arange(3.0)) * 1.0
    view = Tail.apply(base)
    assert view.numpy().tolist() == [1.0, 2.0]
    base.add_(1.0)
    assert view.numpy().tolist() == [2.0, 3.0]
    view.mul_(2.0)
    assert base.numpy().tolist() == [1.0, 4.0, 6.0]


def test_ou_12_the_value_of_a_view_that_lies_by_no_rule_is_not_made_up(session: Any) -> None:
    class Bits(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            view = x[:1]
            view._data = view._data.view(np.int64)
            return view

    base = rg.tensor(np.arange(3.0)) * 1.0
    view = Bits.apply(base)
    base.add_(1.0)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified"):
        view.numpy()


def test_ou_12_a_view_that_lies_elsewhere_in_a_later_run_is_told(session: Any) -> None:
    class Chosen(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            first = int(x[0].item())
            return x[first : first + 1]

    Chosen.apply(rg.tensor(np.array([1.0, 2.0, 3.0])))
    with pytest.raises(GraphError, match="Chosen behaved differently from its first run"):
        Chosen.apply(rg.tensor(np.array([2.0, 3.0, 4.0]))).numpy()


def test_a_failed_run_gives_a_dirty_input_its_old_value_back(session: Any) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, fails: bool) -> Any:
            ctx.mark_dirty(x)
            if float(x.sum()) > 5.0:
                raise LookupError
            return x.add_(1.0)

    Fails.apply(rg.tensor(np.ones(3)), True)
    x = rg.tensor(np.full(3, 9.0))
    Fails.apply(x, True)
    with pytest.raises(LookupError):
        session.run(x).wait()
    assert x.numpy().tolist() == [9.0, 9.0, 9.0]
