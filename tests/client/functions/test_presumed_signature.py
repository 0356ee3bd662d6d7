"""Calls whose numbers are presumed to be data, and presumptions that prove wrong (H3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import GraphError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def waits(session: Any) -> dict[str, int]:
    """Return how often recording waited for a run, by Function."""
    return {name: times for name, (times, _) in session._observed.first_runs.items()}


class Scale(rg.autograd.Function):
    """Multiplies by a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
        ctx.scale = scale
        return x * float(scale) + float(shift)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * float(ctx.scale), None


class Head(rg.autograd.Function):
    """Returns as many doubled elements as a number says."""

    @staticmethod
    def forward(ctx: Any, x: Any, count: Any, extra: Any = 0) -> Any:
        ctx.rest = x.shape[0] - int(count)
        return x[: int(count)] * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return rg.cat([grad * 2.0, rg.zeros(ctx.rest)]), None, None


class Keep(rg.autograd.Function):
    """Returns its argument where nothing is to be dropped, and saves it where something is."""

    @staticmethod
    def forward(ctx: Any, x: Any, drop: float) -> Any:
        ctx.drop = drop
        if drop == 0.0:
            return x
        ctx.save_for_backward(x)
        return x * (1.0 - drop)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.drop == 0.0:
            return grad * 1.0, None
        (x,) = ctx.saved_tensors
        return grad * (1.0 - ctx.drop) + x * 0.0, None


def leaf(*values: float) -> Any:
    return rg.tensor([float(value) for value in values], requires_grad=True)


@pytest.mark.parametrize("kind", [float, complex, np.float64, np.float32])
def test_a_new_number_per_call_is_neither_run_first_nor_a_new_plan(session: Any, kind: Any) -> None:
    class Real(Scale):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
            return Scale.forward(ctx, x, scale.real)

    plans, graphs = [], session._submitter._graphs
    for step in range(5):
        x, scale = leaf(1, 2), kind(step + 0.5)
        loss = Real.apply(x, scale).sum()
        loss.backward()
        assert loss.item() == 3.0 * (step + 0.5)
        if kind is float or kind is np.float64:
            assert x.grad.tolist() == [step + 0.5] * 2
        plans.append(session.last_run.plan)
    assert waits(session) == {"Real": 1}
    assert graphs.found >= 2


def test_keyword_only_numbers_are_data_too(session: Any) -> None:
    for step in range(4):
        assert Scale.apply(leaf(1), 1.0, shift=float(step)).tolist() == [1.0 + step]
    assert waits(session) == {"Scale": 1}


def test_numbers_in_tuples_lists_and_dicts_are_data_too(session: Any) -> None:
    class At(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, where: Any, options: Any) -> Any:
            return x * float(where[0]) + sum(where[1]) + options["shift"]

    for step in range(5):
        inner = [step, 1]
        made = At.apply(leaf(1), (step + 0.5, inner), {"shift": 1.0 + step, "kind": "a"})
        assert made.tolist() == [step + 0.5 + step + 1 + 1.0 + step]
        assert inner == [step, 1]
    assert len(session._observed.signatures) == 2
    At.apply(leaf(1), (1.5, [0, 1]), {"shift": 1.0, "kind": "b"}).tolist()
    At.apply(leaf(1), (1.5, [0]), {"shift": 1.0, "kind": "a"}).tolist()
    assert len(session._observed.signatures) == 4


def test_integers_are_data_after_two_values_with_equal_facts(session: Any) -> None:
    known = []
    for step in range(5):
        assert Scale.apply(leaf(1), step).tolist() == [step]
        known.append(len(session._observed.signatures))
    assert known == [1, 2, 2, 2, 2]


def test_numbers_that_were_run_with_and_others_are_one_plan(session: Any) -> None:
    class Counts(Scale):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
            ctx.table = np.zeros(int(scale))
            return Scale.forward(ctx, x, scale)

    keys = []
    for numbers in ((1, 2, 3), (3, 4, 5), (1, 200, 3), (2, 7, 9), (1, 1, 1)):
        x = leaf(1, 2)
        outputs = [Counts.apply(x, number) for number in numbers]
        total: Any = sum(one.sum() for one in outputs)
        total.backward()
        assert x.grad.tolist() == [float(sum(numbers))] * 2
        keys.append(next(reversed(session._submitter._graphs._known)))
    assert len(set(keys[1:])) == 1


def test_integers_on_which_facts_depend_are_run_first_with_each_value(session: Any) -> None:
    x = leaf(1, 2, 3, 4)
    for _ in range(2):
        for count in (1, 2, 3, 4):
            y = Head.apply(x, count, 0.1 * count)
            assert y.shape == (count,)
            assert y.sum().item() == sum(2.0 * (i + 1) for i in range(count))
    assert len(session._observed.signatures) == 4


def test_types_are_told_apart_exactly_and_options_are_never_data(session: Any) -> None:
    class Option(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, option: Any) -> Any:
            return x.sum() * 1.0 if option is True or option == "sum" or option is None else x * 1.0

    x = leaf(1, 2)
    for option in (1, 1.0, np.float64(1.0), np.float32(1.0), np.int64(1), "none", False):
        assert Option.apply(x, option).tolist() == [1.0, 2.0]
    for option in (True, "sum", None):
        assert Option.apply(x, option).tolist() == 3.0
    assert len(session._observed.signatures) == 10


def test_a_nan_and_a_negative_zero_are_values_like_others(session: Any) -> None:
    for scale in (0.0, -0.0, float("nan"), float("nan")):
        found = Scale.apply(leaf(1), scale, shift=-0.0).numpy(force=True)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(np.array([scale], np.float32) - 0.0))
        np.testing.assert_array_equal(found, np.array([scale], np.float32))
    assert waits(session) == {"Scale": 1}


def test_outputs_take_on_what_their_own_run_shows_before_anything_is_built_on_them(session: Any) -> None:
    for count in (2.0, 3.0, 4.0, 3.0, 2.0):
        x = leaf(1, 2, 3, 4)
        y = Head.apply(x, count)
        assert y.tolist() == [2.0 * (i + 1) for i in range(int(count))]
        assert y.shape == (int(count),)
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * int(count) + [0.0] * (4 - int(count))


@pytest.mark.parametrize("read", [lambda y: y.numpy(force=True).tolist(), str, lambda y: f"{y}", np.array])
def test_each_way_to_read_an_output_comes_before_its_facts(session: Any, read: Any) -> None:
    x = rg.tensor([1.0, 2.0, 3.0])
    read(Head.apply(x, 2.0))
    y = Head.apply(x, 3.0)
    read(y)
    assert y.shape == (3,)


def test_an_output_that_holds_one_element_is_read_as_a_number(session: Any) -> None:
    x = rg.tensor([1.0, 2.0, 3.0])
    Head.apply(x, 2.0)
    assert Head.apply(x, 1.0).item() == 2.0


def test_an_output_that_proves_to_be_an_argument_is_one(session: Any) -> None:
    x: Any = leaf(1, 2) * 1.0
    assert Keep.apply(x, 0.5).tolist() == [0.5, 1.0]
    y = Keep.apply(x, 0.0)
    assert y.tolist() == [1.0, 2.0]
    y.detach().mul_(2.0)
    assert x.tolist() == [2.0, 4.0]
    assert Keep.apply(x, 0.25).tolist() == [1.5, 3.0]


def test_an_argument_returned_as_it_is_is_never_presumed(session: Any) -> None:
    x = leaf(1, 2)
    assert Keep.apply(x, 0.0).tolist() == [1.0, 2.0]
    y = Keep.apply(x, 0.5)
    assert y.tolist() == [0.5, 1.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]


def test_a_node_saves_what_its_own_run_saved(session: Any) -> None:
    class Saves(Keep):
        @staticmethod
        def forward(ctx: Any, x: Any, drop: float) -> Any:
            return Keep.forward(ctx, x, drop) * 1.0

    x = leaf(1, 2)
    for drop in (0.0, 0.5, 0.25):
        y = Saves.apply(x, drop)
        assert y.tolist() == [1.0 - drop, 2.0 - 2.0 * drop]
        assert len(y.grad_fn.saved_tensors) == int(drop != 0.0)
        x.grad = None
        y.sum().backward()
        gradient: Any = x.grad
        assert gradient.tolist() == [1.0 - drop] * 2


MESSAGE = (
    r"Head behaved differently with argument 1 \(count\) = 3.0 than with argument 1 \(count\) = 2.0: output 0 is "
    r"float32\[3\], and was float32\[2\].*Give Head an infer, .* or read an output \(\.numpy\(\), \.tolist\(\)\)"
)


def test_a_wrong_presumption_on_which_something_was_built_is_an_error_and_known_afterwards(session: Any) -> None:
    x = leaf(1, 2, 3, 4)
    Head.apply(x, 2.0).sum().backward()
    before = x.grad.tolist()
    Head.apply(x, 3.0).sum().backward()
    with pytest.raises(GraphError, match=MESSAGE):
        x.grad.tolist()
    assert x.grad.tolist() == before
    Head.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 2.0, 0.0]
    Head.apply(x, 4.0).sum().backward()  # of which nothing is presumed any more
    assert x.grad.tolist() == [6.0, 6.0, 4.0, 2.0]


def test_a_fact_that_was_seen_has_to_hold(session: Any) -> None:
    x = rg.tensor([1.0, 2.0, 3.0, 4.0])
    Head.apply(x, 2.0)
    y = Head.apply(x, 3.0)
    assert y.shape == (2,)
    with pytest.raises(GraphError, match=MESSAGE):
        y.tolist()
    assert Head.apply(x, 3.0).shape == (3,)


@pytest.mark.parametrize(
    "look",
    [
        lambda made: made.requires_grad,
        lambda made: made.grad_fn,
        lambda made: made.is_leaf,
        lambda made: made.register_hook(lambda grad: grad),
        lambda made: made.retain_grad(),
        lambda made: setattr(made, "note", 1),
        lambda made: setattr(made, "data", rg.zeros(2)),
    ],
    ids=["requires_grad", "grad_fn", "is_leaf", "hook", "retain_grad", "attribute", "data"],
)
def test_whatever_was_looked_at_or_set_has_to_hold(session: Any, look: Any) -> None:
    class Clips(Scale):
        """Has no gradient where its number is negative."""

        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
            made = Scale.forward(ctx, x, scale, shift=shift)
            if scale < 0:
                ctx.mark_non_differentiable(made)
            return made

    Clips.apply(leaf(1, 2), 1.0)
    made = Clips.apply(leaf(1, 2), -1.0)
    look(made)
    with pytest.raises(GraphError, match=r"argument 1 \(scale\) = -1\.0"):
        Scale.apply(leaf(1), 1.0).tolist()
    assert not Clips.apply(leaf(1, 2), -1.0).requires_grad


def test_a_fact_that_was_seen_has_to_hold_even_if_no_value_is_read() -> None:
    session = rg.Session(workers=1)
    x = rg.tensor([1.0, 2.0, 3.0, 4.0])
    session.__enter__()
    Head.apply(x, 2.0)
    assert len(Head.apply(x, 3.0)) == 2
    with pytest.raises(GraphError, match=MESSAGE):
        session.__exit__(None, None, None)
    session.close(discard=True)


def test_what_is_built_after_the_submission_has_to_hold_too(session: Any) -> None:
    x = leaf(1, 2, 3, 4)
    Head.apply(x, 2.0).sum().backward()
    y = Head.apply(x, 3.0)
    session.run()

    def differentiate() -> None:
        for _ in range(2):
            y.sum().backward()
            x.grad.tolist()

    with pytest.raises(GraphError, match=MESSAGE):
        differentiate()


def test_other_numbers_of_outputs_cannot_be_taken_on(session: Any) -> None:
    class Split(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, parts: float) -> Any:
            return tuple([x * float(i) for i in range(int(parts))])

    x = rg.tensor([1.0, 2.0])
    assert len(Split.apply(x, 2.0)) == 2
    pair = Split.apply(x, 3.0)
    with pytest.raises(GraphError, match=r"Split behaved differently .*: it returned 3 outputs, and 2 then"):
        pair[0].tolist()
    assert [one.tolist() for one in Split.apply(x, 3.0)] == [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]


def test_an_argument_that_has_changed_since_is_not_saved_as_it_was(session: Any) -> None:
    class Saves(Keep):
        @staticmethod
        def forward(ctx: Any, x: Any, drop: float) -> Any:
            return Keep.forward(ctx, x, drop) * 1.0

    x: Any = leaf(1, 2) * 1.0
    Saves.apply(x, 0.0)
    y = Saves.apply(x, 0.5)
    x.mul_(2.0)
    with pytest.raises(GraphError, match=r"Saves behaved differently .*: of its arguments it saved 0, and none then"):
        y.tolist()


def test_a_function_that_changes_an_argument_by_some_numbers_is_run_first_after_it_was_refused(session: Any) -> None:
    class Into(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            if scale:
                ctx.mark_dirty(x)
                return x.mul_(scale)
            return x + 0.0

    x: Any = rg.tensor([1.0, 2.0]) * 1.0
    assert Into.apply(x, 0.0).tolist() == [1.0, 2.0]
    with pytest.raises((GraphError, RuntimeError)):
        Into.apply(x, 2.0).sum().item()
    y: Any = rg.tensor([1.0, 2.0]) * 1.0
    assert Into.apply(y, 2.0).tolist() == y.tolist() == [2.0, 4.0]
    assert x.tolist() == [1.0, 2.0]


def test_what_is_changed_in_place_by_a_number_is_not_run_first_with_each(session: Any) -> None:
    class Mul(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(scale)

    x: Any = rg.tensor([1.0, 2.0]) * 1.0
    for scale in (2.0, 3.0, 4.0):
        Mul.apply(x, scale)
    assert x.tolist() == [24.0, 48.0]
    assert waits(session) == {"Mul": 1}


def test_an_infer_decides_whether_numbers_are_data(session: Any) -> None:
    class Declared(Head):
        @classmethod
        def infer(cls, x: Any, count: float) -> Any:
            return (int(count),), x.dtype

    x = leaf(1, 2, 3, 4)
    for count in (2.0, 2.5, 3.0, 3.5):
        y = Declared.apply(x, count)
        assert y.shape == (int(count),)
        y.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 4.0, 0.0]
    assert waits(session) == {}


@pytest.mark.parametrize("saved", ["store", "worker", "recompute"])
def test_new_numbers_are_saved_by_each_policy(saved: str) -> None:
    class Table(Scale):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
            ctx.table = np.full(1000, float(scale))
            return Scale.forward(ctx, x, scale)

    with rg.Session(saved=saved) as session:
        for scale in (1.5, 2.5, 3.5):
            x = leaf(1, 2)
            y = Table.apply(x, scale)
            assert y.tolist() == [scale, 2.0 * scale]
            y.sum().backward()
            assert x.grad.tolist() == [scale, scale]
        assert waits(session) == {"Table": 3 if saved == "recompute" else 1}


@pytest.mark.parametrize("saved", ["store", "worker", "recompute"])
def test_outputs_take_on_what_their_run_shows_by_each_policy(saved: str) -> None:
    class Table(Head):
        @staticmethod
        def forward(ctx: Any, x: Any, count: Any, extra: Any = 0) -> Any:
            ctx.table = np.full(1000, float(count))
            return Head.forward(ctx, x, count)

    with rg.Session(saved=saved):
        for count in (2.0, 3.0, 4.0):
            x = leaf(1, 2, 3, 4)
            y = Table.apply(x, count)
            assert len(y.tolist()) == count
            y.sum().backward()
            assert x.grad.tolist() == [2.0] * int(count) + [0.0] * (4 - int(count))


def test_a_compiled_function_records_anew_after_a_wrong_presumption(session: Any) -> None:
    x = leaf(1, 2, 3, 4)

    def run(count: float) -> Any:
        return Head.apply(x, count).sum()

    run(2.0)
    compiled = session.compile(run)
    assert compiled(2.0).item() == 6.0
    with pytest.raises(GraphError, match="Head behaved differently"):
        compiled(3.0).item()
    for _ in range(3):
        assert compiled(3.0).item() == 12.0


def test_arguments_are_not_kept_for_what_was_presumed() -> None:
    import gc
    import weakref

    with rg.Session(workers=1) as session:
        x = leaf(1, 2)
        Scale.apply(x, 1.0).sum().backward()
        given: Any = x * 2.0
        alive = weakref.ref(given)
        loss = Scale.apply(given, 2.0).sum()
        del given
        loss.backward()
        assert loss.item() == 12.0
        del loss
        gc.collect()
        assert alive() is None
        assert not [one for one in session._runs.history if not one.finished]


def test_a_failure_of_user_code_is_the_users_own(session: Any) -> None:
    class Picky(Scale):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any, *, shift: Any = 0.0) -> Any:
            if scale < 0.0:
                raise ValueError("negative")
            return Scale.forward(ctx, x, scale)

    x = leaf(1, 2)
    Picky.apply(x, 1.0)
    y = Picky.apply(x, -1.0)
    with pytest.raises(ValueError, match="negative"):
        y.tolist()
    assert Picky.apply(x, 2.0).tolist() == [2.0, 4.0]


def test_what_explain_was_asked_before_changes_nothing(session: Any) -> None:
    x = rg.tensor([1.0, 2.0, 3.0, 4.0])
    Head.apply(x, 2.0)
    y = Head.apply(x, 3.0)
    session.explain()
    assert y.tolist() == [2.0, 4.0, 6.0]
    z = Head.apply(x, 3.0)
    session.explain()
    assert (z * 2.0).tolist() == [4.0, 8.0, 12.0]


@pytest.mark.ray
def test_presumed_and_deferred_calls_on_ray() -> None:
    with rg.Session("ray", workers=2) as session:
        x = leaf(1, 2, 3, 4)
        for scale in (1.5, 2.5, 3.5):
            assert Scale.apply(x, scale).sum().item() == 10.0 * scale
        assert waits(session) == {"Scale": 1}
        for count in (2.0, 3.0):
            assert Head.apply(x, count).tolist() == [2.0 * (i + 1) for i in range(int(count))]
        for count in (2.0, 3.0):
            assert Keep.apply(x, count).shape == (4,)
        with pytest.raises(GraphError, match=r"Keep behaved differently .*: output 0 is argument 0 itself"):
            Keep.apply(x, 0.0).sum().item()
        before = session.last_run
        loss: Any = sum(Scale.apply(leaf(*range(size)), 2).sum() for size in (1, 2, 3))
        assert session.last_run is before
        assert loss.item() == 8.0
