"""Guards: the state that user code read when it was recorded or shipped, and the check that it is unchanged.

Replays, cached fingerprints and code shipped by reference are valid while their guard holds. A guard has references,
each with its value: it holds while each refers to the same object, or to an equal number or string. Containers are
compared by length and items, arrays and buffers by their bytes, generators by their state, in C as far as possible,
since every application and every run compares them. No user code runs.
"""

from __future__ import annotations

import gc
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, is_, itemgetter
from types import CellType, CodeType, FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.functions.function_class_api import MADE_BY_METACLASS
from raygrad.autograd.nodes.captured_leaves import kind_of_capture
from raygrad.autograd.tensor.tensor import Tensor

from .array_form import NUMERIC
from .bytecode import names_in
from .importable import imports_alike

MADE_BY_PYTHON: Final = frozenset({"__dict__", "__weakref__", "__slotnames__"})
"""Members of a class that Python makes, and that are no part of its definition."""

BY_VALUE: Final = frozenset({type(None), bool, int, str, bytes})
"""Types whose values are compared by equality."""

_MADE_LATER: Final = MADE_BY_PYTHON | {"__warningregistry__", "__annotate_cache__", "__annotations_cache__"}
_MADE_LATER_IN_FUNCTIONS: Final = _MADE_LATER | MADE_BY_METACLASS

Part: TypeAlias = tuple[str, Any, Any, Any]
"""One reference that an object holds: (role, name, holder, value). The holder is the cell, dict or object it is in."""

ABSENT: Final = object()
"""The value of a variable or slot that is not set."""

_ABSENTS: Final = repeat(ABSENT)

Generator: TypeAlias = np.random.Generator | np.random.RandomState | random.Random
"""A generator of random numbers, guarded by its state."""


class Guard:
    """The references that user code follows, each with its value at the time of recording.

    Attributes:
        has_state: whether the code reaches something whose contents may change: a container, an instance, a buffer.
        stale_cache: the name of a function in `functools.lru_cache` that the code reaches, whose cache has results of
            before something was changed that it reads; or "".
        unseen: what the code reads that no guard can compare, in words; or "".
    """

    __slots__ = (
        "_always",
        "_bases",
        "_cells",
        "_classes",
        "_copies",
        "_covered",
        "_dicts",
        "_dicts_of",
        "_functions",
        "_has_contents",
        "_held",
        "_holders",
        "_instances",
        "_items",
        "_keys",
        "_lengths",
        "_mappings",
        "_names",
        "_ordered",
        "_owners",
        "_referents",
        "_roots",
        "_sequences",
        "_slots",
        "_states",
        "_tensors",
        "has_state",
        "stale_cache",
        "unseen",
    )

    def __init__(self) -> None:
        self.has_state = False
        self.stale_cache = ""
        self.unseen = ""
        self._has_contents = False
        """Whether there is more to compare than variables, functions and members."""
        self._cells: list[tuple[CellType, Any]] = []
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._mappings: list[dict[Any, Any]] = []
        self._copies: list[dict[Any, Any]] = []
        """The dicts as they were."""
        self._ordered: list[dict[Any, Any]] = []
        """Those of them whose order is compared, too."""
        self._keys: list[Any] = []
        """The keys of these, one dict after the other."""
        self._roots: list[Any] = []
        self._referents: list[Any] = []
        """The dicts, instances and collections, and what they referred to: values, items, slots, classes."""
        self._covered: set[int] = set()
        """The ids of the roots."""
        self._instances: list[Any] = []
        self._classes: list[type[Any]] = []
        """Instances, and the class of each, which a program may exchange."""
        self._dicts_of: list[Any] = []
        self._dicts: list[Any] = []
        """Those of them that have attributes in a dict, and that dict of each."""
        self._bases: list[tuple[type[Any], tuple[type[Any], ...]]] = []
        """Classes that inherit from others of the user's: (class, method resolution order)."""
        self._sequences: list[Collection[Any]] = []
        self._lengths: list[int] = []
        self._items: list[Any] = []
        """The items of the sequences, one sequence after the other."""
        self._owners: list[tuple[Any, Mapping[str, Any], Any, int, tuple[Any, ...], Any]] = []
        """Classes and modules: (owner, its dict, what returns the guarded values of that, its length, these values,
        names that may be made later)."""
        self._holders: list[Any] = []
        self._slots: list[str] = []
        self._held: list[Any] = []
        """What the holders had in these slots."""
        self._always: list[tuple[Any, str, Any]] = []
        """Slots that are not among what the roots refer to: (holder, name, value)."""
        self._tensors: list[tuple[Tensor, int]] = []
        self._states: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []
        """(function, arguments, result) of state that is read by a function."""

    # ---- references, each with the value that it had ----------------------------------------------------------------

    def references(self, parts: Iterable[Part]) -> None:
        """Guard those parts of an object that are variables (of enclosing functions, globals, modules) or slots."""
        for role, name, holder, value in parts:
            if role == "cell":
                self._cells.append((holder, value))
            elif role == "global" or role == "through module":
                self._names.append((holder, name, value))
            elif role == "slot":
                self.has_state = self._has_contents = True
                if value is ABSENT or not _is_made_by_slots(holder, name) or id(holder) not in self._covered:
                    self._always.append((holder, name, value))
                else:
                    self._holders.append(holder)
                    self._slots.append(name)
                    self._held.append(value)

    def function(self, function: FunctionType, parts: Sequence[Part]) -> None:
        """Guard a function's code, defaults, attributes, and those of its parts that are variables."""
        keywords = function.__kwdefaults__
        self._functions.append((function, function.__code__, function.__defaults__, keywords))
        if keywords:
            self._mapping(keywords)
        if function.__dict__:
            self._mapping(function.__dict__)
            if isinstance(function.__dict__.get("registry"), MappingProxyType):  # of functools.singledispatch
                self.proxy(function.__dict__["registry"])
        if parts:
            self.references(parts)
        self._unbound(function)

    def _unbound(self, function: FunctionType) -> None:
        """Guard the variables of a function that are not bound yet."""
        for cell in function.__closure__ or ():
            try:
                cell.cell_contents  # noqa: B018
            except ValueError:
                self._cells.append((cell, ABSENT))
        space, builtin = function.__globals__, function.__builtins__
        for name in names_in(function.__code__).globals:
            if name not in space and name not in builtin:
                self._names.append((space, name, ABSENT))

    def mapping(self, mapping: dict[Any, Any]) -> None:
        """Guard the items of a dict, and their order."""
        self.has_state = True
        self._mapping(mapping)
        if type(mapping) is dict and len(mapping) > 1:
            self._ordered.append(mapping)
            self._keys += mapping

    def instance(self, instance: Any) -> None:
        """Guard the class of an instance, and the attributes that it has in a dict."""
        self.has_state = self._has_contents = True
        attributes: Any = getattr(instance, "__dict__", None)
        cls = cast("type[Any]", type(instance))
        held = self._root(instance)
        if not any([one is cls for one in held]):
            self._states.append((type, (instance,), cls))
        self._instances.append(instance)
        self._classes.append(cls)
        if isinstance(attributes, dict):
            attributes = cast("dict[Any, Any]", attributes)
            if not any([one is attributes for one in held]):
                self._states.append((_dict_of, (instance,), attributes))
            self._dicts_of.append(instance)
            self._dicts.append(attributes)
            self._mapping(attributes)

    def _root(self, root: Any) -> list[Any]:
        """Guard what an object refers to, as the collector of cycles sees it, and return that."""
        self._roots.append(root)
        self._referents += (held := gc.get_referents(root))
        self._covered.add(id(root))
        return held

    def _mapping(self, mapping: dict[Any, Any]) -> None:
        self._has_contents = True
        if type(mapping) is dict:
            self._mappings.append(mapping)
            self._copies.append(mapping.copy())
            self._root(mapping)
        else:
            self._states.append((_items_of, (mapping,), _items_of(mapping)))

    def members(self, owner: Any) -> None:
        """Guard the members of a class or module, but for what Python and raygrad may make in it at any time."""
        mapping = cast("dict[str, Any]", vars(owner))
        later = _MADE_LATER_IN_FUNCTIONS if isinstance(owner, FunctionMeta) else _MADE_LATER
        kept = {name: value for name, value in list(mapping.items()) if name not in later}
        read = itemgetter(*kept) if len(kept) > 1 else partial(_items_at, tuple(kept))
        self._owners.append((owner, mapping, read, len(mapping), tuple(kept.values()), later))
        if isinstance(owner, type) and not all([imports_alike(base.__module__) for base in owner.__mro__[1:]]):
            self._bases.append((owner, owner.__mro__))

    def collection(self, items: Collection[Any]) -> None:
        """Guard the items of a list, set or deque."""
        self.has_state = self._has_contents = True
        plain = _ITERATED.get(type(items))
        if plain is None:  # of a derived class, whose own methods are user code
            read = next(one for kind, one in _ITERATED.items() if isinstance(items, kind))
            self._states.append((read, (items,), read(items)))
            return
        held = plain(items)
        self._root(items)
        self._sequences.append(items)
        self._lengths.append(len(held))
        self._items += held

    # ---- kinds, buffers and states ----------------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> int:
        """Guard the kind of a tensor (a leaf that requires grad, say), not its values; return the kind."""
        kind = kind_of_capture(tensor)
        self._has_contents = True
        self._tensors.append((tensor, kind))
        return kind

    def array(self, array: np.ndarray[Any, Any]) -> None:
        """Guard the shape, dtype and elements of an array; of an array of objects, which objects they are."""
        read = _shape_and_objects if array.dtype.hasobject else _shape_and_bytes
        self.state(read, (array,), read(array))

    def buffer(self, buffer: Any) -> None:
        """Guard the bytes of a bytearray, an `array.array` or a memoryview."""
        self.state(_bytes_of, (buffer,), _bytes_of(buffer))

    def context_variable(self, variable: ContextVar[Any]) -> Any:
        """Guard the value of a context variable; return that, or `ABSENT`."""
        self.state(value_of, (variable,), value := value_of(variable))
        return value

    def proxy(self, proxy: MappingProxyType[Any, Any]) -> None:
        """Guard the items of a dict of which there is a read-only view."""
        self.state(_items_of_proxy, (proxy,), _items_of_proxy(proxy))

    def generator(self, generator: Generator) -> None:
        """Guard the state of a generator of random numbers."""
        self.state(generator_state, (generator,), generator_state(generator))

    def state(self, read: Callable[..., Any], given: tuple[Any, ...], now: Any) -> None:
        """Guard what a function returns for some arguments: `now`. It is called at each check, so that it must neither
        change anything nor take long."""
        self.has_state = self._has_contents = True
        self._states.append((read, given, now))

    # ---- the question -----------------------------------------------------------------------------------------------

    def places(self) -> set[Any]:
        """Return what identifies the variables and objects that are guarded."""
        found: set[Any] = set(self._covered)
        found.update([id(holder) for holder, _, _ in self._always])
        found.update([id(cell) for cell, _ in self._cells])
        found.update([(id(space), name) for space, name, _ in self._names])
        found.update([id(owner[0]) for owner in self._owners])
        found.update([id(given[0]) for _, given, _ in self._states])
        return found

    def holds(self) -> bool:
        """Tell whether the guarded state is unchanged."""
        for cell, value in self._cells:
            try:
                now = cell.cell_contents
            except ValueError:  # not bound
                if value is ABSENT:
                    continue
                return False
            if now is not value and not is_same(now, value):
                return False
        for space, name, value in self._names:
            now = space.get(name, ABSENT)
            if now is not value and not is_same(now, value):
                return False
        for function, code, defaults, keywords in self._functions:
            if function.__code__ is not code or function.__kwdefaults__ is not keywords:
                return False
            now = function.__defaults__
            if now is not defaults and not is_same(now, defaults):
                return False
        for _, mapping, read, length, values, later in self._owners:
            try:
                present = read(mapping)
            except KeyError:
                return False
            if not all(map(is_, present, values)) and not all(map(is_same, present, values)):
                return False
            if len(mapping) != length and len(mapping) - len(later & mapping.keys()) != len(values):
                return False
        for cls, bases in self._bases:
            if cls.__mro__ is not bases:
                return False
        return not self._has_contents or self._state_holds()

    def _state_holds(self) -> bool:
        """Tell whether the contents of objects are unchanged."""
        try:
            return self._contents_hold()
        except RuntimeError:  # another thread changes a container meanwhile
            return False

    def _contents_hold(self) -> bool:
        """Compare the contents of objects: by what they refer to, which C tells in one call, and one by one if that is
        not the same. Between two objects that refer to others, one item may move from the first to the second, hence
        the lengths; and a dict with names for keys does not tell these, hence the copies."""
        roots, ordered = self._roots, self._ordered
        if roots and not (
            all(map(is_, gc.get_referents(*roots), self._referents))
            and self._mappings == self._copies
            and list(map(len, self._sequences)) == self._lengths
        ):
            if not self._each_holds():
                return False
        if ordered and not all(map(is_, chain.from_iterable(ordered), self._keys)):
            if not all(map(is_same, chain.from_iterable(ordered), self._keys)):
                return False
        for holder, name, value in self._always:
            if not is_same(getattr(holder, name, ABSENT), value):
                return False
        for tensor, kind in self._tensors:
            if kind_of_capture(tensor) != kind:
                return False
        for read, given, before in self._states:
            if not is_same(read(*given), before):
                return False
        return True

    def _each_holds(self) -> bool:
        """Compare each dict, instance and collection by itself."""
        if not all([_is_still(now, before) for now, before in zip(self._mappings, self._copies, strict=True)]):
            return False
        if not all(map(is_, map(type, self._instances), self._classes)):
            return False
        if not all(map(is_, map(_dict_of, self._dicts_of), self._dicts)):
            return False
        sequences = self._sequences
        if list(map(len, sequences)) != self._lengths:
            return False
        if not all(map(is_same, chain.from_iterable(sequences), self._items)):
            return False
        return all(map(is_same, map(getattr, self._holders, self._slots, _ABSENTS), self._held))


def _is_made_by_slots(holder: Any, name: str) -> bool:
    """Tell whether `__slots__` has made a member of an object: those of classes in C may be computed."""
    member: Any = getattr(cast("type[Any]", type(holder)), name, None)
    return isinstance(member, MemberDescriptorType) and "__slots__" in vars(member.__objclass__)


def _items_at(names: Sequence[str], mapping: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple([mapping[name] for name in names])


def _is_still(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return (
        len(now) == len(before) and all(map(is_same, now, before)) and all(map(is_same, now.values(), before.values()))
    )


def _items_of(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys and values of a dict of a derived class, by the methods of `dict`: no user code runs."""
    if isinstance(mapping, OrderedDict):  # which has an order of its own
        return (*_keys_in_order(mapping), *_values_in_order(mapping))
    return (*_keys_of(mapping), *_values_of(mapping))


def value_of(variable: ContextVar[Any]) -> Any:
    """Return the value of a context variable, or its default, or `ABSENT`."""
    try:
        return variable.get()
    except LookupError:
        return ABSENT


def _items_of_proxy(proxy: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return (*proxy.keys(), *proxy.values())


def _bytes_of(buffer: Any) -> tuple[Any, ...]:
    return (getattr(buffer, "typecode", ""), bytes(buffer))


_keys_in_order: Final[Any] = vars(OrderedDict)["keys"]
_values_in_order: Final[Any] = vars(OrderedDict)["values"]
_dict_of: Final = attrgetter("__dict__")
_keys_of: Final[Any] = vars(dict)["keys"]
_values_of: Final[Any] = vars(dict)["values"]


def _items_by(kind: Any, items: Any) -> tuple[Any, ...]:
    """Return the items of a collection by the method of a class from which its own is derived: no user code runs."""
    return tuple(kind.__iter__(items))


_KINDS: Final[tuple[Any, ...]] = (list, deque, set, frozenset)
_ITERATED: Final[dict[type[Any], Callable[[Any], tuple[Any, ...]]]] = {
    kind: partial(_items_by, kind) for kind in _KINDS
}


def is_same(now: Any, before: Any) -> bool:
    """Tell whether a value is the earlier object, or an equal number, string or tuple of such: a rate that is computed
    at each step is another object each time."""
    if now is before:
        return True
    kind = cast("type[Any]", type(now))
    if kind is not type(before):
        return False
    if kind in BY_VALUE:
        return now == before
    if kind is float or kind is complex:
        return repr(now) == repr(before)  # which tells zeros apart, and not what is no number
    if kind is tuple:
        return len(now) == len(before) and all(map(is_same, now, before))
    return isinstance(now, np.number | np.bool) and now.tobytes() == before.tobytes()


def is_fixed(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an array and its bases are read-only, so that it need not be compared."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or type(base) is bytes


def _shape_and_bytes(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.shape, array.dtype.str, array.tobytes())


def _shape_and_objects(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.shape, *array.ravel().tolist())


def is_input(array: Any) -> bool:
    """Tell whether an array becomes an input of the node of the code that captures it, and no part of its pickle."""
    return type(array) is np.ndarray and array.dtype.kind in NUMERIC and array.size > 0


def generator_state(generator: Generator) -> Any:
    """Return a snapshot of a generator's state that is cheap to compare; None of one that has none."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    return frozen_state(
        generator.bit_generator.state
        if isinstance(generator, np.random.Generator)
        else generator.get_state(legacy=False)
    )


def frozen_state(state: Any) -> Any:
    """Return an immutable copy of the state of a NumPy generator."""
    if isinstance(state, dict):
        return tuple([(name, frozen_state(value)) for name, value in cast("dict[str, Any]", state).items()])
    return state.tobytes() if isinstance(state, np.ndarray) else state
