"""What users register for built-in ops goes to workers with the code that runs there (AC-15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import AutogradConfig, Function, register_autograd, register_kernel
from raygrad.autograd.registry.registry import customised, get_op
from raygrad.workers.code import op_registry_sync
from raygrad.workers.code.op_registry_sync import use_registrations, with_registrations
from raygrad.workers.code.shipping import Shipment, ship


class Uses(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.asinh(x)


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    for op in customised():  # what other tests of this process registered
        op.remove_user_entries()
    yield
    use_registrations(b"")
    get_op("asinh").remove_user_entries()
    op_registry_sync._used = b""


def double() -> None:
    register_kernel("asinh", dtype="float16")(lambda a: a * 2)
    config = AutogradConfig(op="asinh", device="*", dtype="float16", backward=lambda ctx, g: g * 2, saves="none")
    register_autograd(config)


def half(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float16, requires_grad=True)


def test_without_registrations_code_is_sent_as_it_is() -> None:
    shipped = ship(Uses)
    assert with_registrations(shipped) is shipped


def test_code_is_sent_with_them_under_a_name_of_its_own() -> None:
    plain = ship(Uses)
    double()
    first = with_registrations(ship(Uses))
    assert first.fingerprint != plain.fingerprint
    assert with_registrations(ship(Uses)).fingerprint == first.fingerprint
    again = Shipment.of(first.shipment.portable())
    assert again == first.shipment
    register_kernel("asinh", dtype="float16", replace=True)(lambda a: a * 3)
    assert with_registrations(ship(Uses)).fingerprint != first.fingerprint


def test_where_they_come_from_they_change_nothing() -> None:
    double()
    use_registrations(op_registry_sync.pack_registrations())
    assert get_op("asinh") in customised()
    assert rg.asinh(half(3)).tolist() == [6]


def test_elsewhere_they_are_used_and_taken_back(monkeypatch: Any) -> None:
    double()
    packed = op_registry_sync.pack_registrations()
    get_op("asinh").remove_user_entries()
    monkeypatch.setattr(op_registry_sync, "_PROCESS", "another")
    monkeypatch.setattr(op_registry_sync, "_packed", ((), b""))
    use_registrations(packed)
    x = half(3)
    y = rg.asinh(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([6], [2])
    use_registrations(b"")
    assert rg.asinh(half(0)).tolist() == [0]
    assert customised() == []


def test_raygrads_own_rules_go_on_using_its_own_kernels() -> None:
    from raygrad.autograd.dispatch.dispatch import call

    double()
    assert call(get_op("asinh"), (np.zeros(1, np.float16),)).tolist() == [0]
    assert call(get_op("asinh"), (np.full(1, 3, np.float16),)).tolist() != [6]
