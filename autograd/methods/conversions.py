"""Conversions of a tensor: to NumPy arrays, DLPack, Python numbers, text, copies and pickles.

In a session these are the sync points: they wait for a pending value.
"""

from __future__ import annotations

from collections.abc import Generator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import leave

from .. import ops
from ..core import dtypes
from ..core.batched_data import Batched, innermost_data, single_value_error, without_closed_levels
from ..core.modes import PROTECTED, state
from ..core.recorder import Pending
from ..core.size import Size
from ..devices.serving import CPU, device_guard, device_of, is_on_device, ordinal_of, to_host, writable
from ..dispatch.device_dispatch import copied
from ..storage.storage import note_exported
from ..storage.view import LostData
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..nodes.node import Node
    from ..storage.storage import Storage
    from ..tensor.tangent_levels import Tangents


class Conversions:
    """Methods that convert a tensor to other types; a mixin of `Tensor`."""

    _data: Any
    _requires_grad: bool
    _shares_memory: bool
    _storage: Storage | None
    _frozen: bool
    _grad: Tensor | None
    _tangents: Tangents | None

    if TYPE_CHECKING:

        @property
        def grad_fn(self) -> Node | None: ...

        @property
        def shape(self) -> Size: ...

        @property
        def dtype(self) -> np.dtype[Any]: ...

    def read(self) -> np.ndarray[Any, Any]:
        """Return the data as an array sharing its memory, of its device; in a session, waits for it."""
        if type(self._data) is np.ndarray and not self._shares_memory:
            note_exported(cast("Tensor", self))
        array = self._read()
        return _read_only(array) if PROTECTED and type(array) is np.ndarray and _is_protected(array) else array

    def _read(self) -> np.ndarray[Any, Any]:
        """Return the same for a look that ends before user code runs: nobody else can write to it."""
        data = self._data
        if type(data) is Pending:
            recorder = data.record.recorder
            if self._shares_memory and not recorder.closed:
                data = recorder.leaf(cast("Tensor", self))
            array = recorder.read(data)
            if array is None:
                raise AutogradError("this gradient is undefined: no gradient arrived")
            return array
        if type(data) is LostData:
            data.refuse()
        return self._beneath("read()")._read() if type(data) is Batched else data

    def _beneath(self, how: str) -> Tensor:
        """Return the tensor of all examples beneath a batched one whose level is closed.

        Raises:
            NoSingleValue: it is open.
        """
        tensor = without_closed_levels(cast("Tensor", self))
        if type(tensor._data) is Batched:
            raise single_value_error(how)
        return tensor

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return the data as an array sharing its memory; in a session, waits for it (read-only then).

        Raises:
            RuntimeError: the tensor requires grad (EN-33); use `.detach().numpy()`.
        """
        try:
            if self._requires_grad and not force and state.here.grad:
                raise AutogradError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
                )
            if not self._shares_memory:
                self._shares_memory = True
                if self._storage is not None:
                    note_exported(cast("Tensor", self))
            array = self._data
            if type(array) is not np.ndarray:
                array = self._array_on_host(force)
            return _read_only(array) if self._frozen or (PROTECTED and _is_protected(array)) else array
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def _array_on_host(self, force: bool) -> Any:
        """Return the data of a tensor that is not simply an array of the host."""
        if type(self._data) is Batched:
            return self._beneath("numpy()").numpy(force=force)
        if is_on_device(self._data) and not force:
            raise TypeError(
                f"can't convert {device_of(self._data)} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return to_host(self._on_host()._read())

    def _on_host(self) -> Tensor:
        """Return a tensor whose data is on the host: itself, or a recorded transfer of a pending value on a device."""
        data = self._data
        if type(data) is Pending and is_on_device(data) and not data.record.recorder.closed:
            return ops.to_device(Tensor.made(data), CPU)
        return cast("Tensor", self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        if self._requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if not self._shares_memory:
            note_exported(cast("Tensor", self))
        array = self._read()
        with device_guard(array):  # who takes it waits for the stream that is current there
            return (array if writable(array) else array.copy()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        device = device_of(innermost_data(self._data))
        return (1, 0) if device.type == "cpu" else (2, ordinal_of(device))

    @property
    def __cuda_array_interface__(self) -> Any:
        """The CUDA array interface, by which other libraries read a tensor's memory.

        Raises:
            AttributeError: the tensor is on the host, as `hasattr` asks.
            RuntimeError: it requires grad.
        """
        array = innermost_data(self._data)
        if not is_on_device(array):
            raise AttributeError("a tensor on the host has no __cuda_array_interface__")
        if self._requires_grad:
            raise AutogradError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
                "var.detach() to get Variable that doesn't require grad."
            )
        array = self.read() if type(array) is Pending else array
        with device_guard(array):
            return cast("Any", array).__cuda_array_interface__

    def item(self) -> Any:
        """Return the one element as a Python number.

        Raises:
            RuntimeError: there is not exactly one element.
        """
        if type(self._data) is Batched:
            return self._beneath("item").item()
        if self._data.size != 1:
            raise AutogradError(f"a Tensor with {self._data.size} elements cannot be converted to Scalar")
        return self._on_host()._read().item()

    def tolist(self) -> Any:
        """Return the data as nested lists of Python numbers."""
        if type(self._data) is Batched:
            return self._beneath("item").tolist()
        return self._on_host()._read().tolist()

    def __bool__(self) -> bool:
        if type(self._data) is Batched:
            return bool(self._beneath("branch"))
        if self._data.size != 1:
            raise AutogradError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __await__(self) -> Generator[Any, None, Any]:
        return self._ready().__await__()

    async def _ready(self) -> Tensor:
        """Wait for the value without blocking the event loop; return the tensor itself."""
        if type(self._data) is Pending:
            import asyncio  # takes long to load, and who awaits has it

            await asyncio.get_running_loop().run_in_executor(None, self.read)
        return cast("Tensor", self)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        data = self._data
        if type(data) is Pending:
            here = data.record.recorder.peek(data)
            body = f"pending, shape={self.shape}, dtype={self.dtype}" if here is None else self._values(here)
        elif type(data) is Batched:
            body = f"batched, shape={self.shape}, dtype={self.dtype}"
        else:
            body = self._values(self._read())
        return self._text(body)

    def _values(self, array: Any) -> str:
        """Return the text of an array's elements."""
        body = np.array2string(to_host(array), separator=", ", precision=4, prefix="tensor(")
        if self.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool):
            body += f", dtype={self.dtype}"
        return body

    def _text(self, body: str) -> str:
        if is_on_device(innermost_data(self._data)):
            body += f", device='{device_of(innermost_data(self._data))}'"
        body += self._history()
        if state.here.forward:
            for level in state.here.forward:
                tangent = level.of(self)
                if tangent is not None:
                    body += f", tangent={tangent!r}"
        return f"tensor({body})"

    def _history(self) -> str:
        """Return the text of the node; of a stale view, none."""
        try:
            node = self.grad_fn
        except AutogradError:
            return ", grad_fn=<Invalid>"
        if node is not None:
            return f", grad_fn=<{node._title()}>"
        return ", requires_grad=True" if self._requires_grad else ""

    def __str__(self) -> str:
        if type(self._data) is Pending:
            return self._text(self._values(self._on_host()._read()))
        return repr(self)

    def __format__(self, spec: str) -> str:
        if not self.shape and spec:
            return format(self.item(), spec)
        return format(str(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.grad_fn is not None:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment; detach() it first"
            )
        copy = Tensor.made(copied(self._read()))
        copy._requires_grad = self._requires_grad
        memo[id(self)] = copy
        if self._grad is not None:
            copy._grad = deepcopy(self._grad, memo)
        return copy

    def __reduce__(self) -> Any:
        if self.grad_fn is not None:
            raise AutogradError(
                "a tensor with history cannot be pickled: its graph would be lost silently; pickle tensor.detach()"
            )
        held = innermost_data(self._data)
        if is_on_device(held):
            raise AutogradError(
                f"a tensor on {device_of(held)} cannot be pickled: that would copy it to the host unseen; "
                "pickle tensor.cpu(), and move it back where it is loaded"
            )
        return _rebuilt, (self._read(), self._requires_grad)


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array, or a view of it that cannot be written to."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _is_protected(array: Any) -> bool:
    """Tell whether an array shows memory of one of the arguments of the forward that is running, which must not be
    written to unsaid (DR-03)."""
    for argument in state.here.arguments or ():
        data: Any = argument._data if isinstance(argument, Tensor) else None
        if data is array or (type(data) is np.ndarray and np.may_share_memory(data, array)):
            return True
    return False


def _rebuilt(array: np.ndarray[Any, Any], requires_grad: bool) -> Tensor:
    tensor = Tensor.made(array)
    tensor._requires_grad = requires_grad
    return tensor
