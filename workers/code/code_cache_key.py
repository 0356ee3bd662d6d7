"""Code fingerprints: keys by which user code is found equal to code that was shipped before, without pickling it.

Equal keys mean equal pickles, up to arrays and tensors, which are taken out. Where that is not certain, the fingerprint
says so, and `shipping` pickles the code. The hash by which workers name shipped code is another thing: that of its
pickle, made in `shipping`. Immutable values, containers and instances of the user's plain classes count by value;
modules, code objects and whatever every process imports alike count by identity."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from types import BuiltinFunctionType, FunctionType, GenericAlias, MethodType, ModuleType, UnionType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.size import Size
from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.tensor.tensor import Tensor

from .array_form import form_of
from .captured_state import CapturedState
from .guard import ABSENT, BY_VALUE, Guard, is_input
from .identity import state_of, token_of
from .importable import import_name, imports_alike
from .visitor import (
    annotation_parts,
    class_parts,
    function_parts,
    guard_function,
    is_data,
    module_parts,
    slot_names,
    slot_parts,
    through_modules,
)

ITEMS_LOOKED_AT: Final = 256
"""The longest container whose items are fingerprinted; a longer one is left to the pickler."""

_OWN_PICKLING: Final = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")
_DATACLASSES: Final[Any] = vars(dataclasses)
_STATE_OF_DATACLASSES: Final = _DATACLASSES.get("_dataclass_getstate")
"""What Python makes `__getstate__` of frozen dataclasses with slots: their state is their slots all the same."""
_OF_DATACLASSES: Final[tuple[Any, ...]] = tuple(
    [
        _DATACLASSES[name]
        for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR")
    ]
)
"""The sentinels to which classes made by `dataclass` refer."""


class CodeCacheKey:
    """The fingerprint of a piece of code.

    Args:
        content: see `CapturedState`; for what only the pickler looks into.

    Attributes:
        sure: whether `key` determines the pickle; else the code has to be pickled.
        key: equal for equal code, if it is sure.
        captured: its arrays and tensors, in the order of the walk.
        held: the objects that `key` names by identity, to be kept alive while the key is compared.
        inputs: the arrays and tensors in what the key does not look into, which the guard does not compare.
        guard: tells whether the fingerprint would be the same now. It holds the captured state.
    """

    __slots__ = ("_numbers", "_opaque", "_plain", "captured", "guard", "held", "inputs", "key", "sure")

    def __init__(self, code: Any, content: Callable[[Any], Any] | None = None) -> None:
        self.sure = True
        self.captured: list[Any] = []
        self.held: list[Any] = []
        self.guard = Guard()
        self._numbers: dict[int, int] = {}
        """By id: of a captured value its place in `captured`, of another object how many came before it."""
        self._plain: dict[type[Any], bool] = {}
        self._opaque: list[Any] = []
        """What the key does not look into."""
        try:
            self.key: Any = self._look(code)
        except RecursionError:  # nested more deeply than the interpreter goes; the pickler may
            self.key = self._unsure(code)
        self.inputs: list[Any] = []
        if self._opaque:
            self.inputs = CapturedState(self._opaque, content=content, guard=self.guard).inputs

    def _look(self, value: Any) -> Any:
        """Return the token of an object, in which it counts with all that it consists of."""
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind in BY_VALUE:
            return (kind, value)
        look = _LOOKS.get(kind)
        if look is not None:
            return look(self, value)
        if isinstance(value, type):
            return self._class(value)
        if kind.__module__ == "typing":
            origin = getattr(value, "__origin__", None)
            if not isinstance(origin, type) or imports_alike(origin.__module__):
                return self._identity(value)
            return (self._identity(value), self._class(origin))
        if imports_alike(kind.__module__) and import_name(value) is not None:
            return self._identity(value)
        if any([value is one for one in _OF_DATACLASSES]):
            return self._identity(value)
        state = state_of(value)
        if state is None:
            return self._instance(value)
        return (token_of(value), () if kind is object else self._constant(value, kind))

    # ---- leaves -----------------------------------------------------------------------------------------------------

    def _identity(self, value: Any) -> int:
        self.held.append(value)
        return id(value)

    def _unsure(self, value: Any) -> int:
        self.sure = False
        self._opaque.append(value)
        return self._identity(value)

    def _real(self, value: Any) -> Any:
        return (type(value), repr(value))

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        slot = self._numbers.get(id(array))
        if slot is None:
            if not is_input(array):
                return self._unsure(array)
            slot = self._numbers[id(array)] = len(self.captured)
            self.captured.append(array)
        return ("captured", 0, slot, form_of(array))

    def _tensor(self, tensor: Tensor) -> Any:
        slot = self._numbers.get(id(tensor))
        if slot is None:
            slot = self._numbers[id(tensor)] = len(self.captured)
            self.captured.append(tensor)
        return ("captured", self.guard.tensor(tensor), slot)

    def _again(self, value: Any) -> Any:
        """Return the token of an object that was looked at before; None, and number it, the first time."""
        found = self._numbers.get(id(value))
        if found is not None:
            return ("again", found)
        self._numbers[id(value)] = len(self._numbers)
        return None

    # ---- code -------------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> Any:
        numbers, key = self._numbers, id(function)
        if key in numbers:
            return ("again", numbers[key])
        numbers[key] = len(numbers)
        module = function.__module__
        if type(module) is str and imports_alike(module) and import_name(function) is not None:
            return self._identity(function)
        code, space, held = function.__code__, function.__globals__, function_parts(function)
        held += through_modules(function, held)
        self.held += (code, space)
        guard_function(self.guard, function, held)
        if function.__annotations__:
            held += annotation_parts(function)
        look = self._look
        tokens = tuple([(role, name, look(value)) for role, name, _, value in held]) if held else None
        return (id(code), id(space), function.__qualname__, module, function.__doc__, tokens)

    def _method(self, method: MethodType) -> Any:
        return ("method", self._look(method.__func__), self._look(method.__self__))

    def _builtin(self, function: Any) -> Any:
        """A function in C; a method of an object counts by what that holds."""
        owner = function.__self__
        return self._identity(function) if owner is None or type(owner) is ModuleType else self._unsure(function)

    def _ufunc(self, function: np.ufunc) -> Any:
        return self._unsure(function) if import_name(function) is None else self._identity(function)

    def _annotation(self, alias: Any) -> Any:
        """An annotation such as `list[float]` and `float | None`."""
        return (type(alias), self._look(getattr(alias, "__origin__", None)), self._tuple(alias.__args__))

    def _property(self, descriptor: property) -> Any:
        look = self._look
        accessors = [look(one) for one in (descriptor.fget, descriptor.fset, descriptor.fdel)]
        return (property, *accessors, look(descriptor.__doc__))

    def _descriptor(self, descriptor: Any) -> Any:
        inside = descriptor.__func__
        look = self._function if type(inside) is FunctionType else self._look
        return (type(descriptor), look(inside))

    def _class(self, cls: type) -> Any:
        again = self._again(cls)
        if again is not None:
            return again
        if import_name(cls) is not None:
            return self._identity(cls)
        self.guard.members(cls)
        look = self._look
        return (self._identity(cls), tuple([(role, name, look(value)) for role, name, _, value in class_parts(cls)]))

    def _module(self, module: ModuleType) -> Any:
        """A module of the user's: its data; functions and classes by identity, unless code names them."""
        again = self._again(module)
        if again is not None:
            return again
        if imports_alike(module.__name__):
            return self._identity(module)
        self.guard.members(module)
        held = module_parts(module)
        self.held.append(held)
        look = self._look
        tokens = [(name, look(value) if is_data(value) else id(value)) for _, name, _, value in held]
        return (self._identity(module), tuple(tokens))

    # ---- data -------------------------------------------------------------------------------------------------------

    def _tuple(self, items: tuple[Any, ...]) -> Any:
        look = self._look
        return (type(items), tuple([look(one) for one in items]))

    def _collection(self, items: Collection[Any]) -> Any:
        again = self._again(items)
        if again is not None:
            return again
        if len(items) > ITEMS_LOOKED_AT:
            return self._unsure(items)
        self.guard.collection(items)
        look = self._look
        return (type(items), tuple([look(one) for one in items]))

    def _dict(self, mapping: dict[Any, Any]) -> Any:
        again = self._again(mapping)
        if again is not None:
            return again
        if len(mapping) > ITEMS_LOOKED_AT:
            return self._unsure(mapping)
        self.guard.mapping(mapping)
        return self._items(mapping)

    def _items(self, mapping: dict[Any, Any]) -> Any:
        look = self._look
        return (dict, tuple([(look(key), look(value)) for key, value in mapping.items()]))

    def _instance(self, value: Any) -> Any:
        """An instance: looked into if its class is the user's and says nothing of pickling."""
        again = self._again(value)
        if again is not None:
            return again
        cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        plain = self._plain.get(cls)
        if plain is None:
            plain = self._plain[cls] = _is_plain(cls)
        attributes: Any = getattr(value, "__dict__", None)
        if not plain or (attributes is not None and type(attributes) is not dict):
            return self._unsure(value)
        held: Any = None
        if attributes is not None:
            own = cast("dict[str, Any]", attributes)
            if len(own) > ITEMS_LOOKED_AT:
                return self._unsure(value)
            held = self._items(own)
        self.guard.instance(value)
        return ("instance", self._class(cls), held, self._slots(value, slot_names(cls)))

    def _constant(self, value: Any, cls: type[Any]) -> Any:
        """What is compared by identity, and counts with its attributes and its class, too."""
        self.guard.instance(value)
        attributes: dict[str, Any] = getattr(value, "__dict__", {})
        return (self._look(tuple(attributes.items())), self._slots(value, slot_names(cls)), self._class(cls))

    def _slots(self, value: Any, names: Sequence[str]) -> Any:
        """Return the tokens of what an instance holds in slots."""
        held = slot_parts(value, names)
        self.guard.references(held)
        look = self._look
        return tuple([(name, None if one is ABSENT else (look(one),)) for _, name, _, one in held])

    def _field(self, field: dataclasses.Field[Any]) -> Any:
        """A field of a dataclass, as the class refers to it."""
        look = self._look
        names: Any = dataclasses.Field.__slots__
        state: list[tuple[str, Any]] = [(name, getattr(field, name)) for name in names]
        if field.metadata:
            self.guard.proxy(field.metadata)
        return ("field", *[(name, look(dict(one) if name == "metadata" else one)) for name, one in state])

    def _dataclass_options(self, options: Any) -> Any:
        return ("options", repr(options))


_LOOKS: Final[dict[Any, Callable[[CodeCacheKey, Any], Any]]] = {
    **dict.fromkeys((float, complex), CodeCacheKey._real),
    **dict.fromkeys((list, set, frozenset), CodeCacheKey._collection),
    **dict.fromkeys((type, FunctionMeta), CodeCacheKey._class),
    **dict.fromkeys((staticmethod, classmethod), CodeCacheKey._descriptor),
    BuiltinFunctionType: CodeCacheKey._builtin,
    np.ufunc: CodeCacheKey._ufunc,
    **dict.fromkeys((GenericAlias, UnionType), CodeCacheKey._annotation),
    property: CodeCacheKey._property,
    dataclasses.Field: CodeCacheKey._field,
    _DATACLASSES["_DataclassParams"]: CodeCacheKey._dataclass_options,
    FunctionType: CodeCacheKey._function,
    MethodType: CodeCacheKey._method,
    ModuleType: CodeCacheKey._module,
    np.ndarray: CodeCacheKey._array,
    Tensor: CodeCacheKey._tensor,
    **dict.fromkeys((tuple, Size), CodeCacheKey._tuple),
    dict: CodeCacheKey._dict,
}


def _is_plain(cls: type[Any]) -> bool:
    """Tell whether instances of a class are their attributes and slots: nothing in it, or in what it inherits, is in C,
    or says how to pickle."""
    for base in cls.__mro__[:-1] or (object,):
        if imports_alike(base.__module__):
            return False
        own = [base.__dict__[name] for name in _OWN_PICKLING if name in base.__dict__]
        if own and own != [_STATE_OF_DATACLASSES]:
            return False
    return True
