"""Ops along dimensions, also of examples that have none."""

from __future__ import annotations

import pytest

import raygrad as rg

from .agree import agree, values

REDUCTIONS = "sum mean prod std logsumexp norm amax amin all any argmax argmin"


def over(name: str):
    options = {"logsumexp": {"dim": -1}, "norm": {}}.get(name, {})
    return lambda x: getattr(rg, name)(x, **options)


@pytest.mark.parametrize("name", REDUCTIONS.split())
@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 2, 4)])
@pytest.mark.filterwarnings("ignore")
def test_all_of_an_example_is_not_all_of_the_batch(name: str, shape: tuple[int, ...]):
    if name == "std" and shape == (3,):
        return  # of one element there is none
    agree(over(name), values(*shape))


@pytest.mark.parametrize("keepdim", [False, True])
def test_dimensions_are_those_of_an_example(keepdim: bool):
    agree(lambda x: x.sum(0, keepdim), values(3, 2, 4))
    agree(lambda x: x.prod(-1, keepdim), values(3, 2, 4))
    agree(lambda x: tuple(x.max(1, keepdim)), values(3, 2, 4))
    agree(lambda x: x.argmin(0, keepdim), values(3, 2, 4))


def test_along_a_dimension():
    agree(lambda x: (x.cumsum(0), x.softmax(-1), x.log_softmax(0), *x.sort(0), *x.topk(2, 1)), values(3, 2, 4))
    agree(lambda x: (x.cumsum(0), x.softmax(0), x.argsort(0), *x.max(0)), values(3))
