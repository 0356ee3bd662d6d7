"""The check that a function under a transform changes no tensor in place that it has captured (FT-07).

In-place operations call it while the scope of a transform is open (`core.transform_scopes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raygrad.errors import AutogradError

from ..core.batched_data import Batched
from ..core.modes import state
from ..storage.storage import parent_of

if TYPE_CHECKING:
    from ..core.transform_scopes import TransformScope
    from ..tensor.tensor import Tensor


def check_not_captured(tensor: Tensor) -> None:
    """Check that a tensor that is about to be changed in place belongs to the innermost transform that runs.

    Raises:
        AutogradError: it existed before the transform began, and is none of the function's arguments.
    """
    scope: TransformScope | None = state.here.scope
    if scope is None or not scope.checks or _belongs(tensor, scope):
        return
    raise AutogradError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call an in-place operation "
        f"that would mutate a captured Tensor (shape {list(tensor.shape)}, {tensor.dtype}): it was made outside of "
        f"the function that {scope.name} transforms. Pass it as an argument, or change a copy (clone())"
    )


def _belongs(tensor: Tensor, scope: TransformScope) -> bool:
    """Tell whether the memory of a tensor was made in a scope, or is shown by what the scope's function is given."""
    while True:
        if any([one is tensor for one in scope.given]):
            return True
        parent = parent_of(tensor)
        if parent is not None:
            tensor = parent
            continue
        if not scope.encloses(tensor._made_in):
            return False
        if type(tensor._data) is not Batched:
            return True
        tensor = tensor._data.value
