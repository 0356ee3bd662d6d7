"""The public interface of forward mode, `torch.autograd.forward_ad`: dual levels and dual tensors (FW-01 to FW-05).

One level of this kind can be open at a time; `raygrad.func.jvp` opens levels of its own, inside or outside of it.
`forward_mode` propagates the tangents.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from raygrad.errors import AutogradError
from raygrad.tracebacks import public

from . import ops
from .core.modes import state
from .tensor.tangent_levels import TangentLevel, active_levels, set_levels
from .tensor.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _DualLevel(TangentLevel):
    """The level that `dual_level` opens."""


class UnpackedDualTensor(NamedTuple):
    """The result of `unpack_dual`: the primal, and the tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def _current() -> TangentLevel | None:
    for level in state.forward:
        if isinstance(level, _DualLevel):
            return level
    return None


def enter_dual_level() -> int:
    """Open a level and return its number, which is 0.

    Raises:
        RuntimeError: one is open already.
    """
    if _current() is not None:
        raise AutogradError(
            "Nested forward mode AD is not supported at the moment: a dual level is open already; raygrad.func.jvp "
            "can be nested"
        )
    set_levels((*state.forward, _DualLevel()))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the open level; every tangent of it is gone.

    Raises:
        RuntimeError: `level` is not the open one.
    """
    current = _current()
    if current is None:
        raise AutogradError("no dual level is open: enter_dual_level() opens one")
    if (level is not None and level != 0) or state.forward[-1] is not current:
        raise AutogradError(
            f"Trying to exit a forward AD level ({level}) that was not the last one that was created. This is not "
            "supported."
        )
    set_levels(state.forward[:-1])
    current.end()


class dual_level:
    """Open a level while inside: `with dual_level():`. Gives its number, which is 0."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        exit_dual_level()


@public
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor of `tensor`'s memory and version that carries `tangent`.

    Args:
        tensor: the primal, of any shape.
        tangent: of the same shape; it is carried as it is.
        level: the open one, 0.

    Raises:
        RuntimeError: no level is open, the shapes differ, or one of them carries a tangent already.
        ValueError: one of them is neither floating point nor complex.
    """
    current = _checked(level)
    if current is None:
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(given, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected {name} to be a tensor, got {type(given).__name__}")
        if given.dtype.kind not in "fc":
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    return dual_at_level(current, tensor, tangent)


def dual_at_level(level: TangentLevel, tensor: Tensor, tangent: Tensor) -> Tensor:
    """Return a view of a tensor that carries a tangent at a level.

    Raises:
        RuntimeError: the shapes differ, or one of them carries a tangent of that level already.
    """
    check_size(tensor, tangent)
    if level.of(tensor) is not None:
        raise AutogradError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level is not "
            "supported."
        )
    if level.of(tangent) is not None:
        raise AutogradError(
            "Setting a forward grad that itself has a forward gradient at the same level is not supported."
        )
    with active_levels(state.forward[: state.forward.index(level)]):
        made = ops.view(tensor, tensor.shape)
    level.carry(made, tangent)
    return made


def check_size(tensor: Tensor, tangent: Tensor) -> None:
    """Raise unless a tangent has the shape of its primal (FW-02)."""
    if tensor.shape != tangent.shape:
        raise AutogradError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


@public
def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the primal, as a view without tangent, and the tangent that `tensor` carries or None.

    With no level open, the tensor itself and None.

    Raises:
        TypeError: not a tensor.
    """
    if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"unpack_dual: expected a tensor, got {type(tensor).__name__}")
    current = _checked(level)
    return UnpackedDualTensor(tensor, None) if current is None else unpack_at_level(current, tensor)


def unpack_at_level(level: TangentLevel, tensor: Tensor) -> UnpackedDualTensor:
    """Return the primal and the tangent of a tensor at a level; both keep the tangents of outer levels."""
    with active_levels(state.forward[: state.forward.index(level)]):
        return UnpackedDualTensor(ops.view(tensor, tensor.shape), level.of(tensor))


def _checked(level: Any) -> TangentLevel | None:
    if level is not None and level != 0:
        raise AutogradError(f"level {level} is not open: expected 0, the only level that dual_level() opens")
    return _current()
