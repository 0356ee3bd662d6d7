"""Own pickles as closed values, and closed values as own pickles: with or without the tensors that lie around them.

What a worker or a session holds in pickled form (what was emitted, objects with tensors in them) is opened by the side
that has pickled it, and pickled again by the side that is to read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import ProtocolError, ServiceError
from raygrad.proto.codec.checks import fields, integer, sequence, shown
from raygrad.workers.code.nested_tensors import Embedding
from raygrad.workers.code.pickling import pickle_around_tensors, pickle_value
from raygrad.workers.code.unpickling import load, unpickle_value

from .closed_values import closed_bytes, opened_bytes
from .named_code import BY_VALUE, VALUE, NamedModules


def closed_pickle(data: bytes, what: str) -> bytes:
    """Return the value of a pickle of this side's own as closed bytes.

    Raises:
        ServiceError: it is not of the data model.
    """
    return closed_bytes(unpickle_value(data), what)


def pickle_of_closed(data: Any, modules: NamedModules) -> bytes:
    """Return a pickle of this side's own of the value in closed bytes.

    Raises:
        ProtocolError: they hold none.
        ServiceError: it names what may not be named.
    """
    return pickle_value(opened_bytes(data, modules))


def closed_around(data: bytes, count: int, what: str) -> bytes:
    """Return the same of a pickle around so many tensors, which do not go along."""
    stand_ins = _stand_ins(count)
    value = load(data, (), stand_ins)
    return closed_bytes(value, what, {id(one): slot for slot, one in enumerate(stand_ins)})


def pickle_around(data: Any, count: int, modules: NamedModules, what: str) -> bytes:
    """Return a pickle of this side's own around so many tensors.

    Raises:
        ProtocolError: they are not in it, each, in their order.
    """
    return _pickled_around(opened_bytes(data, modules, stand_ins := _stand_ins(count)), stand_ins, what)


def _pickled_around(value: Any, stand_ins: Sequence[Tensor], what: str) -> bytes:
    pickled, pickler = pickle_around_tensors(value)
    found = pickler.captured
    if len(found) != len(stand_ins) or any([one is not other for one, other in zip(found, stand_ins, strict=True)]):
        raise ServiceError(
            f"the tensors in {what} are in no order that stays (in a set, say): pass them in a list, {BY_VALUE}", VALUE
        )
    return pickled


def closed_around_tensors(embedding: Embedding, what: str) -> tuple[bytes, tuple[tuple[int, int], ...], int]:
    """Return an argument with tensors in it as closed bytes, the places of the tensors, and whether it is several."""
    return closed_around(embedding.data, len(embedding.places), what), embedding.places, int(embedding.of_several)


def opened_around_tensors(data: Any, places: Any, several: Any, modules: NamedModules) -> Embedding:
    """Return the argument that `closed_around_tensors` was given.

    Raises:
        ProtocolError: it is none.
    """
    what = "place of a tensor"
    found: list[tuple[int, int]] = []
    for place in sequence(places, "places of tensors"):
        position, kind = fields(place, 2, what)
        found.append((integer(position, what, -1), integer(kind, what, 0, 8)))
    of_several = bool(integer(several, "mark of several arguments in one", 0, 2))
    return Embedding(pickle_around(data, len(found), modules, "an argument"), tuple(found), of_several)


def checked_emit(data: Any, count: int, modules: NamedModules) -> bytes:
    """Return a pickle of what a client emits, (name, value), around so many tensors.

    Raises:
        ProtocolError: it is no name and value.
    """
    stand_ins = _stand_ins(count)
    value = opened_bytes(data, modules, stand_ins)
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not str:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"what is emitted is no name and value but {shown(value)}")
    return _pickled_around(value, stand_ins, "what is emitted")


def _stand_ins(count: int) -> list[Tensor]:
    return [Tensor.made(np.zeros(())) for _ in range(count)]
