"""Captured state: the tensors that functions reach, and a guard of everything else that they read.

Compiled functions are checked by it before each replay, shipped code before each use. The walk follows variables of
enclosing functions, named globals, attributes, slots, containers, and classes and functions of the user's. The code of
libraries is taken to stay as it is; what the user's objects of their classes hold is followed. An object that hides its
state counts by its pickle (`content`), or else by identity only."""

from __future__ import annotations

import array
import ctypes
import dataclasses
import datetime
import decimal
import fractions
import functools
import io
import logging
import operator
import pathlib
import random
import re
import threading
import uuid
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np

from raygrad.autograd.core.size import Size
from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.tracebacks import attribute_of

from .guard import ABSENT, Generator, Guard, is_fixed, is_input
from .importable import import_name, imports_alike
from .visitor import (
    DISPATCHES,
    Part,
    Visitor,
    attribute_parts,
    class_parts,
    descriptor_parts,
    dict_parts,
    function_parts,
    guard_function,
    is_data,
    item_parts,
    method_parts,
    module_parts,
    partial_parts,
    property_parts,
    slot_names,
    slot_parts,
    through_modules,
)

MOST: Final = 100_000
"""The most objects that are visited: each replay compares all of them, which takes milliseconds."""

_ATOMS: Final = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range})


class _Named(NamedTuple):
    field: int


_FIXED: Final[tuple[Any, ...]] = (
    GenericAlias,
    GetSetDescriptorType,
    UnionType,
    WrapperDescriptorType,
    dataclasses.Field,
    cast("type[Any]", type(vars(_Named)["field"])),
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    logging.Logger,
    np.dtype,
    np.generic,
    np.ufunc,
    pathlib.PurePath,
    re.Pattern,
    uuid.UUID,
)
"""Classes of libraries whose instances nobody changes, but for what they note for themselves."""

_HIDING: Final[Any] = (
    *(Iterator, np.ufunc, type(cast(Any, functools).cmp_to_key(max)), threading.local, io.StringIO, io.BytesIO),
    *(weakref.ref, weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
)
"""Classes of libraries whose instances hold, or refer to, what programs change, and cannot be pickled: code that reads
such a thing runs at once."""

_OWN_PICKLING: Final = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


class CapturedState(Visitor):
    """The state that some objects capture now.

    Args:
        objects: the roots of the walk.
        looked_into: classes of libraries whose instances hold objects of the user's.
        content: for objects that hide their state, returns what is equal while it is the same, None if nothing is known
            to be. Without it they are compared by identity only.
        guard: the guard to be added to, of code that is shipped: there is no limit, and arrays and tensors that become
            inputs of its node are not compared.
        by_reference: that code goes by reference, so that its arrays and tensors are no inputs, and are compared, too.

    Attributes:
        tensors: the tensors, in the order in which they were found.
        guard: tells whether everything else is what it was.
        inputs: the arrays and tensors that are not compared, since they become inputs of the node of shipped code.

    Raises:
        SessionError: they reach more than `MOST` objects.
    """

    def __init__(
        self,
        objects: Iterable[Any],
        looked_into: tuple[type[Any], ...] = (),
        *,
        content: Callable[[Any], Any] | None = None,
        guard: Guard | None = None,
        by_reference: bool = False,
    ) -> None:
        self.tensors: list[Tensor] = []
        self.inputs: list[Any] = []
        self.guard = Guard() if guard is None else guard
        self._ships = guard is not None
        self._by_reference = by_reference
        self._looked_into = looked_into
        self._content = content
        self._slots: dict[type[Any], list[str]] = {}
        self._seen: dict[int, Any] = {}
        """The visited objects by id, kept alive so that ids stay unique."""
        self.walk(objects)

    def holds(self) -> bool:
        """Tell whether the captured state is unchanged; tensors may have other values."""
        return self.guard.holds()

    looks: ClassVar = {}
    atoms = _ATOMS

    def other(self, value: Any) -> Sequence[Part]:
        """Visit an object that is no atom, once."""
        seen = self._seen
        if id(value) in seen:
            return ()
        seen[id(value)] = value
        if len(seen) > MOST and not self._ships:
            raise SessionError(
                f"a compiled function reaches more than {MOST:,} objects through its variables, and all would have "
                "to be compared at each call: give it the data as tensors in its arguments"
            )
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        look = _LOOKS.get(kind)
        return self._of_derived_type(value) if look is None else look(self, value)

    def _of_derived_type(self, value: Any) -> Sequence[Part]:
        """Visit an object of a subclass that the user, or a library, has defined."""
        for kinds, look in _LOOKS_AT_DERIVED:
            if isinstance(value, kinds):
                return look(self, value)
        return self._instance(value)

    # ---- code -------------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> list[Part]:
        of_library = imports_alike(str(function.__globals__.get("__name__", "")))
        found = function_parts(function, of_library)
        found += through_modules(function, found)
        if of_library and function.__code__ is not DISPATCHES:  # what is registered with that is the user's
            self.guard.references(found)
        else:
            guard_function(self.guard, function, found)
        return found

    def _class(self, cls: type) -> list[Part]:
        if imports_alike(cls.__module__):
            return []
        self.guard.members(cls)
        return class_parts(cls)

    # ---- data -------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: Tensor) -> list[Part]:
        if self._ships:
            self.guard.tensor(tensor)
            if self._by_reference:
                data: Any = tensor._data
                self.guard.state(operator.attrgetter("_data"), (tensor,), data)
                return [("slot", "_data", tensor, data)] if isinstance(data, np.ndarray) else []
            self.inputs.append(tensor)
            return []
        self.tensors.append(tensor)
        found: list[Part] = []
        for name in ("_hooks", "_after_accumulation"):
            hooks: Any = getattr(tensor, name)
            self.guard.references([("slot", name, tensor, hooks)])
            if hooks is not None:
                self.guard.mapping(hooks)
                found += [("hook", number, tensor, hook) for number, hook in hooks.items()]
        return found

    def _array(self, array: np.ndarray[Any, Any]) -> list[Part]:
        if not is_fixed(array):
            if self._ships and not self._by_reference and is_input(array):
                self.inputs.append(array)
            else:
                self.guard.array(array)
        found = item_parts(array.ravel().tolist()) if array.dtype.hasobject else []
        if type(array) is not np.ndarray and not imports_alike(type(array).__module__):
            self.guard.mapping(vars(array))
            found = [*attribute_parts(array), *found]
        return found

    def _generator(self, generator: Generator) -> list[Part]:
        self.guard.generator(generator)
        return []

    def _dict(self, mapping: dict[Any, Any]) -> list[Part]:
        self.guard.mapping(mapping)
        held = dict_parts(mapping)
        if isinstance(mapping, defaultdict):
            held.append(made := ("slot", "default_factory", cast(Any, mapping), mapping.default_factory))
            self.guard.references([made])
        return held

    def _collection(self, items: Any) -> list[Part]:
        self.guard.collection(items)
        return item_parts(items)

    def _builtin(self, function: Any) -> list[Part]:
        """Visit a function in C, which may be a method of an object."""
        owner = function.__self__
        return [] if owner is None or type(owner) is ModuleType else [("self", "self", function, owner)]

    def _module(self, module: ModuleType) -> list[Part]:
        """Visit the data in a module of the user's that is shipped as a whole. A compiled function reads what its code
        names of one."""
        if not self._ships or imports_alike(module.__name__):
            return []
        self.guard.members(module)
        return [part for part in module_parts(module) if is_data(part[3])]

    def _buffer(self, buffer: Any) -> list[Part]:
        self.guard.buffer(buffer)
        return []

    def _element(self, element: np.void) -> list[Part]:
        """Visit an element of a structured array, which is a view of that."""
        self.guard.state(np.void.tobytes, (element,), element.tobytes())
        return []

    def _reference(self, reference: weakref.ref[Any]) -> list[Part]:
        """Visit a weak reference: what it refers to is not to be kept alive."""
        self.guard.unseen = self.guard.unseen or type(reference).__name__
        return []

    def _variable(self, variable: ContextVar[Any]) -> list[Part]:
        return [("value", variable.name, variable, self.guard.context_variable(variable))]

    def _proxy(self, proxy: MappingProxyType[Any, Any]) -> list[Part]:
        """Visit a read-only view of a dict, which may change."""
        self.guard.proxy(proxy)
        return item_parts([*proxy.keys(), *proxy.values()])

    def _cell(self, cell: CellType) -> list[Part]:
        """Visit a variable of an enclosing function that code holds as an object."""
        try:
            held: list[Part] = [("cell", "", cell, cell.cell_contents)]
        except ValueError:  # not bound yet
            held = [("cell", "", cell, ABSENT)]
        self.guard.references(held)
        return held

    def _partial(self, value: functools.partial[Any]) -> list[Part]:
        self.guard.mapping(value.keywords)
        self.guard.state(_function_and_arguments, (value,), _function_and_arguments(value))
        if value.__dict__:
            self.guard.mapping(value.__dict__)
        return partial_parts(value)

    def _instance(self, value: Any) -> list[Part]:
        """Visit an instance of a user class, or of one of a library that has attributes, too; of another the wrapped
        function."""
        cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if imports_alike(cls.__module__) and not isinstance(value, self._looked_into):
            wrapped: Any = attribute_of(value, "__wrapped__") if callable(value) else None
            if self._ships and isinstance(value, functools._lru_cache_wrapper):
                self._look_for_stale_results(value, wrapped)
            if wrapped is not None:
                return [("function", "", value, wrapped), *([] if _is_ours(cls) else self._attributes(value))]
            if self._content is None or cls is object or _is_ours(cls):
                return []
            if isinstance(value, _FIXED) and (cls is not np.ufunc or import_name(value) is not None):
                return []
            content = self._content(value)
            if content is None:  # a handle, of a thread or a file, say
                if isinstance(value, _HIDING) and not _is_file(value):
                    self.guard.unseen = self.guard.unseen or str(cls.__name__)
                return []
            if not _shows_its_state(cls):
                self.guard.state(self._content, (value,), content)  # pyright: ignore[reportUnknownArgumentType]
                return []
        return [("class", "", value, cls), *self._attributes(value)]

    def _look_for_stale_results(self, cached: Any, function: Any) -> None:
        """Note whether a cache has results of before something was changed that its function reads."""
        before = _read_by_cached.get(cached)
        if before is None or cached.cache_info().currsize == 0:
            _read_by_cached[cached] = CapturedState([function], content=self._content, guard=Guard()).guard
        elif not before.holds():
            self.guard.stale_cache = str(getattr(cached, "__name__", "a cached function"))

    def _derived(self, value: Any) -> list[Part]:
        """Visit what a container of a derived class has beside its items."""
        cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        return [("class", "", value, cls), *self._attributes(value)]

    def _attributes(self, value: Any) -> list[Part]:
        """Guard and return the attributes and slots of an object."""
        cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        self.guard.instance(value)
        found = attribute_parts(value)
        if isinstance(value, BaseException):
            self.guard.references(held := slot_parts(value, ("args",)))
            found += held
        slots = self._slots.get(cls)
        if slots is None:
            slots = self._slots[cls] = slot_names(cls)
        if slots:
            held = slot_parts(value, slots)
            self.guard.references(held)
            found += held
        return found


_read_by_cached: weakref.WeakKeyDictionary[Any, Guard] = weakref.WeakKeyDictionary()
"""By cached function, a guard of what it reads, made when its cache was empty or first seen."""


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] == "raygrad"


def _is_file(value: Any) -> bool:
    return isinstance(value, io.IOBase) and not isinstance(value, io.StringIO | io.BytesIO)


def _shows_its_state(cls: type[Any]) -> bool:
    """Tell whether the state of a class's instances is in their attributes and slots, so far as one can tell."""
    inherited = cls.__mro__[:-1]
    return not any([name in base.__dict__ for base in inherited for name in _OWN_PICKLING]) and any(
        ["__dict__" in base.__dict__ or base.__dict__.get("__slots__") for base in inherited]
    )


def _function_and_arguments(value: functools.partial[Any]) -> tuple[Any, ...]:
    return (value.func, *value.args)


_LOOKS: Final[dict[type[Any], Callable[[CapturedState, Any], Sequence[Part]]]] = {
    FunctionType: CapturedState._function,
    MethodType: lambda _, value: method_parts(value),
    staticmethod: lambda _, value: descriptor_parts(value),
    classmethod: lambda _, value: descriptor_parts(value),
    property: lambda _, value: property_parts(value),
    functools.partial: CapturedState._partial,
    BuiltinFunctionType: CapturedState._builtin,
    ContextVar: CapturedState._variable,
    SimpleNamespace: CapturedState._derived,
    weakref.ref: CapturedState._reference,
    MappingProxyType: CapturedState._proxy,
    ModuleType: CapturedState._module,
    CellType: CapturedState._cell,
    slice: lambda _, value: item_parts((value.start, value.stop, value.step)),
    type: CapturedState._class,
    FunctionMeta: CapturedState._class,
    Tensor: CapturedState._tensor,
    np.ndarray: CapturedState._array,
    dict: CapturedState._dict,
    **dict.fromkeys((tuple, Size), lambda _, value: item_parts(value)),
    **dict.fromkeys((list, set, frozenset, deque), CapturedState._collection),
    **dict.fromkeys((bytearray, array.array, memoryview), CapturedState._buffer),
    **dict.fromkeys((defaultdict, OrderedDict), CapturedState._dict),
}

_LOOKS_AT_DERIVED: Final[tuple[tuple[Any, Callable[[CapturedState, Any], Sequence[Part]]], ...]] = (
    (Tensor, CapturedState._tensor),
    (type, CapturedState._class),
    (np.ndarray, CapturedState._array),
    (np.void, CapturedState._element),
    (weakref.ref, CapturedState._reference),
    (ModuleType, lambda state, value: [*state._module(value), *state._derived(value)]),
    ((ctypes.Structure, ctypes.Union, ctypes.Array), CapturedState._buffer),
    (dict, lambda state, value: state._dict(value) + state._derived(value)),
    (tuple, lambda state, value: [*item_parts(value), *state._derived(value)]),
    ((bytearray, array.array), lambda state, value: state._buffer(value) + state._derived(value)),
    ((list, set, frozenset, deque), lambda state, value: state._collection(value) + state._derived(value)),
    (functools.partial, CapturedState._partial),
    ((np.random.Generator, np.random.RandomState, random.Random), CapturedState._generator),
)
"""How objects of classes derived from these are visited; the first that fits."""
