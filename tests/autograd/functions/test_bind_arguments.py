"""How arguments meet the signature of forward; what comes of it is in test_function (FN-04, FN-05)."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.autograd.functions.bind_arguments import bind


class Combined(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale=2.0, *, label=""):
        return x * scale


class Separate(rg.autograd.Function):
    @staticmethod
    def forward(x, scale=2.0, shift=1.0):
        return x * scale + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


def test_fn_04_an_omitted_argument_is_none_in_the_combined_style():
    assert bind(Combined, (1,), {}) == ((1,), {})


def test_fn_04_defaults_are_filled_in_in_the_separate_style():
    assert bind(Separate, (1,), {}) == ((1, 2.0, 1.0), {})


def test_fn_05_keywords_move_to_their_slots():
    assert bind(Separate, (1,), {"shift": 3}) == ((1, 2.0, 3), {})
    assert bind(Combined, (), {"scale": 3, "x": 1}) == ((1, 3), {})


def test_fn_05_keyword_only_arguments_stay_named():
    assert bind(Combined, (1,), {"label": "a"}) == ((1,), {"label": "a"})


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [((1,), {"x": 2}, "multiple values"), ((1,), {"y": 2}, "unexpected keyword argument"), ((), {}, "missing")],
)
def test_fn_05_what_does_not_fit_is_a_type_error(args, kwargs, what):
    with pytest.raises(TypeError, match=what):
        bind(Separate, args, kwargs)


def test_fn_05_a_keyword_only_tensor_is_refused():
    with pytest.raises(TypeError, match="keyword-only argument 'label' is a tensor"):
        bind(Combined, (1,), {"label": rg.ones(1)})
