"""PyTorch's results in double precision, which decide where those in single precision are rounded differently.

A sample in float32 is compared with PyTorch's own result first. Where they differ by more than the table allows, either
library may have lost digits. So PyTorch computes the same numbers again in float64, and raygrad has to agree with that,
rounded to float32, within the tolerance for float32. `kinds` asks for it; float64 and complex128 have no such second
look.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


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
    """Return results in the dtypes of others, one by one; what is no tensor as it is."""
    if len(wide) != len(like):
        return list(like)
    return [
        one.detach().to(other.dtype) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else one
        for one, other in zip(wide, like, strict=True)
    ]
