"""Nested values as JSON text and named arrays, and back: what `raygrad.save` puts in a file.

A value of JSON stands for itself; anything else is an object with one key, its kind. No value names code to be run.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

import numpy as np

from raygrad.autograd.core.dtypes import is_known, known
from raygrad.autograd.core.modes import no_grad
from raygrad.autograd.core.size import Size
from raygrad.autograd.devices import Device, device
from raygrad.autograd.storage.storage import memory_key
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DeviceError, LoadError, NoSingleValue, SaveError

from .array_file import STORED, Array

DEEPEST: Final = 100
"""Containers inside each other: more than programs have, and few enough for every reader of JSON."""

LONGEST_INT: Final = 1 << 64
"""Above it an int is saved as hexadecimal digits: readers of JSON refuse or round longer ones."""

_MAPPINGS: Final[Mapping[str, type[Any]]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_SEQUENCES: Final[Mapping[str, type[Any]]] = {
    "tuple": tuple,
    "Size": Size,
    "set": set,
    "frozenset": frozenset,
}
_PLAIN: Final = (bool, str, type(None))

Path = tuple[Any, ...]
"""The keys and indices that lead to a value."""


def shown_path(path: Path) -> str:
    """Return a path as errors show it: `optimizer.state[3]['momentum']`."""
    text = ""
    for number, key in enumerate(path):
        dotted = isinstance(key, str) and key.isidentifier() and "[" not in text
        text += (f".{key}" if number else str(key)) if dotted else f"[{key!r}]"
    return text or "the object"


# ---- to text and arrays ----------------------------------------------------------------------------------------------


class Encoder:
    """Turns one value into text and arrays.

    Attributes:
        arrays: by name, contiguous and in the byte order of files.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._entries: list[dict[str, Any]] = []
        """Of each array: its name, dtype and order of axes."""
        self._tensors: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}
        """By identity of a tensor, or of memory, its number."""
        self._alive: list[Any] = []
        """What `_known` knows by identity."""
        self._open: set[int] = set()
        """The containers that the value at hand lies in."""

    def text(self, value: Any) -> str:
        """Return the text of a value.

        Raises:
            SaveError: something in it cannot be saved; the message names its path.
        """
        encoded = self._encoded(value, ())
        return json.dumps({"value": encoded, "arrays": self._entries, "tensors": self._tensors}, allow_nan=False)

    def _encoded(self, value: Any, path: Path) -> Any:
        kind = cast("Any", type(value))
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if abs(value) < LONGEST_INT else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self._encoded(value.real, path), self._encoded(value.imag, path)]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, Tensor):
            return {"tensor": self._tensor(value, path)}
        if kind is np.ndarray:
            return {"array": self._array(value, path, ("array", *_geometry(value)), value)}
        if issubclass(kind, np.generic):
            return {"scalar": [_dtype_code(value.dtype, path), value.tobytes().hex()]}
        if issubclass(kind, np.dtype):
            return {"dtype": _dtype_code(value, path)}
        if kind is Device:
            return {"device": str(value)}
        return self._container(value, path)

    def _container(self, value: Any, path: Path) -> Any:
        kind = cast("Any", type(value))
        name = kind.__name__
        mapping, sequence = _MAPPINGS.get(name) is kind, _SEQUENCES.get(name) is kind
        if not (mapping or sequence or kind is list):
            _refuse(value, path)
        if id(value) in self._open:
            raise SaveError(f"{shown_path(path)} contains itself; a file holds trees: break the cycle", path)
        if len(path) >= DEEPEST:
            raise SaveError(f"{shown_path(path[:5])} is nested more than {DEEPEST} deep: flatten it", path)
        self._open.add(id(value))
        try:
            if mapping:
                inside: Any = [
                    [self._key(key, path), self._encoded(one, (*path, key))] for key, one in tuple(value.items())
                ]
            else:
                inside = [self._encoded(one, (*path, index)) for index, one in enumerate(tuple(value))]
        finally:
            self._open.remove(id(value))
        return inside if kind is list else {name: inside}

    def _key(self, key: Any, path: Path) -> Any:
        kind = cast("Any", type(key))
        if issubclass(kind, Tensor | np.ndarray):
            raise SaveError(
                f"{shown_path(path)} has a {kind.__name__} as a key: save state_dict(), or number them", path
            )
        return self._encoded(key, (*path, key))

    def _tensor(self, tensor: Tensor, path: Path) -> int:
        number = self._known.get(id(tensor))
        if number is None:
            key = memory_key(tensor)
            try:
                host = _on_host(tensor)
            except NoSingleValue as error:
                error.add_note(f"raygrad: while saving {shown_path(path)}")
                raise
            array = self._array(host, path, key or ("tensor", id(tensor)), tensor)
            number = self._known[id(tensor)] = len(self._tensors)
            self._alive.append(tensor)
            self._tensors.append({"array": array, "requires_grad": tensor.requires_grad, "device": str(tensor.device)})
        return number

    def _array(self, array: Array, path: Path, key: Any, owner: Any) -> int:
        number = self._known.get(key)
        if number is None:
            code = _dtype_code(array.dtype, path)
            order = _axis_order(array)
            pairs = array.dtype.newbyteorder("<") == np.dtype("<c16")
            stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
            if pairs:  # files have no such dtype: other programs find real and imaginary parts
                stored = stored.reshape(-1).view("<f8").reshape(*array.shape, 2)
            number = self._known[key] = len(self._entries)
            self._alive.append(owner)
            name = self._name(path)
            self.arrays[name] = stored
            self._entries.append({"name": name, "dtype": code, **({} if order is None else {"order": order})})
        return number

    def _name(self, path: Path) -> str:
        """Return an unused name for an array: the keys that lead to it, with dots between."""
        text = ".".join(str(key) for key in path).encode("utf-8", "replace").decode() or "tensor"
        name, number = text, 1
        while name in self.arrays or name == "__metadata__":
            number += 1
            name = f"{text}#{number}"
        return name


def _on_host(tensor: Tensor) -> Array:
    """Return the elements of a tensor, which waits if they are pending. Those that are here are not copied, nor marked
    as shared."""
    data: Any = tensor._data
    if type(data) is np.ndarray:
        return data
    with no_grad():
        return (tensor if tensor.device.type == "cpu" else tensor.cpu()).read()


def _geometry(array: Array) -> tuple[Any, ...]:
    """Return what two arrays that are the same memory have in common."""
    if not array.size:
        return (id(array),)
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def _axis_order(array: Array) -> list[int] | None:
    """Return the axes from outermost to innermost; None in the natural order. What is computed later may depend on it
    in the last digit."""
    if array.flags.c_contiguous:
        return None
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return None if order == [*range(array.ndim)] else order


def _dtype_code(dtype: np.dtype[Any], path: Path) -> str:
    native = dtype.newbyteorder("<")
    if native not in STORED and native != np.dtype("<c16"):
        raise SaveError(
            f"{shown_path(path)} has the dtype {dtype}, which a file cannot hold: convert it to one of "
            f"{', '.join(known())}, or uint16, uint32, uint64",
            path,
        )
    return dtype.str


def _refuse(value: Any, path: Path) -> NoReturn:
    kind = cast("Any", type(value))
    remedy = "save what it is made of: tensors, numbers, strings, and lists and dicts of these"
    if callable(getattr(value, "state_dict", None)):
        remedy = f"save its state: {shown_path(path) if path else 'it'}.state_dict()"
    elif isinstance(value, Mapping):
        remedy = "save a plain dict of it: dict(...)"
    elif isinstance(value, str | int | float | tuple | list | set):
        remedy = f"save it as a plain {next(b.__name__ for b in kind.__mro__ if b.__module__ == 'builtins')}"
    elif kind.__module__.partition(".")[0] == "torch" and callable(getattr(value, "numpy", None)):
        remedy = "save a tensor of raygrad: raygrad.from_numpy(tensor.numpy())"
    elif isinstance(value, np.ndarray):
        remedy = "save a plain array: numpy.asarray(...)"
    elif callable(value):
        remedy = "files hold no code: leave it out, and let the program that loads the file make it"
    raise SaveError(
        f"{shown_path(path)} is of the type {kind.__module__}.{kind.__qualname__}, which is not saved, since nothing "
        f"is pickled; {remedy}",
        path,
    )


# ---- and back --------------------------------------------------------------------------------------------------------


class Decoder:
    """Makes the value that a text and arrays stand for.

    Args:
        arrays: by name, as they were read.
        place: moves a tensor to the device that it was saved from, whose name it is given.

    Raises (by `value`):
        LoadError, KeyError, TypeError, ValueError, IndexError: not a text of `Encoder`.
    """

    def __init__(self, arrays: Mapping[str, Array], place: Callable[[Tensor, str], Tensor]) -> None:
        self._arrays = arrays
        self._place = place
        self._entries: list[Any] = []
        self._described: list[Any] = []
        self._made: dict[int, Array] = {}
        self._tensors: dict[int, Tensor] = {}
        self._first: dict[tuple[int, str], Tensor] = {}
        """By number of an array and device, the tensor that shows it."""

    def value(self, text: str) -> Any:
        """Return the value of a text."""
        whole = json.loads(text)
        self._entries, self._described = whole["arrays"], whole["tensors"]
        return self._decoded(whole["value"])

    def _decoded(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self._decoded(one) for one in _items(data)]
        if not isinstance(data, dict):
            return data
        ((kind, inside),) = _pairs(data)
        if kind in _MAPPINGS:
            mapping: Any = _MAPPINGS[kind]
            return mapping({self._decoded(key): self._decoded(one) for key, one in inside})
        if kind in _SEQUENCES:
            sequence: Any = _SEQUENCES[kind]
            return sequence([self._decoded(one) for one in inside])
        return self._leaf(kind, inside)

    def _leaf(self, kind: str, inside: Any) -> Any:
        match kind:
            case "tensor":
                return self._tensor(inside)
            case "array":
                return self._array(inside)
            case "int":
                return int(inside, 16)
            case "float":
                return float(inside)
            case "complex":
                return complex(*[self._decoded(part) for part in inside])
            case "bytes":
                return base64.b64decode(inside)
            case "scalar":
                return np.frombuffer(bytes.fromhex(inside[1]), inside[0])[0]
            case "dtype":
                return np.dtype(inside)
            case "device":
                return device(inside)
            case _:
                raise LoadError(f"a value of the unknown kind {kind!r}: a later raygrad wrote this file")

    def _tensor(self, number: int) -> Tensor:
        tensor = self._tensors.get(number)
        if tensor is None:
            described = self._described[number]
            where = described["device"]
            shown = self._first.get((described["array"], where))
            if shown is None:
                name = self._entries[described["array"]]["name"]
                try:
                    tensor = self._place(plain_tensor(self._array(described["array"]), name), where)
                except DeviceError as error:
                    raise DeviceError(
                        f"the tensor {name!r} was saved from {where}: {error}; map_location='cpu' loads it there"
                    ) from error
                self._first[described["array"], where] = tensor
            else:
                tensor = shown.detach()
            self._tensors[number] = tensor
            if described["requires_grad"]:
                tensor.requires_grad = True
        return tensor

    def _array(self, number: int) -> Array:
        made = self._made.get(number)
        if made is None:
            entry = self._entries[number]
            array: Any = self._arrays[entry["name"]]
            dtype = np.dtype(entry["dtype"])
            if dtype.newbyteorder("<") == np.dtype("<c16"):
                array = array.reshape(-1).view("<c16").reshape(array.shape[:-1])
            order = entry.get("order")
            if order is not None:
                back = [order.index(axis) for axis in range(len(order))]
                array = np.ascontiguousarray(array.transpose(order)).transpose(back)
            made = self._made[number] = array.astype(dtype, copy=False)
        return made


def plain_tensor(array: Array, name: str) -> Tensor:
    """Return a tensor of an array that was read.

    Raises:
        LoadError: tensors cannot have its dtype.
    """
    if not is_known(array.dtype):
        raise LoadError(
            f"the tensor {name!r} has the dtype {array.dtype}, which raygrad's tensors cannot have; convert it with "
            f"the program that wrote it to one of {', '.join(known())}"
        )
    return Tensor.made(array)


def _items(data: Any) -> Iterable[Any]:
    return data


def _pairs(data: Any) -> Iterator[tuple[str, Any]]:
    return iter(data.items())
