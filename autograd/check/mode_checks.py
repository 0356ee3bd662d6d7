"""The forward-mode and batched (vmap) checks of `gradcheck`: forward mode against finite differences, batches against
single examples.

Each check takes a `GradientCheck`: the function with its point and its tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import GradcheckError

from .. import forward_ad
from ..devices.serving import to_host
from ..dispatch.device_dispatch import zeros_on
from ..engine.engine import grad
from ..tensor.tensor import Tensor
from ..vmap.vmap import vmap
from . import check_report as report, jacobians
from .backward_checks import RANDOM_SEED, GradientCheck, unit
from .jacobians import Array, CheckedOutputs, Run

BATCH = 2
"""Size of a batch of gradients or tangents: the least at which examples can be mixed up."""

# ---- forward mode ----------------------------------------------------------------------------------------------------


def pushforward(func: Run, inputs: Sequence[Any], outputs: CheckedOutputs, index: int, tangent: Tensor) -> list[Tensor]:
    """Return the tangent of each output when one input has `tangent` and no other has one. No input requires grad
    (GC-11)."""
    with forward_ad.dual_level():
        bare = [x.detach() if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        bare[index] = forward_ad.make_dual(bare[index], tangent)
        made = [forward_ad.unpack_dual(output) for output in outputs.picked(func(*bare))]
    return [zeros_on(p.device, p.shape, p.dtype) if t is None else t for p, t in made]


def forward(check: GradientCheck, outputs: CheckedOutputs) -> None:
    """Compare forward mode with finite differences (GC-03)."""
    for index in check.wanted:
        tensor = check.inputs[index]
        steps = jacobians.unit_steps(tensor)
        if check.fast:
            along = unit(np.random.default_rng(RANDOM_SEED), tensor.shape)
            steps = [np.asarray(along * move, tensor.dtype) for move in jacobians.directions_of(tensor.dtype)]
        runs = [
            pushforward(check.func, check.inputs, outputs, index, jacobians.as_tensor_like(step, tensor))
            for step in steps
        ]
        found = [[np.array(to_host(tangent._read())) for tangent in run] for run in runs]
        expected = jacobians.differences(check.func, check.inputs, outputs, index, steps, check.eps)
        for place, position in enumerate(outputs.positions):
            for name in jacobians.parts_of(outputs.specs[position][1]):
                rows = [
                    np.stack([jacobians.part(run[place], name).reshape(-1) for run in runs])
                    for runs in (expected, found)
                ]
                if not np.allclose(rows[1], rows[0], check.rtol, check.atol):
                    at = check.place(outputs, place, index, name, forward=True)
                    raise GradcheckError(report.mismatch(at, rows[0], rows[1], check.rtol, check.atol), "formula")


# ---- batches ---------------------------------------------------------------------------------------------------------


def _random(shape: tuple[int, ...], dtype: Any) -> Array:
    rng = np.random.default_rng(RANDOM_SEED)
    values = rng.uniform(-1, 1, (BATCH, *shape))
    return np.asarray(values + 1j * rng.uniform(-1, 1, (BATCH, *shape)) if dtype.kind == "c" else values, dtype)


def batched(check: GradientCheck) -> None:
    """Compare backward of a batch of gradients with backward of each (GC-08)."""
    tensors = [check.inputs[i] for i in check.wanted]
    for position, output in enumerate(check.outputs()):
        seeds = _random(output.shape, output.dtype)
        each = [
            grad(output, tensors, jacobians.as_tensor_like(seed, output), retain_graph=True, allow_unused=True)
            for seed in seeds
        ]
        what = f"while testing batched gradient computation of output {position}"

        def back(seed: Tensor, output: Tensor = output) -> tuple[Tensor, ...]:
            found = grad(output, tensors, seed, retain_graph=True, allow_unused=True)
            return tuple(
                [
                    seed.new_zeros(t.shape, dtype=t.dtype) if g is None else g
                    for g, t in zip(found, tensors, strict=True)
                ]
            )

        try:
            together = vmap(back)(jacobians.as_tensor_like(seeds, output))
        except RuntimeError as error:
            raise GradcheckError(report.batch_fails(what, error), "batched gradients") from error
        for index, found, *singly in zip(check.wanted, together, *each, strict=True):
            _agree(check, what, index, found, singly)


def batched_forward(check: GradientCheck, outputs: CheckedOutputs) -> None:
    """Compare forward mode of a batch of tangents with forward mode of each (GC-08)."""
    for index in check.wanted:
        tensor = check.inputs[index]
        tangents = _random(tensor.shape, tensor.dtype)

        def push(tangent: Tensor, index: int = index) -> tuple[Tensor, ...]:
            return tuple(pushforward(check.func, check.inputs, outputs, index, tangent))

        each = [push(jacobians.as_tensor_like(tangent, tensor)) for tangent in tangents]
        what = f"while testing batched forward gradient computation by input {index}"
        try:
            together = vmap(push)(jacobians.as_tensor_like(tangents, tensor))
        except RuntimeError as error:
            raise GradcheckError(report.batch_fails(what, error), "batched gradients") from error
        for found, *singly in zip(together, *each, strict=True):
            _agree(check, what, index, found, singly)


def _agree(check: GradientCheck, what: str, index: int, found: Tensor | None, singly: Sequence[Tensor | None]) -> None:
    shape, dtype = check.inputs[index].shape, check.inputs[index].dtype
    one = [np.zeros(shape, dtype) if g is None else np.array(to_host(g._read())) for g in singly]
    expected = np.stack(one)
    values = np.zeros_like(expected) if found is None else np.array(to_host(found._read()))
    if values.shape != expected.shape or not np.allclose(values, expected, check.rtol, check.atol):
        raise GradcheckError(report.batch_differs(what, index, values, expected), "batched gradients")
