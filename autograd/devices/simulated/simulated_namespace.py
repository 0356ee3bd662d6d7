"""CuPy's namespace over simulated devices: NumPy's functions, applied to simulated arrays.

`cupy_names` lists the names; factories make arrays on the current device. Streams and pinned memory are in
`simulated_streams`.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...core.array_layout import strided_view
from .cupy_names import FFT, FUNCTIONS, LINALG, MAKERS, REDUCING, SCATTERING, UFUNCS
from .simulated_array import StandInArray, check_options, unwrap_arrays

if TYPE_CHECKING:
    from .simulated_device import StandIn


class SimulatedNamespace:
    """NumPy's namespace as CuPy has it: what makes arrays makes them on the current device."""

    def __init__(self, owner: StandIn, part: str) -> None:
        self._owner = owner
        self._part = part

    def __getattr__(self, name: str) -> Any:
        found = self._found(name)
        self.__dict__[name] = found
        return found

    def _found(self, name: str) -> Any:
        owner = self._owner
        if self._part:
            if name not in (LINALG if self._part == "linalg" else FFT):
                raise AttributeError(f"module 'cupy.{self._part}' has no attribute '{name}'")
            function = getattr(getattr(np, self._part), name)
            return (
                _maker(owner, function, name)
                if name.endswith("freq")
                else _runner(owner, function, f"{self._part}.{name}")
            )
        if name in ("linalg", "fft"):
            return SimulatedNamespace(owner, name)
        if name == "cuda":
            return owner.streams
        if name == "from_dlpack":
            return _no_gpu
        if name == "lib":
            return SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=partial(_strided, owner)))
        if name in UFUNCS:
            return _Ufunc(owner, getattr(np, name))
        if name in MAKERS:
            return _maker(owner, getattr(np, name), name)
        if name in FUNCTIONS:
            return _runner(owner, getattr(np, name), name)
        value: Any = getattr(np, name, None)
        if name == "newaxis" or isinstance(value, float) or name in _DTYPES:
            return value
        raise AttributeError(f"module 'cupy' has no attribute '{name}'")


def _no_gpu(array: Any) -> Any:
    raise BufferError(f"a simulated device cannot reach the memory of a GPU, where this {type(array).__name__} is")


_DTYPES = frozenset(name for name, value in vars(np).items() if isinstance(value, type) and name in np.sctypeDict)
"""The scalar types. `dir(np)` would name submodules, too, which NumPy loads when they are read."""


class _Ufunc:
    """A ufunc of CuPy's: few have methods."""

    def __init__(self, owner: StandIn, ufunc: np.ufunc) -> None:
        self._owner = owner
        self._ufunc = ufunc

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._owner.run(self._ufunc, args, options)

    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        self._only("at", SCATTERING)
        self._owner.check((array, indices, values))
        self._ufunc.at(array._host, unwrap_arrays(indices), unwrap_arrays(values))
        self._owner.follow(self._ufunc.at, (array, indices, values), {}, None)

    def reduce(self, array: Any, axis: Any = 0, **options: Any) -> Any:
        self._only("reduce", REDUCING)
        return self._owner.run(self._ufunc.reduce, (array, axis), options)

    def accumulate(self, array: Any, axis: int = 0, **options: Any) -> Any:
        self._only("accumulate", REDUCING)
        return self._owner.run(self._ufunc.accumulate, (array, axis), options)

    def _only(self, method: str, having: frozenset[str]) -> None:
        if self._ufunc.__name__ not in having:
            raise NotImplementedError(f"`cupy_{self._ufunc.__name__}.{method}` is not supported yet")


def _strided(owner: StandIn, array: StandInArray, shape: Any, strides: Any) -> Any:
    made = strided_view(array._host, tuple(shape), tuple(strides))
    return owner.wrapped(made, (array,), array._index)


def _runner(owner: StandIn, function: Any, name: str) -> Any:
    def run(*args: Any, **options: Any) -> Any:
        check_options(name, options)
        return owner.run(function, args, options)

    return run


def _maker(owner: StandIn, function: Any, name: str) -> Any:
    def make(*args: Any, **options: Any) -> Any:
        check_options(name, options)
        if name in ("array", "asarray", "asanyarray"):
            return _converted(owner, function, args, options)
        made = function(*args, **options)
        if isinstance(made, tuple):
            return tuple([owner.fill(owner._owned(one, owner.current())) for one in cast("tuple[Any, ...]", made)])
        array = owner._owned(made, owner.current())
        return array if name == "empty" else owner.fill(array)

    return make


def _converted(owner: StandIn, function: Any, args: Any, options: dict[str, Any]) -> Any:
    """Return what CuPy's `array` and `asarray` make: of what the host holds a copy, which is a transfer."""
    value = args[0]
    if type(value) is StandInArray:
        return owner.run(function, args, options)
    made = np.array(function(*args, **options))
    if (made.ndim or isinstance(value, np.ndarray)) and not owner.is_counted:
        owner.count_to_device(made.nbytes)
    return owner.fill(owner._owned(made, owner.current()))
