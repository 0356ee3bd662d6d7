"""Mixed precision, `torch.amp`: `autocast`, and `custom_fwd` and `custom_bwd` for the methods of Functions (LG-14).

Regions and casts of ops are in `autograd.dispatch.autocast`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from raygrad.autograd.core.dtypes import float64
from raygrad.autograd.dispatch.autocast import (
    autocast,
    check_is_text,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    known_dtype,
)
from raygrad.autograd.functions.context import FunctionNode
from raygrad.autograd.functions.function_traits import NOTE
from raygrad.autograd.tensor.tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

Method = Callable[..., Any]


def _check(device_type: Any) -> None:
    """Raise unless a device type exists."""
    check_is_text(device_type)
    is_autocast_available(device_type)


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Return a value with its floating tensors in `dtype`, except float64 ones."""
    if isinstance(value, Tensor):
        eligible = device_type == "cpu" and value.dtype.kind == "f" and value.dtype != float64
        return value.to(dtype) if eligible else value
    if isinstance(value, str | bytes | np.ndarray):
        return cast("Any", value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_cast(key, device_type, dtype): _cast(item, device_type, dtype) for key, item in items}
    if isinstance(value, list | tuple):
        found = [_cast(item, device_type, dtype) for item in cast("Iterable[Any]", value)]
        made = cast("Any", type(cast("Any", value)))
        return made(*found) if hasattr(made, "_fields") else made(found)
    if isinstance(value, Iterable):
        return (_cast(item, device_type, dtype) for item in cast("Iterable[Any]", value))
    return value


def custom_fwd(fwd: Method | None = None, *, device_type: str, cast_inputs: Any = None) -> Method:
    """Decorate the forward of a Function, in either style, to say how it runs in a region of `autocast`.

    Its backward, decorated with `custom_bwd`, then casts as forward did. Outside of all regions nothing is cast.

    Args:
        fwd: the method; None if there are only options, as in `@custom_fwd(device_type="cpu")`.
        device_type: "cpu".
        cast_inputs: the dtype in which forward gets floating tensors (but those of float64), also in containers; it
            then runs with casting switched off. None: it gets them as they are, and what it calls casts.

    Raises:
        ValueError: `device_type` is no string.
        RuntimeError: an unknown device.
        TypeError: a dtype that no tensor has.
    """
    _check(device_type)
    if cast_inputs is not None:
        cast_inputs = known_dtype(cast_inputs, "custom_fwd")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    def note(ctx: Any) -> None:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = cast_inputs is None and is_autocast_enabled(device_type)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], FunctionNode):
            note(args[0])
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    setattr(forward, NOTE, note)
    return forward


def custom_bwd(bwd: Method | None = None, *, device_type: str) -> Method:
    """Decorate the backward of a Function whose forward has `custom_fwd`: it casts as forward did.

    Args:
        bwd: the method; None if there are only options, as in `@custom_bwd(device_type="cpu")`.
        device_type: "cpu".

    Raises:
        ValueError: `device_type` is no string.
        RuntimeError: an unknown device.
        AttributeError: when it runs, a forward that was not decorated.
    """
    _check(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        try:
            enabled, dtype = ctx._fwd_used_autocast, ctx._dtype
        except AttributeError as error:
            raise AttributeError(
                f"{error}: custom_bwd goes by what custom_fwd noted; decorate the forward with it, too"
            ) from None
        with autocast(device_type, dtype=dtype, enabled=enabled):
            return bwd(*args, **kwargs)

    return backward
