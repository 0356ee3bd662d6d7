"""The codec of a context's parts: saved slots, attributes, hooks and specs as plain data, and back.

`contexts` packs and rebuilds whole contexts from these parts. An array of a device travels as (device, array of the
host), and is on its device wherever it is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.array_layout import is_array
from raygrad.autograd.core.hooks import HookDict
from raygrad.autograd.derived.function_with_saved_hooks import unpack_of
from raygrad.autograd.devices.backends.device import Device
from raygrad.autograd.devices.serving import device_of, is_device_array
from raygrad.autograd.functions.function import Function, FunctionNode
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, PACKED, UNSHARED, VALUE, SavedSlot
from raygrad.autograd.saved.saved_tensor_hooks import PackedSavedTensor
from raygrad.autograd.storage.view import owns_grad
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Blob
from raygrad.tracebacks import attribute_of

from ..code.array_form import NUMERIC, form_of
from ..code.common_objects import sharing
from ..code.pickling import pickle_value
from ..code.unpickling import rebuilt_tensor, unpickle_value
from .device_staging import StagedArray, pack_object, staged, unpack_object, unstaged

PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
"""Types of attributes that are packed as themselves."""


def pack_slot(node: FunctionNode, slot: SavedSlot | None, asked: bool) -> Any:
    if slot is None:
        return None
    if slot.kind is PACKED:
        what, packed = slot.value
        meta, value = packed.content
        return (PACKED, slot.position, (what, pack_meta(meta), pack_attribute(node, "saved_tensors", value, asked)))
    return (
        slot.kind,
        slot.position,
        pack_attribute(node, "saved_tensors", slot.value, asked)[:2] if slot.kind is VALUE else None,
    )


def unpack_slot(cls: type[Function], slot: Any) -> SavedSlot | None:
    if slot is None:
        return None
    kind, position, array = slot
    if kind == PACKED:
        what, meta, value = array
        what = next(known for known in (INPUT, OUTPUT, VALUE) if known == what)
        packed = PackedSavedTensor.rebuild(unpack_of(cls), unpack_meta(meta), unpack_attribute(value))
        return SavedSlot(PACKED, position, (what, packed), UNSHARED, 0)
    if kind == VALUE:
        found = unstaged(*array[1]) if array[0] == "device" else array[1]
        return SavedSlot(VALUE, -1, Tensor.made(found), UNSHARED, 0)
    return SavedSlot(INPUT if kind == INPUT else OUTPUT, position, None, UNSHARED, 0)


def pack_hooks(hooks: HookDict | None) -> Any:
    """Return the hooks that forward registered on its ctx, and the paths of their registration, pickled."""
    if not hooks:
        return None
    return Blob(pickle_value([(hook, (tuple(path[0][:2]), *path[1:])) for hook, path in hooks.with_paths()]))


def unpack_hooks(packed: Any) -> HookDict | None:
    if packed is None:
        return None
    hooks: list[tuple[Any, Any]] = unpickle_value(bytes(packed.data))
    return HookDict(enumerate([hook for hook, _ in hooks]), enumerate([path for _, path in hooks]))


_AND: Final = "\0"
"""Stands between the names of attributes that are packed together."""


def pack_attributes(node: FunctionNode, attributes: Mapping[str, Any], asked: bool) -> dict[str, Any]:
    """Return the attributes of a context packed, by name: those that hold an object in common together, by the names of
    all."""
    together = sharing(attributes)
    packed = {
        name: pack_attribute(node, name, value, asked) for name, value in attributes.items() if name not in together
    }
    if together:
        values = tuple([attributes[name] for name in together])
        packed[_AND.join(together)] = pack_attribute(node, ", ctx.".join(together), values, asked)
    return packed


def unpack_attributes(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `pack_attributes` was given."""
    attributes: dict[str, Any] = {}
    for name, entry in packed.items():
        value = unpack_attribute(entry)
        attributes.update(zip(name.split(_AND), value, strict=True) if _AND in name else [(name, value)])
    return attributes


def pack_attribute(node: FunctionNode, name: str, value: Any, asked: bool) -> Any:
    data = attribute_of(value, "_data", value)
    if is_device_array(data):
        if not asked:
            raise NotShippable(
                f"'ctx.{name}' of {node.name()} is on {device_of(data)}, and does not leave its worker: keep what "
                "others read as a tensor of the host (tensor.cpu())"
            )
        return ("device", staged(data), owns_grad(value) if isinstance(value, Tensor) else None)
    if isinstance(value, Tensor):
        return ("tensor", value.read(), owns_grad(value))
    if type(value) is np.ndarray and value.dtype.kind in NUMERIC and form_of(value) is None:
        return ("array", value, value.flags.writeable)
    if type(value) in PLAIN:
        return ("plain", value)
    try:
        return ("pickle", pack_object(value, asked))
    except Exception as error:
        raise NotShippable(
            f"the attribute 'ctx.{name}' of {node.name()} is a {type(value).__name__} that cannot be pickled, but its "
            f"backward runs in another segment ({error}); save arrays instead, and rebuild it in backward"
        ) from error


def unpack_attribute(entry: Any) -> Any:
    kind, value = entry[0], entry[1]
    if kind == "tensor":
        return rebuilt_tensor(value, entry[2])
    if kind == "array":
        return value.copy() if entry[2] else value
    if kind == "pickle":
        return unpack_object(value)
    if kind == "device":
        return unstaged(*value) if entry[2] is None else rebuilt_tensor(unstaged(*value), entry[2])
    return value


def pack_places(places: Sequence[Any] | None) -> Any:
    return None if places is None else tuple([None if place is None else str(place) for place in places])


def pack_meta(meta: Any) -> Any:
    return None if meta is None else (tuple(meta[0]), _dtype_name(np.dtype(meta[1])))


@lru_cache(maxsize=256)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, which NumPy puts together anew each time."""
    return dtype.name


def unpack_meta(meta: Any) -> Any:
    return None if meta is None else (tuple(meta[0]), np.dtype(meta[1]))


# ---- on a device and off it ------------------------------------------------------------------------------------------


def placed(packed: dict[str, Any]) -> dict[str, Any]:
    """Return a packed context with its arrays moved to their devices, as far as these are served here."""
    return _with_arrays(packed, lambda one: (one[0], unstaged(*one)))


def unplaced(packed: dict[str, Any]) -> dict[str, Any]:
    """Return a packed context with its arrays staged in host memory; the inverse of `placed`."""
    return _with_arrays(packed, lambda one: staged(one[1]) if is_device_array(one[1]) else one)


def _with_arrays(packed: dict[str, Any], change: Callable[[StagedArray], StagedArray]) -> dict[str, Any]:
    def changed(entry: Any) -> Any:
        if entry is not None and entry[0] == "device":
            return ("device", change(entry[1]), *entry[2:])
        if entry is not None and entry[0] == "pickle" and len(entry[1]) > 1:
            blob, *arrays = entry[1]
            return ("pickle", (blob, *map(change, arrays)))
        return entry

    def slot(one: Any) -> Any:
        if one is None or one[2] is None:
            return one
        kind, position, value = one
        return (kind, position, (*value[:2], changed(value[2])) if kind == PACKED else changed(value))

    attributes = {name: changed(entry) for name, entry in packed["attributes"].items()}
    saved = [slot(one) for one in packed["saved"]]
    return {**packed, "saved": saved, "attributes": attributes, "notes": changed(packed["notes"])}


def is_opaque(value: Any) -> bool:
    """Tell whether an object may hold uncounted memory: it is no tensor, array or plain data, nor a container of
    such."""
    if isinstance(value, dict):
        return any([is_opaque(one) for one in cast("dict[Any, Any]", value).values()])
    if isinstance(value, list | tuple):
        return any([is_opaque(one) for one in cast("Sequence[Any]", value)])
    if is_array(value):
        return bool(value.dtype.hasobject)
    return not (isinstance(value, Tensor | Device | np.dtype) or type(value) in PLAIN)
