"""Plain data back to dataclasses: reads what `as_plain_data` wrote, by the types of the fields.

A saved plan is read with it. Only data is made: numbers, texts, tuples, enumerations, named tuples and dataclasses of
the types that the reader names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_plain_data(kind: type[T], data: Any) -> T:
    """Return data as an object of a type.

    Raises:
        ValueError: it does not fit the type; says where.
    """
    return _read(kind, data, kind.__name__)


def _read(kind: Any, data: Any, where: str) -> Any:
    cls: type[Any] = kind if isinstance(kind, type) else object
    named: Any = cls
    origin = get_origin(kind)
    if origin in (UnionType, Union):
        return _read_union(kind, data, where)
    if origin is tuple:
        return _read_tuple(get_args(kind), _sequence(data, where), where)
    if is_dataclass(kind):
        return _read_fields(kind, {field.name for field in fields(kind) if field.init}, data, where)
    if issubclass(cls, tuple):
        return _read_fields(kind, set(named._fields), data, where)
    if issubclass(cls, Enum):
        members = tuple(cls)
        found = [member for member in members if str(member) == data]
        if not found:
            raise ValueError(f"{where} is {data!r}, which is none of {', '.join(map(str, members))}")
        return found[0]
    if kind is float and type(data) is int:
        return float(data)
    if kind is not Any and type(data) is not kind:
        raise ValueError(f"{where} is {data!r} where {cls.__name__} is expected")
    return data


def _read_union(kind: Any, data: Any, where: str) -> Any:
    kinds = get_args(kind)
    if data is None and NoneType in kinds:
        return None
    wrong: list[str] = []
    for one in kinds:
        if one is not NoneType:
            try:
                return _read(one, data, where)
            except ValueError as error:
                wrong.append(str(error))
    raise ValueError("; ".join(wrong) or f"{where} is {data!r}")


def _read_tuple(kinds: tuple[Any, ...], data: Sequence[Any], where: str) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple([_read(kinds[0], one, f"{where}[{index}]") for index, one in enumerate(data)])
    if len(kinds) != len(data):
        raise ValueError(f"{where} has {len(data)} entries where {len(kinds)} are expected")
    return tuple(
        [_read(kind, one, f"{where}[{index}]") for index, (kind, one) in enumerate(zip(kinds, data, strict=True))]
    )


def _read_fields(kind: Any, names: set[str], data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r} where the fields of {kind.__name__} are expected")
    given = cast("Mapping[str, Any]", data)
    if set(given) != names:
        different = ", ".join(sorted(set(given) ^ names))
        raise ValueError(f"{where} does not have the fields of {kind.__name__}; they differ in: {different}")
    types = get_type_hints(kind)
    return kind(**{name: _read(types[name], value, f"{where}.{name}") for name, value in given.items()})


def _sequence(data: Any, where: str) -> Sequence[Any]:
    if not isinstance(data, list | tuple):
        raise ValueError(f"{where} is {data!r} where a list is expected")
    return cast("Sequence[Any]", data)
