"""Autocast: regions in which a thread casts operands to a lower precision, and the cast of an operand (LG-14).

Which functions cast, and to what, `autocast_policies` says. A cast is an op, so it is recorded, differentiated and
batched as any other. Built-in derivatives are not cast: each runs in the precision of its forward.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from raygrad.errors import AutogradError, DtypeError
from raygrad.tracebacks import block, public, users_level

from ..core import dtypes
from ..core.batched_data import Batched
from ..core.catalogue import ops
from ..core.modes import Modes, state
from ..devices.serving import as_device, device_named
from ..tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

LOWER = dtypes.float16
"""What a region casts to. PyTorch has a second, bfloat16, which NumPy has not."""

OTHER_DEVICES = frozenset("cuda hpu ipu maia meta mps mtia privateuseone xla xpu".split())
"""Devices that PyTorch knows and on which nothing is cast here: on most of them no tensor is."""

REGIONS: list[None] = []
"""One entry per region open on any thread; wrappers check only whether it is empty."""


class _CachedCast(NamedTuple):
    """A cached cast of a leaf, used until the outermost region ends."""

    tensor: Tensor
    data: Any
    """The tensor's, when it was cast."""
    version: int
    made: Tensor


class Casting:
    """The autocast state of a thread: that of its innermost region.

    Attributes:
        enabled: whether anything is cast.
        dtype: to which dtype.
        cache: whether a leaf that requires grad is cast once in a region.
        kept: these casts, by the leaf's identity, by whether gradients were recorded and by the session; a region
            inside another has the outer one's.
    """

    __slots__ = ("cache", "dtype", "enabled", "kept")

    def __init__(self, enabled: bool, dtype: np.dtype[Any], cache: bool, kept: dict[Any, _CachedCast]) -> None:
        self.enabled = enabled
        self.dtype = dtype
        self.cache = cache
        self.kept = kept


# ---- what is asked ---------------------------------------------------------------------------------------------------


def _is_cpu(device_type: Any, asker: str) -> bool:
    """Tell whether a device is the one on which operands are cast.

    Raises:
        TypeError: it is no string.
        RuntimeError: nobody knows such a device.
    """
    if not isinstance(device_type, str):
        raise DtypeError(
            f"{asker}(): argument 'device_type' must be str, such as 'cpu', not {type(device_type).__name__}"
        )
    if device_type != "cpu" and device_type not in OTHER_DEVICES:
        raise AutogradError(
            f"{asker}(): expected a device type, one of cpu, {', '.join(sorted(OTHER_DEVICES))}, got '{device_type}'"
        )
    return device_type == "cpu"


def is_autocast_available(device_type: str) -> bool:
    """Tell whether anything can be cast on a device: on the CPU alone."""
    return _is_cpu(device_type, "is_autocast_available")


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Tell whether operands are cast on a device now; without one, as in PyTorch, on "cuda", where nothing is
    cast."""
    casting = state.here.casting
    return _is_cpu(device_type, "is_autocast_enabled") and casting is not None and casting.enabled


def get_autocast_dtype(device_type: str) -> np.dtype[Any]:
    """Return the dtype to which operands are cast on a device, if they are."""
    casting = state.here.casting
    return LOWER if not _is_cpu(device_type, "get_autocast_dtype") or casting is None else casting.dtype


def is_autocast_cache_enabled() -> bool:
    """Tell whether a region that is opened now caches the casts of leaves by default."""
    casting = state.here.casting
    return casting is None or casting.cache


# ---- regions ---------------------------------------------------------------------------------------------------------


def check_is_text(device_type: Any) -> None:
    """Check that a device is given as what can be one.

    Raises:
        ValueError: it is no string.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, such as 'cpu', got: `{type(device_type)}`")


class autocast:
    """Cast operands to a lower precision while code runs: as a context manager, or as a decorator.

    Functions of the family of matrix multiplication compute in `dtype`, those that need the range in float32, and those
    that join tensors in the widest dtype that they are given. float64 is never cast.

    Args:
        device_type: "cpu", by whose lists operands are cast on all devices. "cuda" warns and casts nothing.
        dtype: float16, the default. With another known one it warns and casts nothing, as in PyTorch.
        enabled: whether to cast; False ends it in a block.
        cache_enabled: whether a leaf that requires grad is cast once for all that use it before the outermost region
            ends; by default as in the region around.

    Raises:
        ValueError: `device_type` is no string.
        RuntimeError: an unknown device.
        TypeError: a dtype that no tensor has, bfloat16 among them.
    """

    @public
    def __init__(
        self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        check_is_text(device_type)
        cpu = _is_cpu(device_type, "autocast")
        if not cpu and device_type != "cuda":
            raise AutogradError(
                f"User specified an unsupported autocast device_type '{device_type}': operands are cast on 'cpu'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else known_dtype(dtype, "autocast")
        if enabled and not cpu:
            warnings.warn(
                "autocast('cuda') casts nothing here, where CUDA has no lists of its own: autocast('cpu') casts "
                "operands on all devices. Disabling autocast.",
                stacklevel=users_level(),
            )
        elif enabled and self.fast_dtype != LOWER:
            warnings.warn(
                f"In CPU autocast, but the target dtype {self.fast_dtype} is not supported. Disabling autocast.\n"
                f"CPU Autocast only supports the dtype {LOWER} currently.",
                stacklevel=users_level(),
            )
            enabled = False
        self._cpu = cpu
        self._enabled = bool(enabled)
        self._cache = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._before: list[Casting | None] = []

    def __enter__(self) -> autocast:
        before: Casting | None = state.here.casting
        self._before.append(before)
        if self._cpu:
            kept = {} if before is None else before.kept
            state.here.casting = Casting(self._enabled, self.fast_dtype, self._cache, kept)
        REGIONS.append(None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        state.here.casting = self._before.pop()
        REGIONS.pop()

    def __call__(self, fn: F) -> F:
        if not callable(fn):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(fn).__name__}. Did you mean to use autocast as a "
                "context manager? For example: with raygrad.autocast('cpu'): ..."
            )

        @functools.wraps(fn)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return cast(F, in_region)


def known_dtype(dtype: Any, asker: str) -> np.dtype[Any]:
    """Return the dtype that is meant.

    Raises:
        TypeError: tensors have none such.
    """
    try:
        found = dtypes.as_dtype(dtype)
    except TypeError:
        found = None
    if found is None or not dtypes.is_known(found):
        raise DtypeError(
            f"{asker}: tensors have no dtype {getattr(dtype, '__name__', dtype)}, since NumPy has none; cast to "
            "raygrad.float16"
        )
    return found


# ---- the state travels -----------------------------------------------------------------------------------------------

RecordedModes = tuple[Any, ...]
"""The state of a thread as plain data: () outside of all regions, else (enabled, name of the dtype, cache); inside of a
block of a device (enabled, name of the dtype or nothing, cache, name of the device)."""


def capture_modes() -> RecordedModes:
    """Return this thread's state, for user code that runs in another process or later: see `restored_modes`."""
    casting, device = state.here.casting, state.here.device
    regions = () if casting is None else (int(casting.enabled), casting.dtype.name, int(casting.cache))
    if device is None or device.type == "cpu":
        return regions
    return (*(regions or (0, "", 0)), str(as_device(device)))


@block
def restored_modes(recorded: RecordedModes) -> Generator[None]:
    """Restore recorded modes in a block, for code that was recorded under them."""
    before, device = state.here.casting, state.here.device
    casts = recorded and recorded[1]
    state.here.casting = Casting(bool(recorded[0]), np.dtype(recorded[1]), bool(recorded[2]), {}) if casts else None
    state.here.device = device_named(recorded[3]) if len(recorded) > 3 else None
    REGIONS.append(None)
    try:
        yield
    finally:
        state.here.casting, state.here.device = before, device
        REGIONS.pop()


# ---- operands --------------------------------------------------------------------------------------------------------


def _is_cast(operand: Any) -> bool:
    """Tell whether an operand is one that regions cast: real numbers of single precision or less."""
    return isinstance(operand, Tensor) and (dtype := operand.dtype).kind == "f" and dtype.itemsize < 8


def widest_dtype(casting: Casting, operands: Iterable[Any]) -> Any:
    """Return the dtype in which operands meet that are to be joined: the widest that regions cast."""
    wide = any(_is_cast(operand) and operand.dtype == dtypes.float32 for operand in operands)
    return dtypes.float32 if wide else casting.dtype


def cast_to(casting: Casting, operand: Any, dtype: np.dtype[Any]) -> Any:
    """Return an operand in `dtype`; what is not cast as it is."""
    if not _is_cast(operand) or operand.dtype == dtype:
        return operand
    here = state.here
    if not casting.cache or dtype != casting.dtype or not _is_leaf(operand, here):
        return ops.to_dtype(operand, dtype)
    key = (id(operand), here.grad, id(here.recorder))
    version = operand.counter()[0]
    kept = casting.kept.get(key)
    if kept is None or kept.data is not operand._data or kept.version != version:  # new, or changed in place since
        kept = casting.kept[key] = _CachedCast(operand, operand._data, version, ops.to_dtype(operand, dtype))
    return kept.made


def _is_leaf(tensor: Tensor, here: Modes) -> bool:
    """Tell whether a cast of a tensor is kept: of a leaf that requires grad, as weights are, outside of transforms."""
    return (
        tensor._requires_grad
        and tensor.grad_fn is None
        and tensor._base is None
        and type(tensor._data) is not Batched
        and not (here.forward or here.batches or here.transforms)
    )
