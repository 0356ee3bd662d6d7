"""What forward mode has to keep: the derivatives that differences give.

Rules of this file: as in `gradcheck_checks`; each check takes the function with its point and its tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import GradcheckError

from . import forward_ad, jacobians
from . import gradcheck_report as report
from .gradcheck_checks import RANDOM_SEED, Check, unit
from .jacobians import Array, Outputs, Run
from .tensor import Tensor

# ---- forward mode ----------------------------------------------------------------------------------------------------


def pushed(func: Run, inputs: Sequence[Any], outputs: Outputs, index: int, tangent: Tensor) -> list[Tensor]:
    """Return the tangent of each output when one input has `tangent` and the others have none. No input requires grad
    (GC-11)."""
    with forward_ad.dual_level():
        bare = [x.detach() if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        bare[index] = forward_ad.make_dual(bare[index], tangent)
        made = [forward_ad.unpack_dual(output) for output in outputs.picked(func(*bare))]
    return [Tensor.made(np.zeros(p.shape, p.dtype)) if t is None else t for p, t in made]


def forward(check: Check, outputs: Outputs) -> None:
    """Compare forward mode with differences (GC-03)."""
    for index in check.wanted:
        tensor = check.inputs[index]
        steps = jacobians.steps_of(tensor)
        if check.fast:
            along = unit(np.random.default_rng(RANDOM_SEED), tensor.shape)
            steps = [np.asarray(along * move, tensor.dtype) for move in jacobians.directions_of(tensor.dtype)]
        runs = [pushed(check.func, check.inputs, outputs, index, Tensor.made(step)) for step in steps]
        found = [[np.array(tangent.read()) for tangent in run] for run in runs]
        expected = jacobians.differences(check.func, check.inputs, outputs, index, steps, check.eps)
        for place, position in enumerate(outputs.positions):
            for name in jacobians.parts_of(outputs.specs[position][1]):
                rows = [_rows(runs, place, name) for runs in (expected, found)]
                if not np.allclose(rows[1], rows[0], check.rtol, check.atol):
                    at = check.place(outputs, place, index, name, forward=True)
                    raise GradcheckError(report.mismatch(at, rows[0], rows[1], check.rtol, check.atol), "formula")


def _rows(runs: Sequence[Sequence[Array]], place: int, name: str) -> Array:
    return np.stack([jacobians.part(run[place], name).reshape(-1) for run in runs])
