"""Every place in which user code can hold a value, against everything that walks user code.

Each observer has a list of the shapes to which it is blind. A shape that leaves such a list is a gain, one that enters
it a loss; a new shape is seen by all observers, or stands in a list.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.compile.closure_guard import closure_guard
from raygrad.workers.code.code_cache_key import CodeCacheKey
from raygrad.workers.code.culprit import path_to_unpicklable
from raygrad.workers.code.effects import ADDS, gradient_effects
from raygrad.workers.code.nested_tensors import holds_tensors
from raygrad.workers.code.shipping import Shipment, open_shipment, opening_as_worker, ship

from .shapes import SHAPES

pytestmark = pytest.mark.filterwarnings("ignore:.*of (the client|your program):UserWarning")

TENSOR_SHAPES = [name for name in SHAPES if name != "code_object"]  # a constant of code is a number or a string
ARRAY_SHAPES = [name for name in TENSOR_SHAPES if name not in ("in_set", "dict_key")]  # which take no arrays
REPLACEABLE = [name for name in SHAPES if SHAPES[name](1).replace is not None]

UNSURE = frozenset(
    "in_deque in_dict_subclass cached partial_argument partial_keyword partial_function namespace".split()
)
"""Shapes that are told apart by their pickle alone."""

OPAQUE = frozenset(
    "in_deque in_dict_subclass cached partial_argument partial_keyword partial_function namespace".split()
)
"""Shapes that a code fingerprint does not look into: only the pickler finds what they capture."""

GUARD_BLIND: frozenset[str] = frozenset()
CLOSURE_BLIND: frozenset[str] = frozenset()
CLOSURE_TENSOR_BLIND: frozenset[str] = frozenset()
ARGUMENT_BLIND: frozenset[str] = frozenset()
EFFECTS_BLIND: frozenset[str] = frozenset()
CULPRITS = {
    "closure": "'content' (a lock)",
    "in_dict": "'container' ['key'] (a lock)",
    "in_list": "'container' [0] (a lock)",
    "in_tuple": "'container' [0] (a lock)",
    "in_set": "'container' [0] (a lock)",
    "in_deque": "'container' [0] (a lock)",
    "in_dict_subclass": "'container' ['key'] (a lock)",
    "dict_key": "'container' a key (a lock)",
    "default": "default of 'value' (a lock)",
    "keyword_default": "default of 'value' (a lock)",
    "function_attribute": "'function.note' (a lock)",
    "global_variable": "'VALUE' (a lock)",
    "global_of_inner_function": "'VALUE' (a lock)",
    "mutually_recursive_globals": "'even' 'VALUE' (a lock)",
    "recursive_function": "'content' (a lock)",
    "nested_function": "'inner' 'content' (a lock)",
    "wrapper": "'wrapped' 'content' (a lock)",
    "cached": "'_lru_cache_wrapper.__wrapped__' 'content' (a lock)",
    "partial_argument": "argument 0 (a lock)",
    "partial_keyword": "argument 'value' (a lock)",
    "partial_function": "'content' (a lock)",
    "callable_object": "'Attribute.value' (a lock)",
    "callable_object_with_slots": "'Slotted.value' (a lock)",
    "data_class": "'Record.value' (a lock)",
    "frozen_data_class": "'container' 'Frozen.value' (a lock)",
    "bound_method": "'self' 'Attribute.value' (a lock)",
    "namespace": "'container' 'SimpleNamespace.value' (a lock)",
    "instance_in_closure": "'container' 'Attribute.value' (a lock)",
    "class_attribute": "'Code.value' (a lock)",
    "class_in_closure": "'container' 'Code.value' (a lock)",
    "method_of_class": "'Code.method' 'content' (a lock)",
    "inherited_method": "'Base.method' 'content' (a lock)",
    "static_method": "'Code.method' 'content' (a lock)",
    "class_method": "'Code.method' 'content' (a lock)",
    "property_of_class": "'Code.value' 'content' (a lock)",
    "property_deleter": "'Code.value' 'content' (a lock)",
    "module_attribute": "'settings' 'module.value' (a lock)",
}
"""What a refusal names, of a lock in each place."""


def runs_backward(y: Any) -> None:
    y.backward()


def pickles(value: Any) -> bool:
    from raygrad.workers.code.pickling import _pickles

    return _pickles(value)


@pytest.mark.parametrize("name", SHAPES)
def test_a_fingerprint_is_that_of_the_content(name: str):
    make = SHAPES[name]
    assert ship(make(1).code).fingerprint == ship(make(1).code).fingerprint
    assert ship(make(1).code).fingerprint != ship(make(2).code).fingerprint
    one, two = CodeCacheKey(make(1).code), CodeCacheKey(make(2).code)
    assert one.sure == two.sure == (name not in UNSURE)
    assert one.key != two.key or not one.sure


@pytest.mark.parametrize("name", SHAPES)
def test_code_that_is_shipped_reads_the_content_where_it_is_opened(name: str):
    shape = SHAPES[name](7)
    shipped = ship(shape.code)
    with opening_as_worker():
        copy = open_shipment(Shipment.of(shipped.shipment.portable()), shipped.captured)
    assert copy is not shape.code
    assert shape.read(copy) == 7


@pytest.mark.parametrize("name", REPLACEABLE)
def test_the_guard_of_a_fingerprint_sees_a_replaced_content(name: str):
    shape = SHAPES[name](1)
    guard = CodeCacheKey(shape.code).guard
    assert shape.replace is not None
    assert guard.holds()
    shape.replace(2)
    assert guard.holds() == (name in GUARD_BLIND)


@pytest.mark.parametrize("name", REPLACEABLE)
def test_the_guard_of_a_compiled_function_sees_a_replaced_content(name: str):
    shape = SHAPES[name](1)
    guard = closure_guard([shape.code])
    assert shape.replace is not None
    assert guard.holds()
    shape.replace(2)
    assert guard.holds() == (name in CLOSURE_BLIND)


@pytest.mark.parametrize("name", ARRAY_SHAPES)
def test_the_guard_of_a_compiled_function_sees_a_write_to_an_array(name: str):
    array = np.ones(2)
    guard = closure_guard([SHAPES[name](array).code])
    assert guard.holds()
    array[0] = 5.0
    assert guard.holds() == (name in CLOSURE_TENSOR_BLIND)


@pytest.mark.parametrize("name", TENSOR_SHAPES)
def test_a_captured_tensor_is_found(name: str):
    tensor = rg.zeros(2)
    code = SHAPES[name](tensor).code
    assert [one is tensor for one in ship(code).captured] == [True]
    assert [one is tensor for one in closure_guard([code]).tensors] == [True] * (name not in CLOSURE_TENSOR_BLIND)
    seen = name not in OPAQUE
    assert [one is tensor for one in CodeCacheKey(code).captured] == [True] * seen
    assert holds_tensors(code) == (name not in ARGUMENT_BLIND)


@pytest.mark.parametrize("name", ARRAY_SHAPES)
def test_a_captured_array_is_taken_out(name: str):
    array = np.ones(2)
    assert [one is array for one in ship(SHAPES[name](array).code).captured] == [True]


@pytest.mark.parametrize("name", TENSOR_SHAPES)
def test_code_that_runs_a_backward_is_told_by_what_it_holds(name: str):
    assert gradient_effects(SHAPES[name](runs_backward).code) == (0 if name in EFFECTS_BLIND else ADDS)


@pytest.mark.parametrize("name", CULPRITS)
def test_what_cannot_be_pickled_is_named_by_its_path(name: str):
    assert path_to_unpicklable(SHAPES[name](threading.Lock()).code, pickles) == CULPRITS[name]


def test_every_shape_that_can_hold_a_lock_has_a_path():
    assert set(CULPRITS) == set(TENSOR_SHAPES)


def test_a_warning_of_mutable_containers_names_the_variable():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for name in ("in_dict", "in_list", "in_set", "in_deque", "in_dict_subclass"):
            ship(SHAPES[name]("not shipped before").code)
    assert ["captures 'container', a mutable object" in str(one.message) for one in found] == [True] * 5
