"""Each op over a batch agrees with the op on one example after the other, for every case of the catalogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.vmap.vmap import vmap

from ..ops.cases import FAMILIES
from ..ops.check import Case, array_of, outputs_of
from .agree import leaf

SIZE = 3

CASES = [case for cases in FAMILIES.values() for case in cases]


def examples(array: np.ndarray, number: int) -> np.ndarray:
    """An example of its own kind: floats scaled a little, so that they stay in the op's domain; others as they are."""
    if array.dtype.kind in "fc":
        return array * (1 - 0.03 * number)
    return np.roll(array, number) if array.size > 1 and array.dtype.kind == "b" else array


def together(case: Case, dims: tuple[int | None, ...]) -> tuple[list[Any], list[list[Any]]]:
    """The arguments of the batch, and those of each example."""
    whole: list[Any] = []
    single: list[list[Any]] = [[] for _ in range(SIZE)]
    for array, dim in zip(case.inputs, dims, strict=True):
        if dim is None:
            shared = rg.tensor(array)
            whole.append(shared)
            for one in single:
                one.append(shared)
            continue
        parts = [examples(array, number) for number in range(SIZE)]
        whole.append(rg.tensor(np.stack(parts, dim)))
        for one, part in zip(single, parts, strict=True):
            one.append(rg.tensor(part))
    return whole, single


def ways(case: Case) -> list[tuple[int | None, ...]]:
    """Which arguments are batched, and along which dimension: all, all but one, and the last dimension."""
    count = len(case.inputs)
    out: list[tuple[int | None, ...]] = [(0,) * count, tuple([array.ndim for array in case.inputs])]
    for left in range(count if count > 1 else 0):
        out.append(tuple([None if position == left else 0 for position in range(count)]))
    return list(dict.fromkeys(out))


REFUSED = ("dynamic shape", "item()", "data-dependent", "inplace arithmetic is not possible")
"""What no single op over a batch can be (VM-17)."""


def weighted(case: Case, tensors: Any) -> Any:
    """The outputs made one real number, by ops only."""
    terms = []
    for output in outputs_of(case.run(rg, *tensors)):
        if output.dtype.kind in "fc":
            shape = tuple(output.shape)
            weights = rg.tensor(np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)).to(output.dtype)
            terms.append((output * (weights * (1 + 0.3j) if output.dtype.kind == "c" else weights)).sum().real)
    return sum(terms[1:], terms[0])


def refused(error: RuntimeError) -> bool:
    return any(words in str(error) for words in REFUSED)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_agrees_with_one_example_after_the_other(case: Case) -> None:
    for dims in ways(case):
        whole, single = together(case, dims)
        try:
            got = vmap(lambda *tensors: tuple(outputs_of(case.run(rg, *tensors))), in_dims=dims)(*whole)
        except RuntimeError as error:
            if refused(error):
                continue
            raise
        wanted = [outputs_of(case.run(rg, *one)) for one in single]
        for number, result in enumerate(got):
            expected = np.stack([array_of(one[number]) for one in wanted])
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(array_of(result), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", [case for case in CASES if case.order], ids=str)
def test_gradients_of_and_in_a_batch_agree_with_those_of_each_example(case: Case) -> None:
    """VM-14: grad of the sum of a vmap, and vmap of a grad."""
    whole, single = together(case, (0,) * len(case.inputs))

    def inside(*tensors: Any) -> tuple[Any, ...]:
        inner = [leaf(t) if t.dtype.kind in "fc" else t for t in tensors]
        wanted = [t for t in inner if t.requires_grad]
        grads = rg.autograd.grad(weighted(case, inner), wanted, allow_unused=True, materialize_grads=True)
        return tuple(grads)

    try:
        inner = vmap(inside)(*whole)
    except RuntimeError as error:
        if refused(error):
            return
        raise
    each = [inside(*one) for one in single]
    for number, got in enumerate(inner):
        np.testing.assert_allclose(
            array_of(got), np.stack([array_of(one[number]) for one in each]), rtol=1e-10, atol=1e-13
        )
    tracked = [t.requires_grad_() if t.dtype.kind in "fc" else t for t in whole]
    vmap(lambda *tensors: weighted(case, tensors))(*tracked).sum().backward()
    outer = [t.grad for t in tracked if t.requires_grad]
    for got, want in zip(outer, inner, strict=True):
        arrived = np.zeros(want.shape) if got is None else got.numpy()
        np.testing.assert_allclose(arrived, array_of(want), rtol=1e-10, atol=1e-13)


def test_a_change_in_place_keeps_to_the_dimension_that_is_mapped() -> None:
    whole, others = rg.arange(6.0).reshape(3, 2), rg.tensor([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])

    def changed(x: Any, y: Any) -> Any:
        x.add_(y)
        return x

    result = vmap(changed, in_dims=(1, 0))(whole, others)
    assert result.tolist() == [[10, 22, 34], [41, 53, 65]]
    assert whole.tolist() == [[10, 41], [22, 53], [34, 65]]
