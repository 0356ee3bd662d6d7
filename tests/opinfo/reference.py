"""OpInfo's own references, which decide where PyTorch states that its op is not as exact as the tolerances ask.

An entry may bring a `ref`, mostly SciPy's function, and a precision (`precisionOverride`) to which PyTorch's op keeps
to it. Where raygrad differs from PyTorch by more than the table allows, the reference is asked, on three conditions:
the entry states a precision wider than the tolerance, PyTorch's result keeps to it, and raygrad's agrees with the
reference within the tolerance itself.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .compare import Disagreement, tolerances


def stated_precision(info: Any, dtype: torch.dtype) -> float | None:
    """Return how near to its reference an entry keeps in a dtype, if that is wider than the tolerance; else None."""
    within = tolerances(info, dtype)
    for item in info.decorators or ():
        for decorator in getattr(item, "decorators", (item,)):
            if type(decorator).__name__ == "precisionOverride":
                stated = decorator.d.get(dtype)
                if stated is not None and within is not None and stated > within[1]:
                    return float(stated)
    return None


def by_reference(info: Any, sample: Any, expected: Any, compare: Callable[[Any], None], differs: Disagreement) -> None:
    """Compare with an entry's reference what differs from PyTorch's result.

    Raises:
        Disagreement: it differs from the reference, too, or the reference is not to be asked: then `differs`.
    """
    if not isinstance(sample.input, torch.Tensor) or not isinstance(expected, torch.Tensor):
        raise differs
    stated = stated_precision(info, sample.input.dtype)
    if info.ref is None or stated is None or sample.args or sample.options:
        raise differs
    exact = torch.as_tensor(np.asarray(info.ref(sample.input.detach().numpy()))).to(expected.dtype)
    if not torch.allclose(expected, exact, rtol=stated, atol=stated, equal_nan=True):
        raise differs
    compare(exact)
