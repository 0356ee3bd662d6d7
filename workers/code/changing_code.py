"""Code that has changed what it captures: what runs in this process have shown, which no look at the code shows.

A library may change a container that it is handed. `shipping` asks whether the latest run of some code did.
"""

from __future__ import annotations

import weakref
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from raygrad.autograd.functions.function import FunctionMeta

if TYPE_CHECKING:
    from .shipping import Shipment

_changing: weakref.WeakSet[Any] = weakref.WeakSet()


def definition_of(obj: Any) -> Any:
    """Return what calls of a piece of code have in common, also where the program defines it anew each time: its code
    object, or its class."""
    if isinstance(obj, partial):
        return definition_of(obj.func)
    if isinstance(obj, MethodType):
        return obj.__func__.__code__ if isinstance(obj.__func__, FunctionType) else type(obj.__self__)
    if isinstance(obj, FunctionMeta):
        written: Any = obj.__dict__.get("forward")
        return definition_of(written.__func__) if isinstance(written, staticmethod) else obj
    if isinstance(obj, FunctionType):
        return obj.__code__
    return obj if isinstance(obj, type) and type(obj).__hash__ is not None else type(obj)


def changes_state(obj: Any) -> bool:
    """Tell whether the latest run of some code in this process has changed what the code captures."""
    return bool(_changing) and definition_of(obj) in _changing


def note_run(shipment: Shipment) -> None:
    """Take note of whether live code has changed what it captures, now that it has run."""
    if shipment.watched is not None:
        if not shipment.watched.holds():
            _changing.add(definition_of(shipment.live))
        elif _changing:
            _changing.discard(definition_of(shipment.live))
