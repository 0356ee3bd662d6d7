"""Translation between torch's samples and raygrad's values, and of torch's Python functions to raygrad.

`entries` uses it to find what raygrad calls an op; `kinds` to give both libraries the same inputs.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import raygrad as rg


class Untranslatable(Exception):
    """A sample's value for which raygrad has no counterpart: a sparse tensor, bfloat16, a memory format."""


_DTYPES = {
    getattr(torch, name): np.dtype(name)
    for name in "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
}
_FORMATS = {getattr(torch, name): getattr(rg, name) for name in ("channels_last", "channels_last_3d")}
_NEUTRAL = (torch.strided, torch.contiguous_format, torch.preserve_format)
"""Layouts and formats that say what raygrad does anyway."""


class Dropped:
    """What a keyword is translated to that need not be passed."""


def tensor(value: torch.Tensor, requires_grad: bool | None = None) -> Any:
    """Return raygrad's tensor of the same numbers, dtype, axis order and need of a gradient; of a view that is a leaf,
    the same view of its base.

    Raises:
        Untranslatable: it is sparse, on another device, or of a dtype that NumPy lacks.
    """
    if value.layout is not torch.strided or value.dtype not in _DTYPES or value.device.type != "cpu":
        raise Untranslatable(f"{value.layout} {value.dtype} {value.device}")
    wanted = value.requires_grad if requires_grad is None else requires_grad
    if value._base is not None and value.is_leaf and requires_grad is None and _is_plain(value):
        made = _as_view(value, value._base)
        return made.requires_grad_() if wanted and not value._base.requires_grad else made
    array = np.array(value.detach().resolve_conj().resolve_neg().numpy(), order="K")
    made = rg.from_numpy(array)
    return made.requires_grad_() if wanted else made


def _is_plain(view: torch.Tensor) -> bool:
    """Tell whether a view shows its base's elements, or one part of complex ones, as they lie in memory."""
    base: Any = view._base
    if not base.is_contiguous() or any(one.is_conj() or one.is_neg() for one in (view, base)):
        return False
    if view.dtype == base.dtype:
        return True
    steps = [step for step, extent in zip(view.stride(), view.shape, strict=True) if extent > 1]
    return base.is_complex() and view.dtype == base.dtype.to_real() and not any(step % 2 for step in steps)


def _as_view(view: torch.Tensor, base: torch.Tensor) -> Any:
    """Return the view of raygrad's counterpart of the base, without history: where that requires grad, so does the
    view, and leads no gradient to it."""
    made = tensor(base)
    with rg.no_grad():
        if view.dtype == base.dtype:
            return made.as_strided(tuple(view.shape), view.stride(), view.storage_offset() - base.storage_offset())
        offset = view.storage_offset() - 2 * base.storage_offset()
        return (made.imag if offset % 2 else made.real).as_strided(tuple(view.shape), view.stride(), offset)


def to_raygrad(value: Any) -> Any:
    """Return raygrad's counterpart of a sample's argument, containers included.

    Raises:
        Untranslatable: there is none.
    """
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.dtype):
        if value not in _DTYPES:
            raise Untranslatable(str(value))
        return _DTYPES[value]
    if isinstance(value, torch.memory_format) and value in _FORMATS:
        return _FORMATS[value]
    if isinstance(value, torch.layout | torch.memory_format):
        if value not in _NEUTRAL:
            raise Untranslatable(str(value))
        return Dropped
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.Generator):
        raise Untranslatable("a generator")
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, slice):
        return slice(to_raygrad(value.start), to_raygrad(value.stop), to_raygrad(value.step))
    if isinstance(value, list | tuple):
        items = [to_raygrad(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        made = {key: to_raygrad(item) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not Dropped}
    if isinstance(value, types.FunctionType):
        return retyped(value)
    if isinstance(value, types.BuiltinFunctionType):
        return named(value) or value
    if isinstance(value, torch.nn.Module):
        return functools.partial(retyped(type(value).forward), value)
    return value


def to_torch(value: Any) -> Any:
    """Return raygrad's tensor as torch's; anything else as it is."""
    if not isinstance(value, rg.Tensor):
        return value
    return torch.from_numpy(np.array(value.detach().numpy(), order="C"))


class _Torch:
    """What a function written for torch finds under the name `torch`."""

    Size = tuple

    def __getattr__(self, name: str) -> Any:
        return getattr(rg, name)


def _plainly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Stand-in for the wrapper that seeds torch's generator around a call."""
    return function(*args, **options)


def retyped(function: types.FunctionType, names: dict[str, Any] | None = None) -> types.FunctionType:
    """Return a function of torch's test suite as it reads with raygrad in torch's place.

    Args:
        function: the function; functions and cells that it closes over are retyped, too.
        names: further global names that mean something else.
    """
    cells = tuple(types.CellType(_retyped_value(cell.cell_contents, names)) for cell in function.__closure__ or ())
    around = {
        **function.__globals__,
        "torch": _Torch(),
        "F": rg.nn.functional,
        "wrapper_set_seed": _plainly,
        **(names or {}),
    }
    made = types.FunctionType(function.__code__, around, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _retyped_value(value: Any, names: dict[str, Any] | None) -> Any:
    if isinstance(value, types.FunctionType):
        return retyped(value, names)
    return named(value) or value


def named(function: Any) -> Any:
    """Return raygrad's function or method of the name of one of torch's built-in ones; None if there is none."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__objclass__", None)
    if owner is not None and issubclass(torch.Tensor, owner):
        return getattr(rg.Tensor, name, None)
    if name and getattr(torch.Tensor, name, None) is function:
        return getattr(rg.Tensor, name, None)
    if name and getattr(function, "__module__", "") == "torch.nn.functional":
        return dotted(f"nn.functional.{name}")
    if isinstance(function, types.BuiltinFunctionType) and name:
        for prefix, home in (("linalg_", "linalg"), ("fft_", "fft"), ("special_", "special")):
            if name.startswith(prefix):
                return dotted(f"{home}.{name.removeprefix(prefix)}")
        return dotted(name) or dotted(f"nn.functional.{name}")
    return None


def dotted(path: str) -> Any:
    """Return what raygrad offers under a dotted name; None if nothing."""
    found: Any = rg
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            return None
    return found
