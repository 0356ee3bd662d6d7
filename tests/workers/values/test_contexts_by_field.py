"""Contexts that leave their worker and come back, compared field by field: no two fields hold the same here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.hooks import HookDict
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import device_of, is_device_array
from raygrad.autograd.functions.context_runs import has_changed
from raygrad.autograd.functions.context_state import UNWANTED, WANTED, is_bare
from raygrad.autograd.nodes.node import FREED
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, PACKED, UNSHARED, VALUE, SavedSlot, UnreadableSlots
from raygrad.autograd.saved.saved_tensor_hooks import PackedSavedTensor
from raygrad.proto.ir.specs import LIVE, STAYS
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.contexts import (
    LARGE,
    WRITABLE,
    Context,
    attributes_of,
    bound_to,
    with_attributes,
)
from raygrad.workers.values.packed_values import unpack_all


class Own(rg.autograd.Function):
    """Its contexts are made by hand."""


class Another(Own):
    """Code of the same contexts that captures something else."""


class ReadOnce(Own):
    clear_saved_tensors_on_access = True


class Hooked(Own):
    """As a Function that is applied under saved-tensor hooks."""

    _applied_under = (lambda tensor: tensor, lambda kept: kept)


def tensor(*values: float, requires_grad: bool = False) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=requires_grad)


def slot(kind: str, position: int, value: Any = None) -> SavedSlot:
    return SavedSlot(kind, position, value, UNSHARED, 0)


def packed_slot(what: str, position: int, kept: Any, meta: Any) -> SavedSlot:
    return slot(PACKED, position, (what, PackedSavedTensor.rebuild(Hooked._applied_under[1], meta, kept)))


def full(cls: Any = Own) -> Any:
    """Return a context in which every field holds something of its own."""
    node = cls._backward_cls()
    node.keep_slots([slot(INPUT, 2), None, slot(OUTPUT, 1), slot(VALUE, -1, tensor(1.0, 2.0)), slot(INPUT, 1)])
    node._references = {"given": (INPUT, 3), "made": (OUTPUT, 2)}
    node.given, node.made = tensor(91.0), tensor(92.0)
    node.number, node.text, node.nothing = 3, "text", None
    node.frozen, node.open = frozen(np.arange(3.0)), np.arange(4.0)
    node.leaf, node.plain = tensor(5.0, requires_grad=True), tensor(6.0)
    node.nested = [(1, {"a": np.arange(2)}), {"b", "c"}]
    node._fwd_used_autocast, node._dtype = True, np.dtype("float16")
    node.metadata["note"] = np.full(2, 7.0)
    node.needs_input_grad = (True, False, False, True)
    node.materialize_grads, node._materialize_non_diff_grads = False, True
    node._barren = frozenset({2, 0})
    float_, int_ = np.dtype("float32"), np.dtype("int64")
    node._inputs = [((2, 3), float_), None, ((5,), int_), ((7,), float_)]
    node._metas = [((1,), int_), ((2, 3), np.dtype("float64")), ((), float_)]
    node._edges = [WANTED, None, UNWANTED, WANTED]
    node._pre_hooks = HookDict(enumerate([saying("before", 1), saying("before", 2)]))
    node._post_hooks = HookDict(enumerate([saying("after", 1), saying("after", 2), saying("after", 3)]))
    return node


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def saying(when: str, number: int) -> Callable[[], Any]:
    return lambda: (when, number)


def told(value: Any) -> Any:
    """Return a value in a form that compares by type, bits, and what may be done with it."""
    if isinstance(value, rg.Tensor):
        return "tensor", str(value.device), str(value.dtype), value.tolist(), value._requires_grad
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.tolist(), value.flags.writeable
    if isinstance(value, list | tuple):
        return type(value), [told(one) for one in value]
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items()}
    return type(value), value


def told_slot(one: SavedSlot | None) -> Any:
    if one is None:
        return None
    if one.kind is PACKED:
        what, packed = one.value
        assert any([what is known for known in (INPUT, OUTPUT, VALUE)]), "kinds are compared by identity"
        return PACKED, one.position, what, packed.content[0], told(packed.content[1]), packed.checked
    assert any([one.kind is known for known in (INPUT, OUTPUT, VALUE)])
    return one.kind, one.position, told(one.value), one.counter[0] - one.version


def fields(node: Any) -> dict[str, Any]:
    """Return what a context consists of, by field."""
    references = node.references()
    return {
        "slots": [told_slot(one) for one in node._saved] if node.readable else getattr(node._saved, "message", FREED),
        "attributes": {n: told(v) for n, v in node._attributes().items() if n not in references},
        "references": references,
        "notes": told(node._notes),
        "needs": node.needs_input_grad,
        "materialize": node.materialize_grads,
        "materialize of what is not differentiable": node._materialize_non_diff_grads,
        "not differentiable": node._barren,
        "inputs": list(node._inputs),
        "outputs": list(node._metas),
        "edges": [None if edge is None else edge == WANTED for edge in node._edges],
        "hooks before": [hook() for hook in (node._pre_hooks or {}).values()],
        "hooks after": [hook() for hook in (node._post_hooks or {}).values()],
        "places of inputs": node._input_places and [str(one) for one in node._input_places],
        "places of outputs": node._places and [str(one) for one in node._places],
    }


def apart(context: Context) -> Context:
    """Packed and rebuilt in one process."""
    return Context(packed=context.packed(asked=True))


def sent(context: Context) -> Context:
    """As another process gets it."""
    (value,) = unpack_all(WorkerHost("w").pack([context], asked=True))  # type: ignore[misc]
    return value


def sent_on(context: Context) -> Context:
    """As a third process gets it, of one that was never live on the second."""
    there = sent(context)
    there.settle()
    return sent(there)


def spilled(context: Context) -> Context:
    """As it comes back from the disk of its worker."""
    values = WorkerHost("w").values
    back: Any = values.load(values.spill_slot([context], 0))
    assert back is not context
    return back


def left(context: Context) -> Context:
    """As what backward left of it comes back from disk, if somebody looks at it."""
    values = WorkerHost("w").values
    spilled = values.spill(context)
    context.put_away(lambda: values.load(spilled.region).packed())
    return context


WAYS = {way.__name__: way for way in (apart, sent, sent_on, spilled, left)}


@pytest.fixture(params=WAYS)
def way(request: Any) -> Callable[[Context], Context]:
    return WAYS[request.param]


def test_every_field_of_a_context_comes_back_as_it_was(way: Any) -> None:
    node = full()
    before = fields(node)
    assert all(before[name] not in (None, [], {}, "") for name in before if "places" not in name)
    assert fields(way(Context(node)).live(Own)) == before


@pytest.mark.parametrize("materialize", [(True, True), (True, False), (False, True), (False, False)])
def test_each_of_the_two_flags_for_undefined_gradients_comes_back_by_itself(materialize: Any, way: Any) -> None:
    node = full()
    node.materialize_grads, node._materialize_non_diff_grads = materialize
    back = way(Context(node)).live(Own)
    assert (back.materialize_grads, back._materialize_non_diff_grads) == materialize


def test_only_the_gradients_that_were_wanted_are_wanted_again(way: Any) -> None:
    node = full()
    node._inputs, node._edges = [((1,), np.dtype("float64"))] * 3, [UNWANTED, WANTED, (None, 1)]
    node.needs_input_grad = (True, True, False)  # what forward may say otherwise is kept as it is
    back = way(Context(node)).live(Own)
    assert fields(back)["edges"] == [False, True, False]
    assert back.needs_input_grad == (True, True, False)


def test_what_hooks_packed_comes_back_with_its_place_and_what_it_was(way: Any) -> None:
    meta, other, third = [((n,), np.dtype(name)) for n, name in ((1, "float64"), (2, "float32"), (3, "int64"))]
    node = full(Hooked)
    node.keep_slots(
        [
            packed_slot(VALUE, -1, "a name", third),
            packed_slot(OUTPUT, 2, [np.arange(2.0)], meta),
            None,
            packed_slot(INPUT, 3, tensor(5.0), other),
        ]
    )
    before = fields(node)
    back: Any = way(Context(node)).live(Hooked)
    assert fields(back) == before
    assert {one.value[1]._unpack for one in back._saved if one} == {Hooked._applied_under[1]}


def test_what_must_not_be_read_any_more_is_refused_with_the_same_words(way: Any) -> None:
    node = full().freed(UnreadableSlots("read by somebody else"))
    back = way(Context(node)).live(Own)
    with pytest.raises(RuntimeError, match="read by somebody else"):
        back.saved_tensors[0]
    assert back.number == 3


def test_what_backward_freed_is_freed_wherever_it_comes_back(way: Any) -> None:
    back = way(Context(full().freed())).live(Own)
    assert not back.readable
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        back.saved_tensors[0]


def test_what_can_be_read_once_can_be_read_once_wherever_it_comes_back(way: Any) -> None:
    node: Any = ReadOnce._backward_cls()
    node.keep_slots([slot(VALUE, -1, tensor(4.0))])
    back = way(Context(node)).live(ReadOnce)
    assert [one.tolist() for one in back.saved_tensors] == [[4.0]]
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        back.saved_tensors[0]


def on_devices() -> Any:
    """Return a context whose values are on two devices, and on the host."""
    node = full(Hooked)
    first, second = (tensor(float(number)).to(f"cuda:{number}") for number in (0, 1))
    kept = packed_slot(VALUE, -1, first + 30.0, ((1,), np.dtype("float64")))
    node.keep_slots([slot(INPUT, 0), slot(VALUE, -1, first + 10.0), kept, slot(VALUE, -1, second + 20.0)])
    node.held, node.many = first + 40.0, (second + 50.0, first + 60.0, tensor(70.0))
    node.wants = (second + 80.0).requires_grad_()
    node.metadata["there"] = {"b": (first + 90.0)}
    node._input_places = [rg.device("cuda:1"), None, rg.device("cuda:0"), rg.device("cpu")]
    node._places = [rg.device("cuda:0"), rg.device("cuda:0"), rg.device("cuda:1")]
    return node


def test_every_field_of_a_context_of_devices_comes_back_on_them(way: Any) -> None:
    with use_stand_in(2):
        node = on_devices()
        before = fields(node)
        assert before["places of inputs"] == ["cuda:1", "None", "cuda:0", "cpu"]
        assert fields(way(Context(node)).live(Hooked)) == before


def test_all_that_was_on_devices_settles_there() -> None:
    with use_stand_in(2):
        context = apart(Context(on_devices()))
        context.settle()
        data = [part for part in context.parts() if hasattr(part, "dtype")]
        places = [str(device_of(part)) if is_device_array(part) else "cpu" for part in data]
        assert sorted(places) == ["cpu"] * 4 + ["cuda:0"] * 5 + ["cuda:1"] * 3


@pytest.mark.parametrize("array", [np.array(["a", "bc"]), np.array([1, "a"], dtype=object)])
def test_an_array_of_no_numbers_comes_back(array: Any, way: Any) -> None:
    node = full()
    node.array = array
    back = way(Context(node)).live(Own).array
    assert (back.dtype, back.tolist()) == (array.dtype, array.tolist())


def test_one_object_in_two_places_of_an_attribute_stays_one(way: Any) -> None:
    node, one = full(), tensor(1.0)
    node.both = [one, {"again": one}, np.arange(2.0)]
    node.both.append(node.both[2])
    back: Any = way(Context(node)).live(Own)
    assert back.both[0] is back.both[1]["again"]
    assert back.both[2] is back.both[3]


def test_a_context_for_other_code_is_rebuilt_for_it() -> None:
    """Two that are packed once are rebuilt once for each class."""
    nodes: list[Any] = [bare() for _ in range(3)]
    contexts: Any = unpack_all(WorkerHost("w").pack([Context(node) for node in nodes]))
    lives = [contexts[0].live(Own), contexts[1].live(Own), contexts[2].live(Another)]
    assert [type(live)._function for live in lives] == [Own, Own, Another]
    assert fields(lives[2]) == fields(lives[1]) == fields(lives[0])
    assert len({id(live) for live in lives}) == 3


# ---- which contexts are packed once for several ----------------------------------------------------------------------


def bare(cls: Any = Own) -> Any:
    """Return a context that holds no data of its own."""
    node = cls._backward_cls()
    node.keep_slots([slot(INPUT, 1), None, slot(OUTPUT, 0)])
    node.needs_input_grad, node._edges, node._references = (True, False), [WANTED, UNWANTED], {}
    node._inputs = [((2,), np.dtype("float32")), ((3,), np.dtype("float32"))]
    node._metas = [((4,), np.dtype("float64")), ((), np.dtype("int64"))]
    node._pre_hooks = node._post_hooks = node._notes = None
    return node


DIFFERENCES: dict[str, Any] = {
    "_saved": [slot(INPUT, 1), None, slot(OUTPUT, 1)],
    "_slots": [slot(INPUT, 1), slot(INPUT, 1), slot(OUTPUT, 0)],
    "needs_input_grad": (True, True),
    "_edges": [WANTED, WANTED],
    "_inputs": [((2,), np.dtype("float32")), ((3,), np.dtype("float64"))],
    "_metas": [((4,), np.dtype("float64")), ((1,), np.dtype("int64"))],
    "materialize_grads": False,
    "_materialize_non_diff_grads": False,
    "_barren": frozenset({1}),
    "_input_places": [rg.device("cpu"), None],
    "_places": [rg.device("cpu"), rg.device("cuda:0")],
    "_references": {"given": (INPUT, 0)},
    "_notes": {"note": 1},
    "_pre_hooks": HookDict([(0, saying("before", 1))]),
    "_post_hooks": HookDict([(0, saying("after", 1))]),
    "attribute": 3,
}


def unpacked(contexts: list[Context]) -> list[Context]:
    values: Any = unpack_all(WorkerHost("w").pack(list(contexts)))
    return values


def told_fields(context: Context) -> dict[str, Any]:
    return fields(context.live(Own))


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_context_that_differs_in_one_field_keeps_it_beside_one_that_is_like_it_otherwise(name: str) -> None:
    other = bare()
    setattr(other, name, DIFFERENCES[name])
    assert fields(other) != fields(bare())
    expected = [fields(one) for one in (bare(), other, bare(), other)]
    got = unpacked([Context(bare()), Context(other), Context(bare()), Context(other)])
    assert [told_fields(one) for one in got] == expected


# ---- what is told of contexts ----------------------------------------------------------------------------------------


def test_a_context_is_bare_if_it_holds_nothing_but_references() -> None:
    node = bare()
    assert is_bare(node)
    node.given, node._references = tensor(1.0), {"given": (INPUT, 0)}
    assert is_bare(node)
    for name, value in (("own", 1), ("_notes", {"a": 1}), ("_saved", [slot(VALUE, -1, tensor(1.0))])):
        other = bare()
        setattr(other, name, value)
        assert not is_bare(other)
    assert is_bare(bare().freed())


@pytest.mark.parametrize("name", ["_given", "_lent"])
def test_a_context_that_holds_tensors_of_its_call_stays_live(name: str) -> None:
    node = full()
    setattr(node, name, {0: tensor(1.0)})
    assert bound_to(node) == LIVE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_notes", {"note": 1}),
        ("_pre_hooks", HookDict([(0, saying("before", 1))])),
        ("_post_hooks", HookDict([(0, saying("after", 1))])),
        ("_saved", [packed_slot(VALUE, -1, {"kept": object()}, ((1,), np.dtype("float64")))]),
        ("attribute", [object()]),
    ],
)
def test_a_context_of_a_device_stays_live_if_it_may_hold_more_than_is_seen(name: str, value: Any) -> None:
    node: Any = bare(Hooked)
    node._input_places = [rg.device("cuda:0"), None]
    assert bound_to(node) == STAYS
    setattr(node, name, value)
    assert bound_to(node) == LIVE


@pytest.mark.parametrize("name", ["_input_places", "_places"])
def test_what_a_context_may_hide_is_looked_for_where_its_inputs_and_outputs_are(name: str) -> None:
    node = bare()
    node.code = lambda: 0
    setattr(node, name, [rg.device("cuda:1")])
    context = Context(node)
    assert [context.hides(place) for place in ("", "cuda:0", "cuda:1")] == [True, False, True]
    node.code = 0
    assert not context.hides("cuda:1")


def test_the_parts_of_a_context_are_what_it_alone_holds() -> None:
    node = full(Hooked)
    kept, checked = tensor(50.0), packed_slot(INPUT, 1, tensor(60.0), ((1,), np.dtype("float64")))
    checked.value[1]._counter = [0, 0]
    packed = packed_slot(INPUT, 0, kept, ((1,), np.dtype("float64")))
    node._saved = [slot(INPUT, 2, tensor(80.0)), slot(OUTPUT, 0, tensor(81.0)), *node._saved[3:4], packed, checked]
    found = [part.ravel()[0] for part in Context(node).parts() if isinstance(part, np.ndarray)]
    assert 50.0 in found
    assert not {60.0, 80.0, 81.0, 91.0, 92.0} & set(found), "an input, an output, or one that a hook returned as it was"
    assert sorted(found) == sorted([1.0, 50.0, 0.0, 0.0, 5.0, 6.0, 0.0])


def test_large_inputs_and_outputs_are_let_go_of_and_are_still_references() -> None:
    size = LARGE // 8
    for kind, other in ((INPUT, OUTPUT), (OUTPUT, INPUT)):
        large = rg.zeros(size, dtype=rg.float64)
        node = bare()
        held = slot(kind, 1, large if kind is INPUT else large._data)
        small = slot(other, 0, tensor(1.0) if other is INPUT else tensor(1.0)._data)
        node._saved = [held, None, small, slot(VALUE, -1, tensor(3.0))]
        node.given, node._references, node.number = large, {"given": (kind, 1)}, 4
        assert Context(node).let_go_of_large()
        assert [None if one is None else (one.kind, one.position, one.value is None) for one in node._saved] == [
            (kind, 1, True),
            None,
            (other, 0, True),
            (VALUE, -1, False),
        ]
        assert node._attributes() == {"number": 4}
        assert node.references() == {"given": (kind, 1)}


def test_small_inputs_and_outputs_are_held_as_they_are() -> None:
    node = bare()
    node._saved = saved = [slot(INPUT, 0, rg.zeros(LARGE // 8 - 1, dtype=rg.float64)), slot(OUTPUT, 0, np.zeros(3))]
    assert not Context(node).let_go_of_large()
    assert node._saved is saved
    assert not Context(node.freed()).let_go_of_large()


def test_arguments_that_stand_for_themselves_are_let_go_of_by_their_size() -> None:
    for size, large in ((LARGE // 8 - 1, False), (LARGE // 8, True)):
        node = bare()
        node._kept = (tensor(1.0), rg.zeros(size, dtype=rg.float64))
        assert Context(node).let_go_of_large() is large


@pytest.mark.parametrize(
    ("value", "kind"),
    [(3, 1), ("a", 1), ((1, 2), 1), (frozen(np.ones(1)), 1), (np.ones(1), WRITABLE), ([], WRITABLE)],
)
def test_what_backward_may_write_to_is_told_from_constants(value: Any, kind: int) -> None:
    node = bare()
    assert attributes_of(node) == 0
    node.held = value
    assert attributes_of(node) == kind


def test_what_backward_sets_or_deletes_is_a_change_and_what_it_frees_is_none() -> None:
    node = full()
    before = dict(node.__dict__)
    node._saved = None
    assert not has_changed(before, node)
    del node.number
    assert has_changed(before, node)
    node.number, node.more = before["number"], 1
    assert has_changed(before, node)


def test_what_the_client_sets_is_a_tensor_where_it_was_one() -> None:
    node = full()
    copy: Any = with_attributes(node, [("given", 1), ("number", 0)], [np.ones(2), 8])
    assert (type(copy.given), copy.given.tolist(), copy.number) == (rg.Tensor, [1.0, 1.0], 8)
    assert copy._references == {"made": (OUTPUT, 2)}
    assert node.number == 3
