"""PyTorch's results in double precision, which decide where those in single precision are rounded differently.

A sample in float32 is compared with PyTorch's own result first. Where they differ by more than the table allows, either
library may have lost digits. So PyTorch computes the same numbers again in float64, and raygrad has to agree with that,
rounded to float32, within the tolerance for float32. `kinds` asks for it; float64 and complex128 have no such second
look.

Only rounding is decided so. An element that is infinite or NaN in either precision (what `nan_to_num` makes of infinity
is another number in each), or so far from the other that no rounding explains it (an `eps` by the dtype), stays as it
is in single precision.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


LOST = 1e-2
"""How much of the greatest number of all results of a call rounding may cost an element in single precision: of a
gradient that is zero, say, terms of the size of the others are left."""


def widened(value: Any) -> Any:
    """Return torch's value with its tensors in double precision, as leaves; containers included."""
    if isinstance(value, torch.Tensor) and value.dtype in _WIDER:
        return value.detach().to(_WIDER[value.dtype]).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if type(value) in (list, tuple):
        return type(value)([widened(item) for item in value])
    if isinstance(value, dict):
        return {name: widened(item) for name, item in value.items()}
    return value


def rounded(wide: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Return results in the dtypes of others, one by one, where they differ from them by rounding; else those others,
    and what is no tensor."""
    if len(wide) != len(like):
        return list(like)
    pairs = [
        (one.detach().to(other.dtype), other.detach())
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape
        else None
        for one, other in zip(wide, like, strict=True)
    ]
    greatest = max([_greatest(*pair) for pair in pairs if pair is not None], default=0.0)
    return [other if pair is None else _near(*pair, LOST * greatest) for pair, other in zip(pairs, like, strict=True)]


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.is_complex()


def _greatest(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the greatest number of a result that is finite in both precisions."""
    if not (_has_fractions(other) and other.numel()):
        return 0.0
    finite = one.isfinite() & other.isfinite()
    return float(torch.where(finite, torch.maximum(one.abs(), other.abs()), 0).amax())


def _near(one: torch.Tensor, other: torch.Tensor, allowed: float) -> torch.Tensor:
    """Return the elements of a result in double precision that are finite and differ by no more than is allowed from
    those in single precision, and the latter elsewhere."""
    if not _has_fractions(other):
        return other
    finite = one.isfinite() & other.isfinite()
    return torch.where(finite & ((one - other).abs() <= allowed), one, other)
