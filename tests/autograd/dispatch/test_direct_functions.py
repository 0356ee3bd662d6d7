"""Functions made from an op are functions like others: by name, signature, docstring and pickle."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.dispatch.direct_functions import binary_function, unary_function
from raygrad.autograd.ops.elementwise import arithmetic, unary
from raygrad.autograd.registry.registry import get_op


@pytest.mark.parametrize(
    ("function", "module", "parameters"),
    [(unary.exp, unary, ["input"]), (arithmetic.hypot, arithmetic, ["input", "other"])],
)
def test_it_is_found_by_its_name_where_it_was_made(function, module, parameters):
    assert function.__module__ == module.__name__
    assert function.__qualname__ == function.__name__ == function.__code__.co_name
    assert getattr(module, function.__name__) is function
    assert list(inspect.signature(function).parameters) == parameters
    assert function.__doc__.startswith("Return ")
    assert pickle.loads(pickle.dumps(function)) is function


def test_it_applies_its_op_to_tensors_and_arrays():
    double = binary_function(get_op("add"), __name__, "Return the sum.")
    assert (double.__name__, double.__module__, double.__doc__) == ("add", __name__, "Return the sum.")
    x = rg.tensor(3.0, requires_grad=True)
    double(x, x).backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0
    negated = unary_function(get_op("neg"), __name__, "Return the negative.")(np.array([1.0]))
    assert type(negated) is np.ndarray
    assert negated.tolist() == [-1.0]
