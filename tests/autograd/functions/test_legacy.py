"""Old names (LG-04, LG-13)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import variable
from raygrad.autograd.function import InplaceFunction
from raygrad.autograd.functions import function


class Scale(InplaceFunction):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        assert not hasattr(ctx, "inplace")
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_lg_04_the_flag_is_stored_on_instances_only() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Scale().inplace is False
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Scale(True).inplace is True
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Scale(inplace=True).inplace is True
    x: Any = rg.ones(2, requires_grad=True)
    Scale.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_lg_13_the_tensor_type_has_its_old_name_and_the_factory_points_to_the_new_one() -> None:
    assert rg.autograd.Variable is rg.Tensor
    with pytest.raises(RuntimeError, match=r"raygrad\.tensor"):
        variable([1.0])


def test_other_names_of_the_module_are_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'OutplaceFunction'"):
        function.OutplaceFunction  # type: ignore[attr-defined]  # noqa: B018
