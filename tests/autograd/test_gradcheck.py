"""gradcheck and gradgradcheck: what they are called, what they say, and that they leave no trace (GC, PP-20)."""

from __future__ import annotations

import importlib
import inspect
import pickle

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import gradcheck, gradgradcheck
from raygrad.errors import GradcheckError


class Squares(rg.autograd.Function):
    """x * x, y * y, with a scale on the gradient of the first."""

    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * x, y * y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * x * 2 * ctx.scale, h * y * 2, None


@pytest.fixture
def pair():
    return (
        rg.tensor(np.array([0.5, -1.0]), requires_grad=True),
        rg.tensor(np.array([[2.0], [0.7]]), requires_grad=True),
    )


def test_names_are_those_of_torch():
    module = importlib.import_module("raygrad.autograd.gradcheck")
    assert module.gradcheck is rg.autograd.gradcheck
    assert module.GradcheckError is GradcheckError
    assert issubclass(GradcheckError, RuntimeError)


@pytest.mark.oracle
def test_parameters_are_those_of_torch():
    torch = pytest.importorskip("torch")
    for name in ("gradcheck", "gradgradcheck"):
        ours, theirs = (inspect.signature(getattr(T.autograd, name)).parameters for T in (rg, torch))
        assert list(ours) == list(theirs)
        for parameter, other in zip(ours.values(), theirs.values(), strict=True):
            assert (parameter.kind, parameter.default) == (other.kind, other.default), parameter


def test_failure_names_the_first_entry_that_is_wrong_and_what_would_be_right(pair):
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x, y: Squares.apply(x, y, 0.5), pair)
    assert caught.value.kind == "formula"
    text = str(caught.value)
    assert "Jacobian mismatch for output 0 with respect to input 0" in text
    assert "in 2 of 4 entries; the first is d output[0] / d input[0]: numerical 1, analytical 0.5" in text
    assert "multiplied by 2, would be right" in text


def test_failure_says_which_check_failed(pair):
    class Forgets(Squares):
        @staticmethod
        def backward(ctx, g, h):
            if g is None or h is None:
                raise TypeError("a gradient is missing")
            return Squares.backward(ctx, g, h)

        @staticmethod
        def forward(ctx, x, y, scale):
            ctx.set_materialize_grads(False)
            return Squares.forward(ctx, x, y, scale)

    with pytest.raises(GradcheckError, match="undefined output grads: where the gradient of output 1 is") as caught:
        gradcheck(lambda x, y: Forgets.apply(x, y, 1.0), pair)
    assert caught.value.kind == "undefined gradients"
    with pytest.raises(TypeError, match="a gradient is missing"):
        gradcheck(lambda x, y: Forgets.apply(x, y, 1.0), pair, check_undefined_grad=False)


def test_single_precision_is_named_as_the_cause():
    x = rg.tensor(np.array([0.5], np.float32), requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"),
        pytest.raises(GradcheckError, match="the input is float32, whose differences are too coarse"),
    ):
        gradcheck(rg.exp, x)


def test_error_survives_pickling():
    error = pickle.loads(pickle.dumps(GradcheckError("what is wrong", "formula")))
    assert (str(error), error.kind) == ("what is wrong", "formula")


def test_a_check_leaves_inputs_gradients_and_random_numbers_as_they_were(pair):
    rg.manual_seed(3)
    expected = rg.rand(2).tolist()
    rg.manual_seed(3)
    before = [t.tolist() for t in pair]
    with pytest.raises(GradcheckError):
        gradcheck(lambda x, y: Squares.apply(x, y, 0.5), pair)
    assert gradgradcheck(lambda x, y: Squares.apply(x, y, 1.0), pair)
    assert [t.tolist() for t in pair] == before
    assert [t.grad for t in pair] == [None, None]
    assert [t._version for t in pair] == [0, 0]
    assert rg.rand(2).tolist() == expected


def test_inputs_that_are_no_leaves_are_moved_too(pair):
    x, y = pair
    assert gradcheck(lambda a, b: a * b, (x * 2, y.sin()))


def test_checks_run_in_a_session_and_there_name_the_same_entry(pair):
    def failure() -> str:
        with pytest.raises(GradcheckError) as caught:
            gradcheck(lambda x, y: Squares.apply(x, y, 0.5), pair)
        return str(caught.value)

    eagerly = failure()
    for strict in (False, True):
        with rg.Session(strict=strict):
            assert gradcheck(lambda x, y: Squares.apply(x, y, 1.0), pair)
            assert gradgradcheck(lambda x, y: Squares.apply(x, y, 1.0), pair, fast_mode=True)
            assert failure() == eagerly
