"""H17: what user code reads by way of objects that few programs capture is that of its application and of the pass."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import NotShippable

from .kinds_pickled_as_copies import pickled_as_a_copy_of_a_tensor
from .rare_kinds import AT_ONCE, RARE, REFUSED
from .test_late_reads import MODES, reads_at_each_moment


@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
@pytest.mark.parametrize("name", RARE)
def test_h17_what_rare_objects_hold_is_read_in_time(name: str) -> None:
    eagerly = reads_at_each_moment(RARE[name]())
    for options in MODES:
        kind = RARE[name]()
        with rg.Session(**options):
            assert reads_at_each_moment(kind) == eagerly, options


def test_h17_a_tensor_of_which_only_a_copy_is_pickled_is_read_in_time() -> None:
    eagerly = reads_at_each_moment(pickled_as_a_copy_of_a_tensor())
    for options in MODES:
        with rg.Session(**options):
            assert reads_at_each_moment(pickled_as_a_copy_of_a_tensor()) == eagerly, options


@pytest.mark.parametrize("name", AT_ONCE)
@pytest.mark.parametrize("workers", [1, 2])
def test_h17_code_that_reads_what_no_guard_compares_runs_at_once(name: str, workers: int) -> None:
    eagerly = reads_at_each_moment(AT_ONCE[name]())
    kind = AT_ONCE[name]()
    with rg.Session(workers=workers), pytest.warns(UserWarning, match="tells nobody when.*run at once"):
        assert reads_at_each_moment(kind) == eagerly


@pytest.mark.parametrize("name", REFUSED)
def test_h17_what_cannot_be_copied_is_refused_once_it_has_changed(name: str) -> None:
    kind = REFUSED[name]()

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * kind.read()

    with rg.Session(workers=1):
        x = rg.ones(2)
        Reads.apply(x)
        unchanged = Reads.apply(x)
        assert unchanged.tolist() == [1.0, 1.0]
        Reads.apply(x).tolist()
        late = Reads.apply(x)
        kind.put(2.0)
        with pytest.raises(NotShippable, match="was changed after it was applied"):
            late.tolist()


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")
def test_h17_on_ray_what_rare_objects_hold_is_read_in_time(ray_started: Any) -> None:
    eagerly = {name: reads_at_each_moment(make()) for name, make in RARE.items()}
    found = {}
    with rg.Session("ray", workers=2):
        for name, make in RARE.items():
            found[name] = reads_at_each_moment(make())
    assert found == eagerly


def functions_in_arguments() -> list[Any]:
    """Apply a Function to a function of the program's, which reads what is changed afterwards."""
    factor = [2.0]

    def times(x: Any) -> Any:
        return x * factor[0]

    class Calls(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, function: Any) -> Any:
            return function(x)

    x = rg.tensor([1.0, 2.0], dtype=rg.float64)
    found: list[Any] = []
    for value in (3.0, 5.0, 7.0):
        found.append(Calls.apply(x, times))
        factor[0] = value
    return [one.tolist() for one in found]


def changed_hooks() -> list[Any]:
    """Pack what Functions save by hooks that read what is changed between application, pass and read."""
    factor = [2.0]

    class Saves(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x: Any = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    with rg.autograd.graph.saved_tensors_hooks(lambda one: one * factor[0], lambda one: one * factor[0]):
        first = Saves.apply(x)
        factor[0] = 3.0
        second = Saves.apply(x)
    factor[0] = 5.0
    (first + second).sum().backward()
    factor[0] = 9.0
    return x.grad.tolist()


@pytest.mark.parametrize("program", [functions_in_arguments, changed_hooks])
def test_h17_what_functions_in_arguments_and_saved_tensor_hooks_read_is_read_in_time(program: Any) -> None:
    eagerly = program()
    modes: list[dict[str, Any]] = [*MODES, {"workers": 1, "saved": "recompute"}]
    for options in modes:
        with rg.Session(**options):
            assert program() == eagerly, options
