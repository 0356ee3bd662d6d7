"""Enumerations that go by value: how a class is made again with its members.

`pickling` takes one apart, `unpickling` makes it again. Members are made as they are, without the `__new__` and
`__init__` of the user's class, which arrive with its other methods."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, cast

_MADE_ANEW: Final = frozenset(("_name_", "_value_", "__objclass__", "_sort_order_"))
"""Attributes of members that `make_enumeration` sets."""

MemberAttributes: TypeAlias = dict[str, dict[str, Any]]
"""By name, the attributes of members beside those that every member has."""


class Member(NamedTuple):
    """A name in an enumeration, with the member that it stands for."""

    name: str
    of: str
    """The member's own name: another one for an alias."""
    value: Any
    data: tuple[Any, ...]
    """The arguments of which the data type of the enumeration (`int`, `str`) makes the member."""
    listed: bool
    """Whether it is met in iteration: a combination of flags is not."""


def members_of(cls: Any) -> list[Member]:
    """Return the names in an enumeration in their order, aliases included."""
    arguments = getattr(cls._member_type_, "__getnewargs__", None)
    found: list[Member] = []
    for name, member in cls.__members__.items():
        data = () if arguments is None else arguments(member)
        found.append(Member(name, member._name_, member._value_, data, name in cls._member_names_))
    return found


def attributes_of_members(cls: type[Enum]) -> MemberAttributes:
    """Return the attributes of the members of an enumeration."""
    found: MemberAttributes = {}
    for name, member in cls.__members__.items():
        found[name] = {key: held for key, held in vars(member).items() if key not in _MADE_ANEW}
    return found


def make_enumeration(
    bases: tuple[type[Any], ...], name: str, qualname: str, members: list[Member], module: str, *_: Any
) -> type[Enum]:
    """Return an enumeration with its members, whose methods and attributes are still to be set."""
    metaclass: Any = type(bases[-1])
    cls: Any = metaclass.__new__(metaclass, name, bases, metaclass.__prepare__(name, bases))
    cls.__module__, cls.__qualname__ = module, qualname
    for number, one in enumerate(members):
        if one.name == one.of:
            member: Any = cls._member_type_.__new__(cls, *one.data) if one.data else object.__new__(cls)
            member._name_, member._value_, member._sort_order_ = one.name, one.value, number
            member.__objclass__ = cls
            try:
                cls._value2member_map_.setdefault(one.value, member)
            except TypeError:  # not hashable: Python looks among the members
                pass
        else:
            member = cls._member_map_[one.of]
        cls._member_map_[one.name] = member
        if one.listed:
            cls._member_names_.append(one.name)
        type.__setattr__(cls, one.name, member)
    return cast("type[Enum]", cls)


def set_attributes(cls: Any, attributes: MemberAttributes) -> None:
    """Give the members of an enumeration their attributes."""
    for name, held in attributes.items():
        cast("dict[str, Any]", vars(cls._member_map_[name])).update(held)
