"""Makes Functions of a few functions, for programs that need many small ones. What many programs share by name is in
`programs/functions.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def function(
    T: Any, forward: Callable[..., Any], backward: Callable[..., Any] | None = None, name: str = "Made", **members: Any
) -> Any:
    """Return a Function class with these methods; other members are set as they are given."""
    body: dict[str, Any] = {"forward": staticmethod(forward), **members}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type(T.autograd.Function)(name, (T.autograd.Function,), body)


def once(ctx: Any, g: Any) -> Any:
    """A backward that hands its gradient on."""
    return g


def doubled(ctx: Any, x: Any) -> Any:
    """A forward that doubles its argument."""
    return x * 2


def is_function(tensor: Any, name: str) -> bool:
    """Tell whether the producer of a tensor is a node of the Function of that name."""
    return tensor.grad_fn is not None and tensor.grad_fn.name() == name + "Backward"
