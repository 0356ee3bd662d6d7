"""Objects: what a list of values is across processes, and when contexts share what they are packed as."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.functions.context_state import WANTED
from raygrad.autograd.functions.function import run_forward
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.contexts import Context
from raygrad.workers.values.packed_values import POISON, coming, unpack_all


@pytest.fixture
def host() -> WorkerHost:
    return WorkerHost("worker 7")


class Keeps(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, own: Any) -> Any:
        ctx.save_for_backward(x, x * own if own else None)
        if own > 1:
            ctx.own = own
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


def context_of(shape: tuple[int, ...], own: float = 0.0) -> Context:
    """Return the context of an application of `Keeps`."""
    x: Any = rg.tensor(np.ones(shape), requires_grad=True)
    return Context(run_forward(Keeps, (x, own), True, (WANTED, None))[0])


def test_poison_keeps_its_identity_across_pickling() -> None:
    assert pickle.loads(pickle.dumps(POISON)) is POISON


def test_packed_objects_keep_values_undefined_gradients_and_objects(host: WorkerHost) -> None:
    values: list[Any] = [np.arange(6.0).reshape(2, 3).T, None, {"a": (1, "b")}, (1, 2)]
    array, undefined, table, pair = unpack_all(host.pack(values))  # type: ignore[misc]
    assert array.strides == values[0].strides
    assert not array.flags.writeable
    assert undefined is None
    assert table == {"a": (1, "b")}
    assert pair == (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    """A string of a class of its own."""


def test_packed_objects_keep_the_classes_of_numbers_and_strings(host: WorkerHost) -> None:
    values: list[Any] = [Level.LOW, Name("x"), np.float64(0.5), True, 3, 0.5, "y"]
    opened: Any = unpack_all(host.pack(list(values)))
    assert opened == values
    assert [type(value) for value in opened] == [Level, Name, np.float64, bool, int, float, str]


def test_contexts_without_data_are_packed_once_and_stay_apart(host: WorkerHost) -> None:
    contexts = [context_of((2,)) for _ in range(20)]
    alone: Any = host.pack(contexts[:1])
    packed: Any = host.pack([*contexts, np.ones(3), context_of((5,)), context_of((2,))])
    assert packed.nbytes < 5 * alone.nbytes
    opened: Any = unpack_all(packed)
    nodes: list[Any] = [context.live(Keeps) for context in opened if isinstance(context, Context)]
    assert len({id(node) for node in nodes}) == 22
    assert [node._inputs[0][0] for node in nodes] == [(2,)] * 20 + [(5,), (2,)]
    nodes[0].mark = 1
    assert "mark" not in nodes[1].__dict__
    assert nodes[1].needs_input_grad == (True, False)
    assert nodes[1]._saved == nodes[0]._saved
    onwards: Any = unpack_all(packed)
    again: Any = unpack_all(host.pack(onwards))
    rebuilt: list[Any] = [context.live(Keeps) for context in again if isinstance(context, Context)]
    assert [node._inputs[0][0] for node in rebuilt] == [(2,)] * 20 + [(5,), (2,)]


def test_contexts_with_data_are_packed_each(host: WorkerHost) -> None:
    opened: Any = unpack_all(host.pack([context_of((2,), own) for own in (1.0, 1.5, 2.0, 3.0)]))
    nodes = [context.live(Keeps) for context in opened]
    assert [node._saved[1].value.numpy().tolist() for node in nodes] == [[own] * 2 for own in (1.0, 1.5, 2.0, 3.0)]
    assert [node.__dict__.get("own") for node in nodes] == [None, 1.5, 2.0, 3.0]


def test_the_bytes_that_an_object_will_hold_are_told_by_memory(host: WorkerHost) -> None:
    with use_stand_in(1):
        packed: Any = host.pack([rg.tensor(np.zeros(1000)).cuda().read(), np.zeros(500)])
    sizes = coming(packed)
    assert sizes["cuda:0"] == 8000
    assert 4000 <= sizes["cpu"] < 4100
