"""Arrays of simulated devices: a NumPy array and a device number, with the interface and the refusals of CuPy's.

NumPy computes the results, so their bits are those of the host. The class does not derive from NumPy's array and does
not convert to it by itself. Where CuPy converts, warns or copies silently (a NumPy array as an index, operands of
another device than the current one), it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import setitem
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .cupy_names import FFT, FUNCTIONS, LACKING, LINALG, MAKERS, UFUNCS
from .simulated_streams import SimulatedPointer, SimulatedStream

if TYPE_CHECKING:
    from .simulated_device import StandIn

_new: Any = object.__new__


class LayoutFlags(NamedTuple):
    """What CuPy's arrays say of their layout; there is no `writeable`."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool


class CudaDeviceId(NamedTuple):
    """The device of an array, as CuPy's arrays name it."""

    id: int


def _question(kind: Callable[[Any], Any]) -> Callable[[StandInArray], Any]:
    """Return the method that reads an array's one element as a Python number: the host asks, and waits."""

    def ask(self: StandInArray) -> Any:
        self._owner.count_question()
        return kind(self._owner.read(self))

    return ask


class StandInArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a simulated device. `get()` copies it to the host."""

    __slots__ = ("__weakref__", "_base", "_host", "_index", "_owner")
    __array_priority__ = 100
    __hash__ = None

    _host: np.ndarray[Any, Any]
    _index: int
    _owner: StandIn
    _base: StandInArray | None

    @staticmethod
    def around(host: Any, index: int, owner: StandIn, base: StandInArray | None = None) -> StandInArray:
        """Return the array around memory of the simulated device."""
        made = _new(StandInArray)
        made._host, made._index, made._owner, made._base = host, index, owner, base
        return made

    # ---- what it is ---------------------------------------------------------------------------------------------

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    strides = property(lambda self: self._host.strides)
    base = property(lambda self: self._base)
    device = property(lambda self: CudaDeviceId(self._index))
    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    @property
    def real(self) -> StandInArray:
        """The real part; of a real array, itself."""
        return self._owner.wrapped(self._host.real, (self,), self._index)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> StandInArray:
        """The imaginary part; of a real array, zeros."""
        return self._owner.wrapped(self._host.imag, (self,), self._index)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    @property
    def data(self) -> SimulatedPointer:
        """The memory of the device."""
        return SimulatedPointer(self)

    @property
    def flags(self) -> LayoutFlags:
        """The layout."""
        flags = self._host.flags
        return LayoutFlags(flags.c_contiguous, flags.f_contiguous, self._base is None)

    # ---- ways to the host ---------------------------------------------------------------------------------------

    def get(
        self, stream: SimulatedStream | None = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        """Return a copy on the host: a transfer."""
        if not self._owner.is_counted:
            self._owner.count_to_host(self._host.nbytes)
        if out is None:
            out, blocking = np.empty_like(self._host, order="C" if order == "C" else "K"), True
        self._owner.streams.to_host(self, stream, out, blocking)
        return out

    def set(self, arr: np.ndarray[Any, Any], stream: SimulatedStream | None = None) -> None:
        """Copy an array of the host here: a transfer."""
        if not self._owner.is_counted:
            self._owner.count_to_device(self._host.nbytes)
        self._owner.streams.from_host(self, arr, stream)

    def item(self, *index: int) -> Any:
        """Return an element as a Python number: a transfer."""
        self._owner.count_to_host(self._host.itemsize)
        return self._owner.read(self).item(*index)

    def tolist(self) -> Any:
        """Return nested lists of Python numbers: a transfer."""
        self._owner.count_to_host(self._host.nbytes)
        return self._owner.read(self).tolist()

    __bool__, __float__, __int__, __complex__ = (_question(kind) for kind in (bool, float, int, complex))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("an array of the simulated device has no memory that a GPU could read: copy it to the host")

    def __reduce__(self) -> Any:
        raise TypeError("an array of a device is not to be pickled: that would copy it to the host and forget where")

    def __repr__(self) -> str:
        return f"<stand-in array of shape {self.shape} and dtype {self.dtype} on device {self._index}>"

    # ---- parts ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[StandInArray]:
        for position in range(len(self._host)):
            yield self[position]

    def __getitem__(self, index: Any) -> StandInArray:
        where = _index(index, self)
        made = self._owner.wrapped(_part(self._host, where), (self,), self._index)
        if made._base is None:  # no view: copied by a list of indices or a mask
            self._owner.follow(_part, (self, index), {}, made)
        return made

    def __setitem__(self, index: Any, value: Any) -> None:
        self._owner.check((self, value))
        self._host[_index(index, self)] = unwrap_arrays(value)
        self._owner.follow(setitem, (self, index, value), {}, None)

    # ---- operations -------------------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented if type(other) is not StandInArray else self._owner.run(np.matmul, (self, other), {})

    def __rmatmul__(self, other: Any) -> Any:
        return NotImplemented

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc.signature is not None or ufunc.__name__ not in UFUNCS:
            return NotImplemented
        return self._owner.run(ufunc, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = cupy_name(function)
        if name is None:
            return NotImplemented
        if name in MAKERS:  # asked for with `like=` an array of this device
            return getattr(self._owner.xp, name)(*args, **options)
        check_options(name, options)
        return self._owner.run(function, args, options)


_METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod cumsum dot "
    "fill flatten max mean min nonzero partition prod ptp put ravel repeat reshape round searchsorted sort std sum "
    "take trace var"
).split()
"""Methods that compute, or copy where they cannot view."""

_VIEWS = "diagonal squeeze swapaxes transpose view".split()


def _method(name: str, computes: bool) -> Any:
    def method(self: StandInArray, *args: Any, **options: Any) -> Any:
        check_options(name, options)
        if computes:
            return self._owner.run(getattr(np.ndarray, name, None) or getattr(np, name), (self, *args), options)
        return self._owner.wrapped(getattr(self._host, name)(*args, **options), (self,), self._index)

    method.__name__ = name
    method.__doc__ = f"As NumPy's `{name}`."
    return method


for _name in _METHODS:
    setattr(StandInArray, _name, _method(_name, True))
for _name in _VIEWS:
    setattr(StandInArray, _name, _method(_name, False))


def cupy_name(function: Any) -> str | None:
    """Return the name by which CuPy has a function of NumPy's; None if it has none."""
    name: str = function.__name__
    module: str = function.__module__ or ""
    if module == "numpy.linalg":
        return f"linalg.{name}" if name in LINALG else None
    if module == "numpy.fft":
        return f"fft.{name}" if name in FFT else None
    if module == "numpy.lib.stride_tricks":
        return name if name == "as_strided" else None
    return name if name in FUNCTIONS else None


def check_options(name: str, options: Any) -> None:
    """Refuse what CuPy's function of that name does not take.

    Raises:
        TypeError: an option is one of these.
    """
    lacking = ("out",) if name.startswith("fft.") else LACKING.get(name, ())
    for option in options:
        if option in lacking:
            raise TypeError(f"{name}() got an unexpected keyword argument '{option}'")


def unwrap_arrays(value: Any, memory: Callable[[StandInArray], Any] = lambda array: array._host) -> Any:
    """Return arguments with the arrays in them as NumPy's."""
    if type(value) is StandInArray:
        return memory(value)
    given = value
    if type(value) is tuple:
        return tuple([unwrap_arrays(item, memory) for item in given])
    if type(value) is list:
        return [unwrap_arrays(item, memory) for item in given]
    return value


def _part(host: Any, where: Any) -> Any:
    """Return a part of an array: of one element NumPy gives a copy, CuPy a view."""
    found: Any = host[where]
    if isinstance(found, np.ndarray):
        return cast("Any", found)
    return host[(*(where if type(where) is tuple else (where,)), ...)]


def _index(index: Any, array: StandInArray) -> Any:
    parts: tuple[Any, ...] = cast("tuple[Any, ...]", index) if type(index) is tuple else (index,)
    for part in parts:
        if isinstance(part, np.ndarray):
            raise TypeError("an index is a NumPy array: that would be a transfer unseen; copy it to the device first")
    if any(type(part) is StandInArray for part in parts):
        array._owner.check((array, *parts))
    return unwrap_arrays(index)
