"""In-place methods of tensors as functions of the package: `raygrad.zero_(x)` is `x.zero_()`.

The table of names in `raygrad` lists those that PyTorch has in that form, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raygrad.errors import DtypeError
from raygrad.tracebacks import leave

from ..tensor.tensor import Tensor


def _function(name: str) -> Callable[..., Tensor]:
    """Return the function that calls the in-place method of a name."""

    def in_place(input: Any, *args: Any, **options: Any) -> Tensor:
        try:
            if not isinstance(input, Tensor):
                raise DtypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
            return getattr(input, name)(*args, **options)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__module__ = "raygrad"
    in_place.__doc__ = f"Change `input` in place, as its method `{name}` does, and return it."
    return in_place


def __getattr__(name: str) -> Callable[..., Tensor]:
    """Return the function of a name; the table of `raygrad` says which there are."""
    if not name.endswith("_") or name.startswith("_") or not hasattr(Tensor, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _function(name)
    return made
