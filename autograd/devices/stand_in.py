"""A simulated "cuda" for machines without a GPU: NumPy's results behind CuPy's restrictions, each transfer counted.

Rules of this file: it is switched on explicitly, by `use_stand_in` or by the environment variable RAYGRAD_STAND_IN
(which worker processes inherit), never because no GPU was found. Its memory is the host's; how much arrays hold of it
is counted per device, and may be limited, so that running out can be tested.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import Any, ClassVar, cast

import numpy as np

from raygrad.errors import DeviceError

from ..layout import overlaps_itself, strided_over
from .backend import Backend, Memory, in_own_order
from .device import Device
from .stand_in_array import StandInArray, bare, check_options
from .stand_in_names import FFT, FUNCTIONS, LINALG, MAKERS, REDUCING, SCATTERING, UFUNCS

TOTAL = 16 * 1024**3
"""What a simulated device is said to have where no limit is given."""


class StandInMemoryError(MemoryError):
    """A simulated device has no memory left."""


@dataclass(slots=True)
class Transfers:
    """What was moved: how often and how many bytes, to devices, to the host and between devices."""

    to_device: int = 0
    to_device_bytes: int = 0
    to_host: int = 0
    to_host_bytes: int = 0
    between: int = 0
    between_bytes: int = 0
    questions: int = 0
    """How often the host asked for a single element's truth, and waited: no transfer of data, but a halt."""


class _Current(threading.local):
    index = 0


class StandIn(Backend):
    """The simulated devices.

    Attributes:
        transfers: what was moved since the start, or since `forget_transfers`.

    Raises:
        RuntimeError: fewer than one device.
    """

    kind: ClassVar[str] = "cuda"
    array = StandInArray
    exhausted = StandInMemoryError

    def __init__(self, count: int = 1, *, memory: int | None = None) -> None:
        if count < 1:
            raise DeviceError(f"a stand-in has at least one device, got {count}")
        self.xp = _Namespace(self, "")
        self.transfers = Transfers()
        self._devices = [Device("cuda", index) for index in range(count)]
        self._allocated = [0] * count
        self._peak = [0] * count
        self._limits: list[int | None] = [memory] * count
        self._current = _Current()
        self._lock = threading.RLock()
        self._live: dict[int, int] = {}
        """By identity of memory that is counted, its bytes."""
        self._before: Backend | None = None

    def forget_transfers(self) -> None:
        """Start counting transfers anew."""
        self.transfers = Transfers()

    # ---- the interface ----------------------------------------------------------------------------------------------

    def count(self) -> int:
        return len(self._devices)

    def numerics(self) -> str:
        return "simulated"

    def current(self) -> int:
        return self._current.index

    @contextmanager
    def on(self, index: int) -> Generator[None]:
        before, self._current.index = self._current.index, index
        try:
            yield
        finally:
            self._current.index = before

    def index_of(self, array: Any) -> int:
        return int(array._index)

    def device_of(self, array: Any) -> Device:
        return array._owner._devices[array._index]

    def from_host(self, array: Any, index: int) -> Any:
        def copied(dense: Any) -> Any:
            self.count_to_device(dense.nbytes)
            return self._owned(np.array(dense, order="C", copy=True, subok=False), index)

        with self.on(index):
            return in_own_order(array, copied)

    def to_host(self, array: Any) -> Any:
        with self.on(array._index):
            return in_own_order(array, lambda dense: dense.get(order="C"))

    def copy_to(self, array: Any, index: int) -> Any:
        def copied(dense: Any) -> Any:
            with self._lock:
                self.transfers.between += 1
                self.transfers.between_bytes += dense.nbytes
            return self._owned(dense._host.copy(), index)

        with self.on(array._index):
            self.check((array,))
            return in_own_order(array, copied)

    def memory(self, index: int) -> Memory:
        total = self._limits[index] or TOTAL
        used = self._allocated[index]
        return Memory(used, self._peak[index], max(total - used, 0), total)

    def reset_peak(self, index: int) -> None:
        self._peak[index] = self._allocated[index]

    def limit(self, index: int, size: int | None) -> None:
        self._limits[index] = size

    def synchronize(self, index: int) -> None:
        """NumPy does what it is told at once."""

    def empty_cache(self) -> None:
        """Nothing is kept that no array holds."""

    def start_of(self, array: Any) -> int:
        return array._host.__array_interface__["data"][0]

    def writable(self, array: Any) -> bool:
        return array._host.flags.writeable and not overlaps_itself(array.shape, array.strides)

    # ---- switched on and off ----------------------------------------------------------------------------------------

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let what served "cuda" before serve it again."""
        from .serving import serve

        serve(self._before)

    # ---- what its arrays ask for ------------------------------------------------------------------------------------

    def count_to_device(self, size: int) -> None:
        """Count a copy from the host."""
        with self._lock:
            self.transfers.to_device += 1
            self.transfers.to_device_bytes += size

    def count_to_host(self, size: int) -> None:
        """Count a copy to the host."""
        with self._lock:
            self.transfers.to_host += 1
            self.transfers.to_host_bytes += size

    def count_question(self) -> None:
        """Count that the host asked for an element, and waited."""
        with self._lock:
            self.transfers.questions += 1

    def check(self, values: Sequence[Any]) -> None:
        """Check that what an operation is given lies on the current device.

        Raises:
            TypeError: an array of NumPy's is among it.
            ValueError: an array of another device, or of another stand-in.
        """
        for value in values:
            if type(value) is StandInArray:
                if value._owner is not self:
                    raise ValueError("an array of a stand-in that was switched off is used with another's")
                if value._index != self._current.index:
                    raise ValueError(
                        f"The device where the array resides ({value._index}) is different from the current device "
                        f"({self._current.index})."
                    )
            elif isinstance(value, np.ndarray):
                raise TypeError(f"Unsupported type {np.ndarray}")
            elif type(value) is tuple or type(value) is list:
                self.check(cast("list[Any]", value))

    def run(self, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what a function of NumPy's gives for arrays of this device, as arrays of this device."""
        self.check(args)
        self.check(list(options.values()))
        out = options.get("out")
        given = bare(tuple(args))
        result = function(*given, **{name: bare(value) for name, value in options.items()})
        if out is not None:
            return cast("Any", out[0] if type(out) is tuple else out)
        arrays = [value for value in _flat([*args, *options.values()]) if type(value) is StandInArray]
        return self.wrapped(result, arrays, self._current.index)

    def wrapped(self, result: Any, operands: Sequence[StandInArray], index: int) -> Any:
        """Return a result with its arrays, and NumPy's scalars, as arrays of a device; views know their bases."""
        if isinstance(result, np.generic):
            return self._owned(np.asarray(cast("Any", result)), index)
        if isinstance(result, np.ndarray):
            array = cast("np.ndarray[Any, Any]", result)
            root = _root(array)
            for operand in operands:
                if array is operand._host:
                    return operand
                if root is _root(operand._host):
                    base = operand if operand._base is None else operand._base
                    if operand._host.flags.writeable and 0 not in array.strides:
                        array.flags.writeable = True  # diagonals: CuPy has no arrays that are read-only
                    return StandInArray.around(array, index, self, base)
            return self._owned(array, index)
        if isinstance(result, tuple | list):  # named tuples too, as `slogdet` and `svd` give
            kind: Any = list if isinstance(result, list) else tuple
            return kind([self.wrapped(item, operands, index) for item in cast("list[Any]", result)])
        return result

    def _owned(self, host: np.ndarray[Any, Any], index: int) -> StandInArray:
        """Return an array around new memory, which is counted until nothing refers to it.

        Raises:
            StandInMemoryError: it is more than the device has left.
        """
        root: Any = _root(host)
        with self._lock:
            if id(root) not in self._live:
                size = int(root.nbytes)
                limit = self._limits[index]
                if limit is not None and self._allocated[index] + size > limit:
                    raise StandInMemoryError(
                        f"out of memory allocating {size} bytes on device {index} (allocated so far: "
                        f"{self._allocated[index]} bytes, limit set to: {limit} bytes)"
                    )
                self._live[id(root)] = size
                self._allocated[index] += size
                self._peak[index] = max(self._peak[index], self._allocated[index])
                weakref.finalize(root, self._released, id(root), index).atexit = False
        return StandInArray.around(host, index, self)

    def _released(self, memory: int, index: int) -> None:
        with self._lock:
            self._allocated[index] -= self._live.pop(memory)


def use_stand_in(count: int = 1, *, memory: int | None = None) -> StandIn:
    """Let simulated devices serve "cuda" until the `close` of what is returned, or the end of its `with` block.

    Args:
        count: how many devices there are.
        memory: how many bytes the arrays of each may hold, None for no limit.
    """
    from .serving import serve

    stand_in = StandIn(count, memory=memory)
    stand_in._before = serve(stand_in)
    return stand_in


def _root(array: Any) -> Any:
    while isinstance(array.base, np.ndarray):
        array = cast("Any", array.base)
    return array


def _flat(values: Sequence[Any]) -> Generator[Any]:
    for value in values:
        if type(value) is tuple or type(value) is list:
            yield from _flat(cast("list[Any]", value))
        else:
            yield value


class _Namespace:
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
            return _Namespace(owner, name)
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


_DTYPES = frozenset(name for name in dir(np) if isinstance(getattr(np, name), type) and name in np.sctypeDict)


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
        self._ufunc.at(array._host, bare(indices), bare(values))

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
    made = strided_over(array._host, tuple(shape), tuple(strides))
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
            return tuple([owner._owned(one, owner.current()) for one in cast("tuple[Any, ...]", made)])
        return owner._owned(made, owner.current())

    return make


def _converted(owner: StandIn, function: Any, args: Any, options: dict[str, Any]) -> Any:
    """Return what CuPy's `array` and `asarray` make: of what the host holds a copy, which is a transfer."""
    value = args[0]
    if type(value) is StandInArray:
        return owner.run(function, args, options)
    made = np.array(function(*args, **options))
    if made.ndim or isinstance(value, np.ndarray):
        owner.count_to_device(made.nbytes)
    return owner._owned(made, owner.current())
