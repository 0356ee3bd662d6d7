"""What a context consists of, taken apart and put together again, on a device and off it."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import device_of, is_device_array
from raygrad.autograd.functions.context_state import WANTED
from raygrad.autograd.functions.function import run_forward
from raygrad.errors import NotShippable
from raygrad.workers.values.context_codec import (
    is_opaque,
    pack_attribute,
    pack_attributes,
    placed,
    unpack_attribute,
    unpack_attributes,
    unplaced,
)
from raygrad.workers.values.contexts import Context


class Keeps(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x + 1.0)
        ctx.one, ctx.many, ctx.table = x + 2.0, [x + 3.0], np.ones(2)
        ctx.metadata["note"] = (x + 4.0).read()
        return x * 2.0


def context_on(place: str) -> Any:
    node, _ = run_forward(Keeps, (rg.ones(3, dtype=rg.float64, device=place),), True, [WANTED])
    return node


@pytest.mark.parametrize("value", [3, "a", None, np.arange(3.0), [1, {"a": 2}], rg.ones(2)])
def test_an_attribute_comes_back_as_it_was(value: Any) -> None:
    back = unpack_attribute(pack_attribute(context_on("cpu"), "a", value, False))
    assert type(back) is type(value)
    assert np.array_equal(back, value) if isinstance(value, np.ndarray | rg.Tensor) else back == value


def test_what_does_not_go_is_named() -> None:
    with pytest.raises(NotShippable, match=r"'ctx\.a' of KeepsBackward is a lock"):
        pack_attribute(context_on("cpu"), "a", threading.Lock(), False)
    with use_stand_in(1), pytest.raises(NotShippable, match=r"'ctx\.a' of KeepsBackward is on cuda:0"):
        pack_attribute(context_on("cpu"), "a", rg.ones(1, device="cuda"), False)


def devices_in(packed: Any) -> list[str]:
    """Where the arrays of a packed context are, saved ones, attributes and notes."""
    context = Context(packed=packed)
    return sorted(
        [str(device_of(part)) if is_device_array(part) else "cpu" for part in context.parts() if _is_data(part)]
    )


def _is_data(part: Any) -> bool:
    return isinstance(part, np.ndarray) or is_device_array(part)


def test_what_came_from_a_device_goes_there_and_travels_again() -> None:
    with use_stand_in(1) as device:
        packed = Context(context_on("cuda:0")).packed(asked=True)
        assert devices_in(packed) == ["cpu"] * 5
        device.forget_transfers()
        there = placed(packed)
        assert devices_in(there) == ["cpu"] + ["cuda:0"] * 4
        assert device.transfers.to_device == 4
        assert devices_in(unplaced(there)) == ["cpu"] * 5
        node: Any = Context(packed=placed(there)).live(Keeps)
        assert device.transfers.to_device == 4, "what is there is not moved again"
        assert node.one.tolist() == [3.0] * 3
        assert node.many[0].tolist() == [4.0] * 3
        assert node.metadata["note"].tolist() == [5.0] * 3
        assert node._saved[1].value.tolist() == [2.0] * 3


def test_what_may_hold_more_than_is_seen_is_told() -> None:
    seen = [3, "a", None, rg.ones(1), np.ones(2), rg.float32, rg.device("cpu"), {"a": [1, (2.0, np.ones(1))]}]
    assert not is_opaque(seen)
    assert all(map(is_opaque, (threading.Lock(), [lambda: 0], {"a": object()}, np.array([None]))))


def test_attributes_that_hold_one_object_hold_one_when_they_are_back() -> None:
    held = [1]
    given = {"a": held, "n": 3, "b": {"held": held}, "c": [2], "d": held}
    back = unpack_attributes(pickle.loads(pickle.dumps(pack_attributes(context_on("cpu"), given, False))))
    assert back == given
    assert back["a"] is back["b"]["held"] is back["d"]
