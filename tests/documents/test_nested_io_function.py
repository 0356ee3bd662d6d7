"""The document of `NestedIOFunction`: its two methods, nested values, and all that it inherits from Function."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any, NamedTuple

import pytest

import raygrad as torch
from raygrad.autograd import Function, grad
from raygrad.autograd.function import NestedIOFunction

from .members import ATTRIBUTES, METHODS, without_a_test

OWN = ["forward_extended", "backward_extended"]


class State(NamedTuple):
    hidden: Any
    memory: Any


class Cell(NestedIOFunction):
    """(x, State(hidden, memory or None)) to {"state": State, "outputs": [y]}: y = x * hidden."""

    def forward_extended(self, x: Any, state: Any) -> Any:
        self.save_for_backward(x, {"state": state})
        y = x * state.hidden
        memory = None if state.memory is None else state.memory + 1
        return {"state": State(y * 2, memory), "outputs": [y]}

    def backward_extended(self, grads: Any) -> Any:
        x, saved = self.saved_tensors
        g = grads["outputs"][0] + grads["state"].hidden * 2
        return g * saved["state"].hidden, State(g * x, grads["state"].memory)


def leaf(*values: float) -> Any:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def node_of(cls: Any = Cell) -> Any:
    return cls.apply(leaf(1, 2), State(leaf(3, 4), leaf(5, 6)))["outputs"][0].grad_fn


def instance() -> Any:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        return Cell()


def during(act: Any) -> Any:
    """Apply a Cell whose forward_extended also calls `act(self, x, state)`; return what apply returns."""

    class Acting(Cell):
        def forward_extended(self: Any, x: Any, state: Any) -> Any:
            act(self, x, state)
            return Cell.forward_extended(self, x, state)

    return Acting.apply(leaf(1, 2), State(leaf(3, 4), leaf(5, 6)))


def test_each_member_has_its_test_here() -> None:
    assert without_a_test(globals(), OWN + METHODS + ATTRIBUTES) == []


def test_each_member_is_on_the_class_an_instance_and_the_context() -> None:
    missing = object()
    kinds = (Cell, type(instance()), type(node_of()), node_of())
    members = METHODS + ATTRIBUTES
    assert [m for m in members if any(getattr_static(kind, m, missing) is missing for kind in kinds)] == []
    assert [m for m in OWN if not hasattr(Cell, m) or not hasattr(node_of(), m)] == []


# ---- its own ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [None, {}, {"strict": True}], ids=["eager", "session", "strict"])
def test_apply(options: dict[str, Any] | None) -> None:
    def run() -> Any:
        x, hidden, memory = leaf(1, 2), leaf(3, 4), leaf(5, 6)
        out = Cell.apply(x, State(hidden, memory))
        assert type(out["state"]) is State
        (out["outputs"][0].sum() + out["state"].memory.sum()).backward()
        none = Cell.apply(x, State(hidden, None))["state"].memory
        return [out["outputs"][0].tolist(), x.grad.tolist(), hidden.grad.tolist(), memory.grad.tolist(), none]

    expected = [[3, 8], [3, 4], [1, 2], [1, 1], None]
    if options is None:
        assert run() == expected
    else:
        with torch.Session(**options):
            assert run() == expected


def test_apply__by_calling_an_instance() -> None:
    out = instance()(leaf(1, 2), State(leaf(3, 4), None))
    assert out["outputs"][0].tolist() == [3, 8]


def test_forward_extended() -> None:
    seen = []
    during(lambda self, x, state: seen.append((x.requires_grad, type(state).__name__)))
    assert seen == [(False, "State")]
    with pytest.raises(NotImplementedError, match="forward_extended"):
        NestedIOFunction.apply(leaf(1))
    with pytest.raises(ValueError, match="Auto nesting doesn't know"):
        Cell.apply(3, None)


def test_backward_extended() -> None:
    class Forward(NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            return [x * 2]

    with pytest.raises(NotImplementedError, match="backward_extended"):
        Forward.apply(leaf(1))[0].backward()
    x, hidden = leaf(1, 2), leaf(3, 4)
    out = Cell.apply(x, State(hidden, None))
    gx, gh = grad((out["outputs"][0] ** 2).sum(), [x, hidden], create_graph=True)
    assert gx.tolist() == [18, 64]
    assert grad(gh.sum(), x)[0].tolist() == [12, 32]


# ---- what it inherits ------------------------------------------------------------------------------------------------


def test_forward() -> None:
    assert Cell.forward is NestedIOFunction.forward  # runs forward_extended: nothing to write


def test_backward() -> None:
    assert Cell.backward is NestedIOFunction.backward


def test_setup_context() -> None:
    assert Cell.setup_context is Function.setup_context


def test_vjp() -> None:
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        Cell.vjp(None)


def test_jvp() -> None:
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        Cell.jvp(None)


def test_vmap() -> None:
    with pytest.raises(NotImplementedError, match="override the vmap staticmethod"):
        Cell.vmap(None, ())


def test_generate_vmap_rule() -> None:
    assert Cell.generate_vmap_rule is False


def test_save_for_backward() -> None:
    made = instance()
    a, b = leaf(1), leaf(2)
    made.save_for_backward([a, None], {"b": b})
    assert [tensor is other for tensor, other in zip(made.to_save, (a, b), strict=True)] == [True, True]


def test_to_save() -> None:
    seen = []

    class Sees(Cell):
        def forward_extended(self: Any, x: Any, state: Any) -> Any:
            out = Cell.forward_extended(self, x, state)
            seen.append([isinstance(tensor, torch.Tensor) for tensor in self.to_save])
            return out

    assert node_of(Sees).to_save is None
    assert seen == [[True, True, True]]


def test_saved_tensors() -> None:
    x, saved = node_of().saved_tensors
    assert x.tolist() == [1, 2]
    assert type(saved["state"]) is State


def test_saved_variables() -> None:
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        x, _ = node_of().saved_variables
    assert x.tolist() == [1, 2]


def test_save_for_forward() -> None:
    during(lambda self, x, state: self.save_for_forward(x, None))


def test_saved_for_forward() -> None:
    seen = []
    during(lambda self, x, state: (self.save_for_forward(x), seen.append(len(self.saved_for_forward))))
    assert seen == [1]


def test_mark_dirty() -> None:
    class Adds(NestedIOFunction):
        def forward_extended(self: Any, pair: Any) -> Any:
            pair[0].add_(pair[1])
            self.mark_dirty([pair[0]])
            return [pair[0]]

        def backward_extended(self, g: Any) -> Any:
            return [g, g]

    x, y = leaf(1, 2), leaf(3, 4)
    z = x * 1
    (out,) = Adds.apply([z, y])
    assert out is z
    out.sum().backward()
    assert (z.tolist(), x.grad.tolist(), y.grad.tolist()) == ([4, 6], [1, 1], [1, 1])


def test_dirty_tensors() -> None:
    made = instance()
    made.mark_dirty([leaf(1)], named={"b": leaf(2)})
    assert len(made.dirty_tensors) == 2


def test_mark_non_differentiable() -> None:
    class Marks(NestedIOFunction):
        def forward_extended(self: Any, x: Any) -> Any:
            out = {"y": x * 2, "rest": [x * 3, None]}
            self.mark_non_differentiable(out["rest"])
            return out

    out = Marks.apply(leaf(1))
    assert (out["y"].requires_grad, out["rest"][0].requires_grad) == (True, False)


def test_non_differentiable() -> None:
    made = instance()
    made.mark_non_differentiable([leaf(1), None], named=leaf(2))
    assert len(made.non_differentiable) == 2


def test_mark_shared_storage() -> None:
    with pytest.warns(FutureWarning):
        during(lambda self, x, state: self.mark_shared_storage((x, x)))


def test_set_materialize_grads() -> None:
    class Two(NestedIOFunction):
        def forward_extended(self: Any, x: Any) -> Any:
            self.set_materialize_grads(False)
            return [x * 1, [x * 2]]

        def backward_extended(self, first: Any, rest: Any) -> Any:
            assert rest == [None]
            return first

    x = leaf(1)
    Two.apply(x)[0].backward()
    assert x.grad.tolist() == [1]


def test_materialize_grads() -> None:
    assert node_of().materialize_grads is True


def test_maybe_clear_saved_tensors() -> None:
    seen = []

    class Clears(Cell):
        def backward_extended(self: Any, grads: Any) -> Any:
            result = Cell.backward_extended(self, grads)
            seen.append(self.maybe_clear_saved_tensors())
            return result

    Clears.apply(leaf(1, 2), State(leaf(3, 4), None))["outputs"][0].sum().backward()
    assert seen == [None]


def test_needs_input_grad() -> None:
    seen = []
    during(lambda self, x, state: seen.append(self.needs_input_grad))
    assert seen[0][-3:] == (True, True, True)  # one per tensor, in the order of the nesting


def test_requires_grad() -> None:
    seen = []
    during(lambda self, x, state: seen.append(self.requires_grad))
    with torch.no_grad():
        during(lambda self, x, state: seen.append(self.requires_grad))
    assert seen == [True, False]


def test_name() -> None:
    assert node_of().name() == "CellBackward"


def test_next_functions() -> None:
    assert len(node_of().next_functions) == 3


def test_metadata() -> None:
    node = node_of()
    node.metadata["step"] = 1
    assert node.metadata == {"step": 1}


def test_register_hook() -> None:
    x = leaf(1, 2)
    out = Cell.apply(x, State(leaf(3, 4), None))["outputs"][0]
    seen = []
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    out.sum().backward()
    assert len(seen) == 1


def test_register_prehook() -> None:
    x = leaf(1, 2)
    out = Cell.apply(x, State(leaf(3, 4), None))["outputs"][0]
    out.grad_fn.register_prehook(lambda grads: tuple(None if g is None else g * 10 for g in grads))
    out.sum().backward()
    assert x.grad.tolist() == [30, 40]
