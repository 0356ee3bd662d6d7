"""Functions inside vmap (VM-01 to VM-11): the contract's programs hold the behaviours; here, what is raygrad's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


class OnArrays(rg.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return rg.tensor(np.exp(x.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


def test_a_function_of_arrays_is_applied_to_no_examples_too():  # VM-10
    assert rg.vmap(OnArrays.apply)(rg.zeros(0, 3)).shape == (0, 3)
    np.testing.assert_allclose(rg.vmap(OnArrays.apply)(rg.zeros(2, 3)).numpy(), np.ones((2, 3)))


def test_a_level_at_which_nothing_is_batched_is_skipped():  # VM-07
    c = rg.ones(3)
    out = rg.vmap(lambda x: OnArrays.apply(c) + x)(rg.zeros(2, 3))
    np.testing.assert_allclose(out.numpy(), np.full((2, 3), np.e), rtol=1e-6)


def test_the_combined_style_is_refused_inside_vmap_only():  # VM-01
    class Combined(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(RuntimeError, match="setup_context"):
        rg.vmap(Combined.apply)(rg.ones(2))
    assert Combined.apply(rg.ones(2)).tolist() == [2, 2]


def test_a_vmap_rule_may_count_the_dimension_of_its_examples_from_the_end():  # VM-04
    class Doubled(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return x.movedim(in_dims[0], -1) * 2, -1

    x = rg.arange(6.0).reshape(2, 3)
    shapes: list[Any] = []

    def inside(row: Any) -> Any:
        out = Doubled.apply(row)
        shapes.append(out.shape)
        return out + row

    assert rg.vmap(inside)(x).tolist() == [[0, 3, 6], [9, 12, 15]]
    assert shapes == [(3,)]
