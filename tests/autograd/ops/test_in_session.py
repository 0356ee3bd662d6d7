"""Every case of the catalogue recorded and run by a session: the bits, dtypes and shapes of the eager run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state

from .cases import FAMILIES
from .check import Case, array_of, leaves, outputs_of, weighted


def outcome(case: Case) -> list[np.ndarray]:
    """The outputs and the gradients of a case."""
    tensors = leaves(rg, case.inputs)
    outputs = outputs_of(case.run(rg, *tensors))
    if case.order:
        weighted(rg, case, tensors).backward()
    grads: list[Any] = [t.grad for t in tensors]
    return [array_of(t) for t in (*outputs, *(g for g in grads if g is not None))]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_same_bits_as_eagerly(name: str, strict: bool):
    wrong: list[str] = []
    with rg.Session(strict=strict):
        for case in FAMILIES[name]:
            try:
                recorded = outcome(case)
            except Exception as error:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
            else:
                wrong.extend(_differences(case, recorded))
    assert not wrong, "\n".join(wrong)


def _differences(case: Case, recorded: list[np.ndarray]) -> list[str]:
    """What differs between the recorded run and an eager one."""
    ambient, state.recorder = state.recorder, None
    try:
        eager = outcome(case)
    finally:
        state.recorder = ambient
    if len(eager) != len(recorded):
        return [f"{case}: {len(eager)} results eagerly, {len(recorded)} in the session"]
    return [
        f"{case}: result {i}: {a.dtype}{a.shape} {a} eagerly, {b.dtype}{b.shape} {b} in the session"
        for i, (a, b) in enumerate(zip(eager, recorded, strict=True))
        if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes())
    ]
