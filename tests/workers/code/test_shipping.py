from __future__ import annotations

import importlib
import itertools
import math
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable
from raygrad.workers.code.shipping import Shipment, open_shipment, opening_as_worker, pickle_value, ship, unpickle_value

LIMITS = {"low": -1.0, "high": 1.0}
LOG: list[Any] = []


class Unit:
    """A class of the user's that Functions and hooks refer to by its global name."""

    factor = 10.0


class Double(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(x.numpy() * 2 * Unit.factor)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return Tensor(grads[0].numpy() * 2 * Unit.factor)


class Clip(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(np.clip(x.numpy(), LIMITS["low"], LIMITS["high"]))


def scaled_by(values: Any) -> Callable[[Any], Any]:
    def hook(grad: Any) -> Any:
        return grad * values

    return hook


def opened(obj: Any, *captured: Any) -> Any:
    """Ship an object by value, and open it as another process would."""
    shipped = ship(obj)
    with opening_as_worker():
        return open_shipment(Shipment.of(shipped.shipment.portable()), captured or shipped.captured)


# ---- by import name, by value, by reference -------------------------------------------------------------------------


def test_what_is_installed_goes_by_import_name():
    for obj in (math.sqrt, np.linalg.norm, Tensor, Function, np.mean):
        shipment = ship(obj).shipment
        assert not shipment.payload
        assert open_shipment(shipment) is obj


def test_code_of_an_importable_test_module_goes_by_value_all_the_same():
    shipment = ship(Double).shipment
    assert shipment.payload
    copy = opened(Double)
    assert copy is not Double
    assert copy.__name__ == "Double"
    assert issubclass(copy, Function)
    np.testing.assert_array_equal(copy.forward(None, Tensor(np.ones(2))).numpy(), [20.0, 20.0])


def test_a_reopened_function_has_its_own_node_class():
    copy = opened(Double)
    assert copy._backward_cls._function is copy
    assert copy._backward_cls.__name__ == "DoubleBackward"


def test_a_lambda_a_partial_a_bound_method_and_a_callable_object_travel():
    from functools import partial

    class Shift:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: float) -> float:
            return x + self.by

        def twice(self, x: float) -> float:
            return x + 2 * self.by

    assert opened(lambda x: x + 1)(1) == 2
    assert opened(partial(max, 5))(1) == 5
    assert opened(Shift(3))(1) == 4
    assert opened(Shift(3).twice)(1) == 7


def test_a_cached_function_travels_with_an_empty_cache():
    from functools import lru_cache

    @lru_cache(maxsize=7)
    def square(x: int) -> int:
        return x * x

    copy = opened(square)
    assert copy(3) == 9
    assert copy.cache_parameters()["maxsize"] == 7


def test_in_process_code_that_captures_nothing_is_used_as_it_is():
    shipped = ship(Double, in_process=True)
    assert open_shipment(shipped.shipment) is Double
    assert shipped.fingerprint == ship(Double).fingerprint


def test_a_live_object_cannot_leave_the_process():
    with pytest.raises(NotShippable, match="used by reference"):
        ship(Double, in_process=True).shipment.portable()


def test_in_process_code_that_cannot_be_pickled_is_used_as_it_is():
    lock = threading.Lock()

    def hook(grad: Any) -> Any:
        with lock:
            return grad

    shipped = ship(hook, in_process=True)
    assert open_shipment(shipped.shipment) is hook
    assert ship(hook, in_process=True).fingerprint == shipped.fingerprint


def a_module(name: str, source: str, folder: Any, monkeypatch: Any) -> Any:
    """Return a module that no other process can import."""
    (folder / f"{name}.py").write_text(source)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(folder)
        module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_a_module_of_the_user_s_goes_whole(tmp_path: Any, monkeypatch: Any):
    helpers = a_module("raygrad_test_helpers", "def double(x): return 2 * x\nbias = 1\n", tmp_path, monkeypatch)

    def hook(x: float) -> float:
        return helpers.double(x) + helpers.bias

    first = ship(hook)
    monkeypatch.delitem(sys.modules, "raygrad_test_helpers")
    with opening_as_worker():
        assert open_shipment(first.shipment)(3) == 7
    monkeypatch.setitem(sys.modules, "raygrad_test_helpers", helpers)
    helpers.bias = 2
    assert ship(hook).fingerprint != first.fingerprint


def test_what_cannot_be_pickled_in_a_module_goes_by_name(tmp_path: Any, monkeypatch: Any):
    source = "import threading\nlock = threading.Lock()\ndef double(x): return 2 * x\n"
    helpers = a_module("raygrad_test_locked", source, tmp_path, monkeypatch)
    copy = opened(lambda x: helpers.double(x))
    helpers.double = None
    inside = copy.__closure__[0].cell_contents
    assert (copy(3), inside.lock) == (6, helpers.lock)
    with pytest.raises(AttributeError, match=r"raygrad_test_locked.*'other'"):
        assert inside.other


def test_code_in_a_module_that_cannot_be_pickled_is_warned_of(tmp_path: Any, monkeypatch: Any):
    source = "import threading\nlock = threading.Lock()\ndef locked():\n    with lock: return 1\n"
    helpers = a_module("raygrad_test_locks", source, tmp_path, monkeypatch)
    with pytest.warns(UserWarning, match="may use 'raygrad_test_locks.locked', which cannot be pickled"):
        opened(lambda: helpers.locked())


@pytest.mark.parametrize("made", [itertools.count(1), iter([1, 2]), map(abs, [1, 2])], ids=["count", "list", "map"])
def test_a_captured_iterator_is_warned_of(made: Any):
    with pytest.warns(UserWarning, match="captures 'made', a mutable object of the client"):
        opened(lambda x: x * next(made))


# ---- fingerprints ---------------------------------------------------------------------------------------------------


def test_a_definition_made_anew_has_the_same_fingerprint_whatever_arrays_it_captures():
    first, second = ship(scaled_by(np.ones(3))), ship(scaled_by(np.zeros(3)))
    assert first.fingerprint == second.fingerprint
    assert [c.tolist() for c in first.captured] == [[1.0] * 3]
    assert [c.tolist() for c in second.captured] == [[0.0] * 3]


def test_a_class_made_anew_has_the_same_fingerprint():
    def make() -> Any:
        class Local(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x

        return Local

    assert ship(make()).fingerprint == ship(make()).fingerprint


def test_a_changed_constant_default_or_class_attribute_changes_the_fingerprint():
    assert ship(scaled_by(2.0)).fingerprint != ship(scaled_by(3.0)).fingerprint
    assert ship(lambda g, a=1: g).fingerprint != ship(lambda g, a=2: g).fingerprint
    before = ship(Double).fingerprint
    Unit.factor = 11.0
    try:
        assert ship(Double).fingerprint != before
    finally:
        Unit.factor = 10.0
    assert ship(Double).fingerprint == before


def test_using_a_function_does_not_change_its_fingerprint():
    before = ship(Double).fingerprint
    Double.apply(Tensor(np.ones(2), requires_grad=True))
    assert ship(Double).fingerprint == before


# ---- captured arrays and tensors ------------------------------------------------------------------------------------


def test_captured_arrays_and_tensors_are_put_back_where_the_code_is_opened():
    array, tensor = np.arange(3.0), Tensor(np.ones(2))
    state = {"again": array}

    def hook(grad: Any) -> Any:
        return array, tensor, state["again"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shipped = ship(hook)
    assert [id(c) for c in shipped.captured] == [id(array), id(tensor)]
    other, more = np.full(3, 7.0), np.full(2, 5.0)
    with opening_as_worker():
        got_array, got_tensor, again = open_shipment(shipped.shipment, [other, more])(None)
    assert got_array.tolist() == [7.0] * 3
    assert again is got_array
    assert isinstance(got_tensor, Tensor)
    assert got_tensor.numpy().tolist() == [5.0] * 2
    assert not got_array.flags.writeable
    assert other.flags.writeable


def test_empty_arrays_and_arrays_of_objects_stay_with_the_code():
    empty, words = np.zeros(0), np.array(["a", "b"])
    shipped = ship(lambda g: (empty, words))
    assert shipped.captured == ()


def test_what_captures_arrays_goes_by_value_in_process_too():
    shipped = ship(scaled_by(np.ones(3)), in_process=True)
    assert shipped.shipment.live is None
    assert len(shipped.captured) == 1


def test_code_is_opened_once_or_once_per_set_of_captured_objects():
    plain = ship(lambda g: g)
    assert open_shipment(plain.shipment) is open_shipment(plain.shipment)
    shipped, ones, twos = ship(scaled_by(np.ones(3))), np.ones(3), np.full(3, 2.0)
    first = open_shipment(shipped.shipment, [ones])
    assert open_shipment(shipped.shipment, [ones]) is first
    assert open_shipment(shipped.shipment, [twos])(1.0).tolist() == [2.0] * 3


def test_an_undefined_captured_value_is_none():
    shipped = ship(scaled_by(Tensor(np.ones(3))))
    copy = open_shipment(shipped.shipment, [None])
    assert copy.__closure__[0].cell_contents is None


def test_a_class_with_captured_arrays_is_opened_anew_for_others():
    def make(table: Any) -> Any:
        class Lookup(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return table

        return Lookup

    shipped = ship(make(np.ones(2)))
    with opening_as_worker():
        one = open_shipment(shipped.shipment, [np.ones(2)])
        two = open_shipment(shipped.shipment, [np.full(2, 2.0)])
    assert one.forward(None, None).tolist() == [1.0, 1.0]
    assert two.forward(None, None).tolist() == [2.0, 2.0]


def test_a_class_with_captured_arrays_has_those_of_its_node_also_where_it_was_written():
    table = np.ones(2)

    class Lookup(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return table

    shipped = ship(Lookup, in_process=True)
    assert open_shipment(shipped.shipment, [np.full(2, 7.0)]).forward(None, None).tolist() == [7.0, 7.0]


# ---- classes keep their identity ------------------------------------------------------------------------------------


def test_an_argument_is_an_instance_of_the_class_that_the_code_names():
    def check(x: Any) -> bool:
        return isinstance(x, Unit)

    copy = opened(check)
    with opening_as_worker():
        argument = unpickle_value(pickle_value(Unit()))
    assert copy(argument)
    assert not isinstance(argument, Unit)


def test_an_instance_that_comes_back_is_of_the_class_that_was_sent():
    with opening_as_worker():
        there = unpickle_value(pickle_value(Unit()))
        back = pickle_value(there)
    assert type(unpickle_value(back)) is Unit


# ---- refusals and warnings ------------------------------------------------------------------------------------------


def _a_generator() -> Any:
    yield 1


@pytest.mark.parametrize("what", ["lock", "file", "generator", "socket"])
def test_an_unshippable_capture_is_named(what: str, tmp_path: Any):
    import socket

    made: dict[str, Callable[[], Any]] = {
        "lock": threading.Lock,
        "file": lambda: (tmp_path / "f").open("w+"),
        "generator": _a_generator,
        "socket": socket.socket,
    }
    culprit = made[what]()

    def hook(grad: Any) -> Any:
        return culprit

    try:
        with pytest.raises(NotShippable, match=r"'hook' captures 'culprit' \(a"):
            ship(hook)
    finally:
        if what in ("file", "socket"):
            culprit.close()


def test_a_culprit_deeper_down_is_named_with_its_path():
    class Probe:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    probe = Probe()

    def helper() -> Any:
        return probe

    with pytest.raises(NotShippable, match=r"'helper' 'probe' 'Probe.lock' \(a lock\)"):
        ship(lambda grad: helper())


@pytest.mark.parametrize("in_process", [True, False])
def test_a_captured_container_warns_once_in_every_kind_of_session(in_process: bool):
    def hook(grad: Any) -> None:
        LOG.append(grad)

    with pytest.warns(UserWarning, match=r"'hook' captures 'LOG'.*rg\.emit") as caught:
        ship(hook, in_process=in_process)
    assert caught[0].filename == __file__
    ship(hook, in_process=in_process)  # again: warnings are errors here


def test_the_warning_says_whose_object_is_changed():
    log: list[Any] = []

    def hook(grad: Any) -> None:
        log.append(grad)

    with pytest.warns(UserWarning, match=r"'log', a mutable object of your program: .* in program order") as caught:
        ship(hook, in_process=True)
    assert "stays on the worker" not in str(caught[0].message)
    with pytest.warns(UserWarning, match="what it changes there stays on the worker"):  # although warned in process
        ship(hook, in_process=False)


@dataclass(frozen=True)
class Settings:
    factor: float = 2.0


def test_what_a_library_wraps_around_a_class_is_no_capture_of_the_user_s():
    settings = Settings()
    assert ship(lambda grad: grad * settings.factor, in_process=False) is not None  # a warning would be an error here


def test_a_captured_container_warns_also_beside_what_cannot_be_pickled():
    lock, seen = threading.Lock(), []

    def hook(grad: Any) -> None:
        with lock:
            seen.append(grad)

    with pytest.warns(UserWarning, match=r"'hook' captures 'seen'.*client=True"):
        ship(hook, in_process=True)


def test_the_state_of_a_callable_object_warns_too():
    class Recorder:
        def __init__(self) -> None:
            self.grads: list[Any] = []

        def __call__(self, grad: Any) -> None:
            self.grads.append(grad)

    with pytest.warns(UserWarning, match=r"Recorder\.grads"):
        ship(Recorder())


def test_a_function_class_that_only_reads_a_table_does_not_warn():
    ship(Clip)  # warnings are errors here


def test_in_process_a_hook_with_a_container_of_its_own_is_not_taken_for_its_like():
    def make() -> Any:
        seen: list[Any] = []
        return (lambda grad: seen.append(grad)), seen

    (first, first_seen), (second, second_seen) = make(), make()
    with pytest.warns(UserWarning, match="captures"):
        shipped = [ship(hook, in_process=True) for hook in (first, second)]
    assert shipped[0].fingerprint != shipped[1].fingerprint
    open_shipment(shipped[1].shipment)(1)
    assert (first_seen, second_seen) == ([], [1])


def rated() -> tuple[Any, Any]:
    """Return a Function that reads a variable, and what sets that."""
    rate = 2

    class Rated(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * rate

    def change(value: int) -> None:
        nonlocal rate
        rate = value

    return Rated, change


def test_in_process_code_reads_what_it_read_when_it_was_shipped():
    rated_class, change = rated()
    first = ship(rated_class, in_process=True)
    assert open_shipment(first.shipment) is rated_class
    change(3)
    assert not first.guard.holds()
    second = ship(rated_class, in_process=True)
    assert second.fingerprint != first.fingerprint
    assert open_shipment(second.shipment) is rated_class
    copy = open_shipment(first.shipment)
    assert copy is not rated_class
    assert open_shipment(first.shipment) is copy
    assert copy.forward(None, 1) == 2
    assert rated_class.forward(None, 1) == 3
    change(2)
    assert ship(rated_class, in_process=True).fingerprint == first.fingerprint
    assert open_shipment(first.shipment) is rated_class


def test_in_process_code_that_changes_what_it_captures_shares_it_with_the_client():
    seen = 0

    def hook(grad: Any) -> None:
        nonlocal seen
        seen += grad

    with pytest.warns(UserWarning, match="'hook' changes 'seen', an object of your program.*rg.emit"):
        shipped = ship(hook, in_process=True)
    for _ in range(2):
        open_shipment(shipped.shipment)(1)
        assert shipped.guard.holds()
        assert ship(hook, in_process=True).fingerprint == shipped.fingerprint
    assert seen == 2


def test_in_process_code_that_can_neither_be_copied_nor_read_what_it_read_is_refused():
    lock, rate = threading.Lock(), 2

    def hook(grad: Any) -> Any:
        with lock:
            return grad * rate

    first = ship(hook, in_process=True)
    assert open_shipment(first.shipment)(1) == 2
    rate = 3
    with pytest.raises(NotShippable, match=r"'hook' reads.*was changed after it was applied.*pass what changes"):
        open_shipment(first.shipment)
    second = ship(hook, in_process=True)
    assert second.fingerprint != first.fingerprint
    assert open_shipment(second.shipment)(1) == 3


def test_an_optimiser_that_code_on_a_worker_steps_is_warned_of():
    weight = rg.ones(2, requires_grad=True)
    optimizer = rg.optim.SGD([weight], lr=0.1)

    def steps(grad: Any) -> None:
        optimizer.step()

    def clears(grad: Any) -> None:
        optimizer.zero_grad()

    def reads(grad: Any) -> Any:
        return grad * optimizer.param_groups[0]["lr"]

    for hook, called in ((steps, "step"), (clears, "zero_grad")):
        told = rf"'{hook.__name__}' calls optimizer.{called}\(...\), .* is lost; .*register_post_accumulate_grad_hook"
        with pytest.warns(UserWarning, match=told):
            ship(hook, in_process=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ship(reads, in_process=True)


def test_the_gradient_of_a_captured_leaf_goes_home_and_is_not_warned_of():
    leaf, other = rg.ones(2, requires_grad=True), rg.ones(2)

    def assigns(grad: Any) -> None:
        leaf.grad = grad

    def assigns_to_another(grad: Any) -> None:
        other.grad = grad

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ship(assigns, in_process=False)
    with pytest.warns(UserWarning, match="'assigns_to_another' changes 'grad', which is of the client"):
        ship(assigns_to_another, in_process=False)


def test_what_another_process_opens_is_not_what_this_one_does():
    values = np.arange(2.0)
    for obj, captured in ((Double, ()), (scaled_by(values), (values,))):
        shipped = ship(obj)
        shipment = Shipment.of(shipped.shipment.portable())
        found: list[Any] = []
        for _ in range(2):
            found.append(open_shipment(shipment, captured))
            with opening_as_worker():
                found.append(open_shipment(shipment, captured))
        assert found[0] is found[2]
        assert found[1] is found[3]
        assert found[0] is not found[1]


def test_bound_methods_of_two_objects_that_cannot_be_copied_are_two():
    class Locked:
        def __init__(self, factor: float) -> None:
            self.lock = threading.Lock()
            self.factor = factor

        def scale(self, grad: Any) -> Any:
            return grad * self.factor

    one, other = Locked(2.0), Locked(3.0)
    shipped = [ship(each.scale, in_process=True) for each in (one, other, one)]
    assert shipped[0].fingerprint == shipped[2].fingerprint != shipped[1].fingerprint
    assert [open_shipment(each.shipment)(1.0) for each in shipped] == [2.0, 3.0, 2.0]


def test_code_that_is_like_what_was_shipped_before_gets_its_own_arrays_in_their_places():
    def made(first: Any, second: Any, third: Any) -> Callable[[Any], Any]:
        def inner(grad: Any, power: Any = third) -> Any:
            return grad * second - power

        def hook(grad: Any, shift: Any = second) -> Any:
            return inner(grad) * first + shift

        return hook

    for base in (1.0, 10.0):
        arrays = [np.arange(2.0) + base * number for number in (1, 2, 3)]
        shipped = ship(made(*arrays))
        assert {id(one) for one in shipped.captured} == {id(one) for one in arrays}
        found = opened(made(*arrays))(np.ones(2))
        np.testing.assert_array_equal(found, made(*arrays)(np.ones(2)))
