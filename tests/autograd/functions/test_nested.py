"""Functions of nested containers (LG-05 to LG-12); tests/conformance has the programs for sessions."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

import raygrad as rg
from raygrad.autograd import grad
from raygrad.autograd.function import NestedIOFunction, once_differentiable
from raygrad.autograd.functions.nested import flattened_tensors


class Pair(NamedTuple):
    left: Any
    right: Any


def leaf(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


class Mix(NestedIOFunction):
    """(a, {"x": x, "none": None}) to Pair({"product": a x}, [a, None])."""

    factor = 1.0

    def forward_extended(self, a: Any, named: Any) -> Any:
        assert named["none"] is None
        assert not a.requires_grad
        self.save_for_backward(a, [named["x"], None])
        return Pair({"product": a * named["x"] * self.factor}, [a * 2, None])

    def backward_extended(self, first: Any, second: Any) -> Any:
        a, (x, none) = self.saved_tensors
        assert none is None
        assert second[1] is None
        product = first["product"] * self.factor
        return product * x + second[0] * 2, {"x": product * a, "none": None}


def test_lg_05_to_10_through_apply() -> None:
    a, x = leaf(1, 2), leaf(3, 4)
    out = Mix.apply(a, {"x": x, "none": None})
    assert isinstance(out, Pair)
    assert out.left["product"].tolist() == [3, 8]
    assert out.right[1] is None
    (out.left["product"].sum() + out.right[0].sum()).backward()
    assert a.grad.tolist() == [5, 6]
    assert x.grad.tolist() == [1, 2]


def test_lg_05_through_an_instance_with_attributes() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        mix = Mix()
    mix.factor = 10.0
    a, x = leaf(1, 2), leaf(3, 4)
    out = mix(a, {"x": x, "none": None})
    out.left["product"].sum().backward()
    assert a.grad.tolist() == [30, 40]
    assert Mix.factor == 1.0


def test_derivatives_of_derivatives_see_the_inputs_and_not_their_twins() -> None:
    a, x = leaf(1, 2), leaf(3, 4)
    out = Mix.apply(a, {"x": x, "none": None})
    ga, gx = grad((out.left["product"] ** 2).sum(), [a, x], create_graph=True)
    assert ga.tolist() == [18, 64]
    (second,) = grad(ga.sum() + gx.sum(), a)
    assert second.tolist() == [2 * 9 + 4 * 3, 2 * 16 + 4 * 8]


def test_arguments_by_name() -> None:
    a, x = leaf(1, 2), leaf(3, 4)
    assert Mix.apply(named={"x": x, "none": None}, a=a).left["product"].tolist() == [3, 8]
    with pytest.raises(TypeError, match="missing"):
        Mix.apply(a=a)


def test_lg_05_what_is_not_written_raises() -> None:
    class Bare(NestedIOFunction):
        pass

    with pytest.raises(NotImplementedError, match="forward_extended"):
        Bare.apply(leaf(1))

    class Forward(NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            return x * 1

    with pytest.raises(NotImplementedError, match="backward_extended"):
        Forward.apply(leaf(1)).backward()


def test_lg_07_only_tensors_and_none_in_containers() -> None:
    with pytest.raises(ValueError, match="Auto nesting doesn't know how to process an input object of type int"):
        Mix.apply(leaf(1), {"x": 3})


def test_lg_08_09_saving_and_marking_on_an_instance() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        mix = Mix()
    a, b = leaf(1), leaf(2)
    mix.save_for_backward([a, {"b": b}], None)
    assert mix.to_save[0] is a
    assert mix.to_save[1] is b
    mix.mark_non_differentiable([a], key=(b,))
    assert len(mix.non_differentiable) == 2


def test_lg_09_marked_outputs_do_not_require_grad() -> None:
    class Marked(NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            out = [x * 2, x * 3]
            self.mark_non_differentiable(out[1:])
            return out

        def backward_extended(self, first: Any, second: Any) -> Any:
            return first * 2

    x = leaf(1)
    first, second = Marked.apply(x)
    assert first.requires_grad
    assert not second.requires_grad
    first.backward()
    assert x.grad.tolist() == [2]


def test_lg_10_none_for_a_container_is_none_for_each_of_its_tensors() -> None:
    class Partial(NestedIOFunction):
        def forward_extended(self, many: Any, one: Any, none: Any) -> Any:
            return one * 2

        def backward_extended(self, g: Any) -> Any:
            return None, g * 2, None

    a, b, c = leaf(1), leaf(2), leaf(3)
    Partial.apply([a, b], c, None).backward()
    assert a.grad is None
    assert b.grad is None
    assert c.grad.tolist() == [2]


def test_a_wrong_number_of_gradients_is_an_error() -> None:
    class Wrong(NestedIOFunction):
        def forward_extended(self, pair: Any) -> Any:
            return pair[0] * pair[1]

        def backward_extended(self, g: Any) -> Any:
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply((leaf(1), leaf(2))).backward()


def test_lg_12_the_nesting_goes_with_the_saved_tensors() -> None:
    a, x = leaf(1, 2), leaf(3, 4)
    out = Mix.apply(a, {"x": x, "none": None}).left["product"].sum()
    node = out.grad_fn.next_functions[0][0]
    assert node._nested_output is not None
    out.backward(retain_graph=True)
    out.backward()
    assert a.grad.tolist() == [6, 8]
    assert "_nested_output" not in vars(node)
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        out.backward()


def test_once_differentiable_reaches_into_containers() -> None:
    class Once(NestedIOFunction):
        def forward_extended(self, pair: Any) -> Any:
            self.save_for_backward(pair)
            return pair[0] * pair[1]

        @once_differentiable
        def backward_extended(self, g: Any) -> Any:
            ((a, b),) = self.saved_tensors
            return [g * b, g * a]

    a, b = leaf(1), leaf(2)
    ga, _ = grad(Once.apply((a, b)).sum(), [a, b], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        ga.backward()


def test_the_context_has_the_methods_and_properties_of_the_class() -> None:
    class Helped(NestedIOFunction):
        @property
        def three(self) -> float:
            return 3.0

        @staticmethod
        def twice(x: Any) -> Any:
            return x * 2

        def scaled(self, x: Any) -> Any:
            return self.twice(x) * self.three

        def forward_extended(self, x: Any) -> Any:
            assert not hasattr(self, "missing")
            return self.scaled(x)

        def backward_extended(self, g: Any) -> Any:
            return self.scaled(g)

    x = leaf(1)
    Helped.apply(x).backward()
    assert x.grad.tolist() == [6]


def test_nestings_are_plain_data_that_rebuild_what_was_taken_apart() -> None:
    a, b = leaf(1), leaf(2)
    value = ([a, None], Pair(b, {"k": None, "l": (a,)}), OrderedDict(z=b))
    tensors, nesting = flattened_tensors(value)
    assert [t is u for t, u in zip(tensors, [a, b, a, b], strict=True)] == [True] * 4
    rebuilt = nesting.rebuilt(["p", "q", "r", "s"])
    assert rebuilt == (["p", None], Pair("q", {"k": None, "l": ("r",)}), OrderedDict(z="s"))
    assert type(rebuilt[2]) is OrderedDict
    assert flattened_tensors(value)[1] == nesting
    with pytest.raises(ValueError, match="4 tensors cannot be rebuilt from 1"):
        nesting.rebuilt([a])


def test_lg_09_dirty_inputs_are_changed_in_place_and_returned() -> None:
    class Adds(NestedIOFunction):
        def forward_extended(self, pair: Any, *, by: float = 1.0) -> Any:
            pair[0].add_(by)
            self.mark_dirty(pair[:1], key=[])
            return {"first": pair[0], "product": pair[0] * pair[1]}

        def backward_extended(self, grads: Any) -> Any:
            return [grads["first"], None]

    x, y = leaf(1, 2), leaf(3, 4)
    z = x * 1
    out = Adds.apply([z, y])
    assert out["first"] is z
    assert z.tolist() == [2, 3]
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_lg_08_saving_nothing_but_none_gives_it_back() -> None:
    class Keeps(NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            self.save_for_backward([None, {}])
            return x * 2

        def backward_extended(self, g: Any) -> Any:
            assert self.saved_tensors == ([None, {}],)
            return g * 2

    x = leaf(1)
    Keeps.apply(x).backward()
    assert x.grad.tolist() == [2]
