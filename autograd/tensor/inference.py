"""Inference mode: the context manager, and inference tensors, which no graph can hold (MD-04).

Such a tensor keeps its version counter apart (`Tensor._inference`): a node that wants to save it finds none and raises
by `refuse_saving`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.modes import GradMode, state

if TYPE_CHECKING:
    from .tensor import Tensor

REMEDY = "make a clone of it to get a normal tensor, or compute it under no_grad instead of inference_mode"


def is_inference_mode_enabled() -> bool:
    """Tell whether inference mode is on."""
    return state.inference


class inference_mode(GradMode):
    """Record nothing, neither for backward nor in forward mode, and make tensors that never can be.

    With or without parentheses, as a context manager or a decorator; `inference_mode(False)` ends the mode in a block.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__()
        return self(mode)

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__(mode is False)
        self._outer: list[tuple[bool, tuple[Any, ...]]] = []

    def clone(self) -> inference_mode:
        return inference_mode(not self._mode)

    def __enter__(self) -> None:
        self._outer.append((state.inference, state.forward))
        state.inference = False
        super().__enter__()
        state.inference = not self._mode
        if state.inference:
            state.forward = ()
        state.changed()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        state.inference, state.forward = self._outer.pop()
        super().__exit__(kind, error, tb)
        state.changed()


def mark_inference(tensor: Tensor) -> Tensor:
    """Make a tensor that was made just now an inference tensor, if the mode is on."""
    if state.inference and tensor._inference is None and tensor._counter is None:
        tensor._inference = [0, 0]
    return tensor


def refuse_saving() -> AutogradError:
    """Return what is raised when an inference tensor is to be saved for backward."""
    return AutogradError(f"Inference tensors cannot be saved for backward: {REMEDY}")


def check_change(tensor: Tensor) -> None:
    """Check that a tensor may be changed in place now.

    Raises:
        RuntimeError: it is an inference tensor, and the mode is off.
    """
    if tensor._inference is not None and not state.inference:
        raise AutogradError(f"Inplace update to inference tensor outside InferenceMode is not allowed: {REMEDY}")
