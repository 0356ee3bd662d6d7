"""Contexts without pickles: a packed context (`workers.values.contexts`) in the closed data model, and back.

Each part is written and read by its place, so that no byte which came from outside stands where a pickle is read."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, PACKED, VALUE as HELD
from raygrad.errors import ProtocolError, ServiceError
from raygrad.proto.codec.checks import fields, one_of, shown, text
from raygrad.proto.codec.values import Blob
from raygrad.workers.code.pickling import pickle_value
from raygrad.workers.code.unpickling import unpickle_value

from .closed_values import closed, opened
from .named_code import BY_VALUE, VALUE, NamedModules

_FACTS: Final = (
    "refused", "copied", "references", "needs", "materialize", "barren", "wanted", "inputs", "outputs", "places",
)  # fmt: skip
"""Parts that are plain data."""

_KINDS: Final = (INPUT, OUTPUT, HELD, PACKED)


def closed_context(packed: dict[str, Any], what: str) -> list[Any]:
    """Return a packed context in the data model.

    Raises:
        ServiceError: an attribute or a hook does not pass; names it.
    """
    hooks = [
        None if one is None else closed(unpickle_value(bytes(one.data)), f"a hook of {what}") for one in packed["hooks"]
    ]
    attributes = [
        part
        for name, entry in packed["attributes"].items()
        for part in (name, _closed_entry(entry, f"the attribute 'ctx.{name}' of {what}"))
    ]
    notes = packed["notes"]
    return [
        [_closed_slot(slot, what) for slot in packed["saved"]],
        hooks,
        attributes,
        None if notes is None else _closed_entry(notes, f"the metadata of {what}"),
        *[closed(packed[name], what) for name in _FACTS],
    ]


def _closed_slot(slot: Any, what: str) -> Any:
    if slot is None:
        return None
    kind, position, value = slot
    if kind == PACKED:
        of, meta, entry = value
        value = [of, closed(meta, what), _closed_entry(entry, f"what a hook of saved tensors made of one, in {what},")]
    elif value is not None:
        value = _closed_entry((*value, False), f"a saved tensor of {what}")
    return [kind, position, value]


def _closed_entry(entry: tuple[Any, ...], what: str) -> list[Any]:
    kind, value = entry[:2]
    if kind == "device":
        return ["device", *value, entry[2]]
    if kind == "pickle":
        blob, *arrays = value
        if arrays:
            raise ServiceError(
                f"{what} holds arrays of devices inside of another object, which do not pass without pickles: make "
                f"them attributes by themselves, {BY_VALUE}",
                VALUE,
            )
        return ["value", closed(unpickle_value(bytes(blob.data)), what)]
    return [kind, value, *entry[2:]]


# ---- and back --------------------------------------------------------------------------------------------------------


def opened_context(tree: Any, modules: NamedModules) -> dict[str, Any]:
    """Return the packed context that `closed_context` was given.

    Raises:
        ProtocolError: it is none.
        ServiceError: it names what may not be named.
    """
    saved, hooks, attributes, notes, *facts = _parts(tree, 4 + len(_FACTS), "context")
    names = _list(attributes, "attributes of a context")
    return {
        "saved": [_opened_slot(slot, modules) for slot in _list(saved, "saved tensors of a context")],
        "hooks": [
            None if one is None else Blob(pickle_value(opened(one, modules))) for one in _parts(hooks, 2, "hooks")
        ],
        "attributes": {
            text(name, "attribute of a context"): _opened_entry(entry, modules)
            for name, entry in zip(names[::2], names[1::2], strict=True)
        },
        "notes": None if notes is None else _opened_entry(notes, modules),
        **{name: opened(fact, modules) for name, fact in zip(_FACTS, facts, strict=True)},
    }


def _opened_slot(slot: Any, modules: NamedModules) -> Any:
    if slot is None:
        return None
    kind, position, value = _parts(slot, 3, "saved tensor")
    one_of(kind, "kind of a saved tensor", _KINDS)
    if kind == PACKED:
        of, meta, entry = _parts(value, 3, "saved tensor that a hook packed")
        value = (one_of(of, "kind of a saved tensor", _KINDS), opened(meta, modules), _opened_entry(entry, modules))
    elif kind == HELD:
        value = _opened_entry(value, modules)[:2]
        if value[0] not in ("tensor", "array", "device"):
            raise ProtocolError(f"a saved tensor is {shown(value[0])}")
    elif value is not None:
        raise ProtocolError("a reference to a saved tensor holds one")
    return (kind, position, value)


def _opened_entry(entry: Any, modules: NamedModules) -> tuple[Any, ...]:
    parts = _list(entry, "part of a context")
    match parts:
        case ["device", str(place), array, bool() | None as owns] if type(array) is np.ndarray:
            return ("device", (place, array), owns)
        case ["tensor" | "array" as kind, array, bool(flag)] if type(array) is np.ndarray:
            return (kind, array, flag)
        case ["plain", bool() | int() | float() | complex() | str() | bytes() | None as value]:
            return ("plain", value)
        case ["value", tree]:
            return ("pickle", (Blob(pickle_value(opened(tree, modules))),))
        case _:
            raise ProtocolError(f"a part of a context is {shown(entry)}")


def _list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise ProtocolError(f"the {what} is no list but {shown(value)}")
    return cast("list[Any]", value)


def _parts(value: Any, count: int, what: str) -> tuple[Any, ...]:
    return fields(tuple(_list(value, what)), count, what)
