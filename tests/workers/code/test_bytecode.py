from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from raygrad.workers.code import bytecode
from raygrad.workers.code.bytecode import OUT, contents_changed, names_in, stores_attribute, writes_items

RATE = 0.5


def reads(first: Any, second: Any = 1, *, third: Any = 2) -> Any:
    return first, second, third


def test_globals_of_inner_functions_belong_to_the_code(monkeypatch: Any):
    def outer() -> Any:
        def inner() -> Any:
            return RATE

        return inner

    assert names_in(outer.__code__).globals == ("RATE",)
    monkeypatch.setattr(bytecode, "CODES_KEPT", 0)
    assert names_in(reads.__code__).globals == ()


def test_names_are_those_of_arguments_and_of_variables_of_enclosing_functions():
    kept = 1

    def code(a: Any, b: Any = 2, *, c: Any = 3) -> Any:
        return a, b, c, kept

    assert names_in(code.__code__)[1:4] == (("a", "b"), ("kept",), ())


def test_all_names_are_in_the_order_of_the_code_inner_functions_last():
    def code(value: Any) -> Any:
        return (lambda: value.last), value.first, RATE

    assert names_in(code.__code__).all == ("first", "RATE", "last")


def test_a_module_that_a_call_imports_is_known_by_a_constant_name() -> None:
    name = "a.c"

    def constant() -> Any:
        from importlib import import_module

        return importlib.import_module("a.b"), lambda: import_module("c")

    def computed() -> Any:
        return importlib.import_module(name)

    def relative() -> Any:
        return importlib.import_module(".b", "a")

    def renamed() -> Any:
        from importlib import import_module as load

        return load(name)

    def returned() -> Any:
        return importlib.import_module

    assert names_in(constant.__code__).imports_by_call == ("a.b", "c")
    for unnamed in (computed, relative, renamed, returned):
        assert names_in(unnamed.__code__).imports_by_call == ("",), unnamed


def test_stores_to_attributes_and_items_are_told_apart():
    def attribute(value: Any) -> None:
        value.grad = None

    def item(value: Any) -> None:
        value[0] = None

    assert stores_attribute(attribute.__code__, "grad")
    assert not stores_attribute(attribute.__code__, "data")
    assert not stores_attribute(item.__code__, "grad")
    assert writes_items(item.__code__)
    assert not writes_items(attribute.__code__)


def test_what_a_call_is_given_to_write_to_is_changed() -> None:
    def last(x: Any) -> None:
        np.multiply(x, 2.0, out=buffer)

    def not_last(x: Any) -> None:
        np.multiply(x, 2.0, out=buffer.part, where=True)

    def read(x: Any) -> Any:
        return np.multiply(buffer, buffer[0], out=x)

    buffer: Any = np.zeros(2)
    assert list(contents_changed(last.__code__, "buffer")) == [((), OUT)]
    assert list(contents_changed(not_last.__code__, "buffer")) == [(("part",), OUT)]
    assert list(contents_changed(read.__code__, "buffer")) == []
