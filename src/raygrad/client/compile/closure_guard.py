"""Closure guard: the captured state of a compiled function, which must be unchanged for a recording to be replayed.

`compiled` makes one per recording. Beside what the workers' guards of user code cover, it follows the modules that code
names or imports, the objects of libraries, optimisers and interop nodes, and it finds what no guard can compare
(`outside_state`): a function that reads such a thing is recorded at each call."""

from __future__ import annotations

import importlib.util
import operator
import os
import random
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.function import FunctionMeta
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.interop.node import ForeignCallable
from raygrad.optim.lr_base import LRScheduler
from raygrad.optim.optimizer import Optimizer, ParameterState
from raygrad.tracebacks import attribute_of
from raygrad.workers.code.bytecode import names_in
from raygrad.workers.code.captured_state import CapturedState
from raygrad.workers.code.guard import ABSENT, Part, frozen_state, is_fixed
from raygrad.workers.code.importable import imports_alike
from raygrad.workers.code.visitor import attribute_parts, module_parts, slot_names, slot_parts

from .named_paths import CALLED, ImportedName, NamedPath, paths_in
from .outside_state import (
    CACHED_FUNCTION,
    REFLECTING,
    attribute_reads_outside,
    held_by_cache,
    is_hidden,
    is_immutable,
    method_reads_outside,
    name_reads_outside,
    reads_outside,
    state_reader,
)

_LOOKED_INTO: Final = (ForeignCallable, LRScheduler, Optimizer, SimpleNamespace)
"""Classes of libraries whose instances the walk over captured state looks into by itself."""

_OWNED: Final = (
    *(np.ndarray, dict, tuple, list, set, frozenset, deque),
    *(np.random.Generator, np.random.RandomState, random.Random),
)
"""Types of objects that the walk over captured state guards by itself, but for what a subclass adds."""

_BY_IDENTITY: Final = (type, FunctionType, ModuleType, Tensor)
"""Types of targets of weak references of which it suffices that they are the same: the values of tensors are inputs."""

_FRAMEWORKS: Final = frozenset(("raygrad", "torch", "jax", "jaxlib", "flax"))
"""Packages whose objects are used through nodes, which take what they read as inputs."""


class ClosureState(CapturedState):
    """The state that a compiled function, and the arguments that are no tensors, capture now.

    Attributes:
        outside: what a replay would read that no guard can compare, in words; empty if there is nothing.

    Raises:
        SessionError: they reach too many objects.
    """

    def __init__(self, objects: Iterable[Any]) -> None:
        self.outside = ""
        self._runs_here = True
        self._worker_code: list[Any] = []
        """Functions whose code runs on workers, each time: only what they capture is guarded."""
        self._named: set[Any] = set()
        """The names on paths of code."""
        self._whole: set[int] = set()
        """By id, the modules that are guarded as a whole."""
        self._weak: list[weakref.ref[Any]] = []
        self._unnamed: list[tuple[Any, str]] = []
        """Attributes with what cannot be compared, which code may name that is not visited yet."""
        self._unnamed_functions: list[Part] = []
        """Functions of modules that are guarded as a whole, likewise."""
        super().__init__(objects, _LOOKED_INTO)
        self._visit_named_functions()
        for name, what in self._unnamed:
            if self._may_be_read(name):
                self._cannot_compare(what)
        for reference in self._weak:
            target = reference()
            if target is None or isinstance(target, _BY_IDENTITY) or id(target) in self._seen:
                self.guard.state(_target, (reference,), _target(reference))
            else:
                self._cannot_compare("an object by a weak reference")
        self._runs_here = False
        self.walk(self._worker_code)
        self._visit_named_functions()

    def _may_be_read(self, name: Any) -> bool:
        """Tell whether the code that was visited names an attribute, or may reach any."""
        return name in self._named or not self._named.isdisjoint(REFLECTING)

    def _visit_named_functions(self) -> None:
        """Visit the functions of whole modules that code may read, and those that these may."""
        while True:
            named: list[Part] = []
            unnamed: list[Part] = []
            for part in self._unnamed_functions:
                (named if self._may_be_read(part[1]) else unnamed).append(part)
            if not named:
                return
            self._unnamed_functions = unnamed
            self.walk([part[3] for part in named])

    def _cannot_compare(self, what: str) -> None:
        if self._runs_here and not self.outside:
            self.outside = what

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def other(self, value: Any) -> Sequence[Part]:
        """Visit an object that is no atom, once."""
        if id(value) in self._seen:
            return ()
        if self._runs_here and isinstance(value, FunctionMeta) and not imports_alike(value.__module__):
            self._worker_code.append(value)
            return ()
        if isinstance(value, random.SystemRandom):
            self._seen[id(value)] = value
            self._cannot_compare("a generator of the system, which draws something else each time")
            return ()
        held = list(super().other(value))
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is Tensor:
            return self._of_tensor(cast(Tensor, value), held)
        if kind is FunctionType:
            return self._of_function(cast(FunctionType, value), held)
        if kind is ModuleType:
            return held + self._whole_module(cast(ModuleType, value))
        if kind is BuiltinFunctionType or kind is MethodWrapperType:
            return held + self._of_builtin(value)
        if isinstance(value, dict) and not isinstance(value, ParameterState):
            mapping = cast("dict[Any, Any]", value)
            self.guard.state(_keys, (mapping,), _keys(mapping))
        return self._named_only(value, held + self._of_object(value, kind))

    def _named_only(self, value: Any, held: list[Part]) -> list[Part]:
        """Leave out attributes of a user object with what cannot be compared, until code names them."""
        if imports_alike(type(value).__module__) and type(value) is not SimpleNamespace:
            return held
        found: list[Part] = []
        for part in held:
            if part[0] in ("attribute", "slot") and _cannot_be_read(part[3]):
                self._unnamed.append((part[1], f"{_described(part[3])} in '{part[1]}'"))
            else:
                found.append(part)
        return found

    # ---- code -------------------------------------------------------------------------------------------------------

    def _of_function(self, function: FunctionType, held: list[Part]) -> list[Part]:
        if imports_alike(str(function.__globals__.get("__name__", ""))):
            if reads_outside(function):
                self._cannot_compare(f"'{function.__module__}.{function.__name__}'")
            if function is os.getenv:
                held.append(("attribute", "environ", os, os.environ))
            registry = function.__dict__.get("registry")
            if type(registry) is MappingProxyType:  # of functools.singledispatch
                held.append(("attribute", "registry", function, cast(object, registry)))
            return held
        found = [part for part in held if type(part[3]) is not ModuleType or part[0] not in ("global", "cell")]
        variables = {part[1]: part[3] for part in held if part[0] == "cell"}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name not in variables:  # not bound yet
                self.guard.state(_content, (cell,), ABSENT)
                variables[name] = ABSENT
        for path in paths_in(function.__code__):
            self._named.update(path)
            found += self._of_path(function, variables, path)
        return found

    def _of_path(self, function: FunctionType, variables: dict[str, Any], path: NamedPath) -> list[Part]:
        """Guard what a path of a function's code goes through; return what it leads to."""
        names = list(path[1:])
        called = bool(names) and names[-1] == CALLED
        if called:
            names.pop()
        if attribute_reads_outside((path[0], *names), called):
            self._cannot_compare(f"'{_dotted(path)}'")
        found: list[Part] = []
        value = self._root(function, variables, path[0], found)
        while type(value) is ModuleType and names:
            value = self._attribute(value, str(names.pop(0)), found)
        if type(value) is ModuleType:
            found += self._whole_module(value)
        elif names and method_reads_outside(value, str(names[0])):
            self._cannot_compare(f"'{_dotted(path)}'")
        return found

    def _root(self, function: FunctionType, variables: dict[str, Any], root: Any, found: list[Part]) -> Any:
        """Return what the first name of a path refers to, and guard it if nothing else does."""
        space = function.__globals__
        if type(root) is ImportedName:
            modules: Any = sys.modules
            name = root.module
            if root.level:
                name = importlib.util.resolve_name("." * root.level + name, str(space.get("__package__") or ""))
            value = modules.get(name, ABSENT)
            self.guard.references([part := ("global", name, modules, value)])
            if isinstance(value, ModuleType) and type(value) is not ModuleType:
                found.append(part)
            return value
        if not root or root in variables:
            return variables.get(root, ABSENT)
        if root in space:
            value = space[root]
            if root not in names_in(function.__code__).globals:  # as in the body of a class
                self._refer(root, space, value, found)
            return value
        builtin = cast("dict[str, Any]", function.__builtins__)  # type: ignore[attr-defined]
        value = builtin.get(root, ABSENT)
        self.guard.references([("global", root, space, ABSENT), ("global", root, builtin, value)])
        if value is not ABSENT:
            found.append(("global", root, builtin, value))
        return value

    def _refer(self, name: str, space: dict[str, Any], value: Any, found: list[Part]) -> None:
        part = ("global", name, space, value)
        self.guard.references([part])
        if type(value) is not ModuleType and value is not ABSENT:
            found.append(part)

    def _attribute(self, module: ModuleType, name: str, found: list[Part]) -> Any:
        """Return an attribute of a module, guarded. Callables of libraries are taken to stay as they are."""
        space = vars(module)
        if module.__name__.partition(".")[0] in _FRAMEWORKS:
            if name_reads_outside(module.__name__, name):
                self._cannot_compare(f"'{module.__name__}.{name}'")
            if name in space:  # else it is loaded when it is used first
                self.guard.references([("global", name, space, space[name])])
            return ABSENT
        value = space.get(name, ABSENT)
        if value is ABSENT and "__getattr__" in space:
            found.append(("global", "__getattr__", space, space["__getattr__"]))
        if imports_alike(module.__name__) and (callable(value) or value is ABSENT):
            if reads_outside(value) or name_reads_outside(module.__name__, name):
                self._cannot_compare(f"'{module.__name__}.{name}'")
            if value is os.getenv:
                found.append(("attribute", "environ", os, os.environ))
            if type(value) is FunctionType and not imports_alike(str(value.__globals__.get("__name__", ""))):
                self._refer(name, space, value, found)  # what the program has put there
            elif value is not ABSENT:
                self.guard.references([("global", name, space, value)])
            return value
        if module is sys and name == "modules":
            self._cannot_compare("'sys.modules'")
            return ABSENT
        self._refer(name, space, value, found)
        return value

    def _whole_module(self, module: ModuleType) -> list[Part]:
        """Guard all attributes of a user module that code handles as an object."""
        if imports_alike(module.__name__) or id(module) in self._whole:
            return []
        self._whole.add(id(module))
        self.guard.members(module)
        parts = [part for part in module_parts(module) if type(part[3]) is not ModuleType]
        self._unnamed_functions += [part for part in parts if type(part[3]) is FunctionType]
        return [part for part in parts if type(part[3]) is not FunctionType]

    def _of_builtin(self, function: Any) -> list[Part]:
        owner = attribute_of(function, "__self__")
        if reads_outside(function) or (owner is not None and method_reads_outside(owner, function.__name__)):
            self._cannot_compare(f"'{function.__name__}'")
        return [] if owner is None or isinstance(owner, ModuleType | type) else [("self", "self", function, owner)]

    # ---- objects ----------------------------------------------------------------------------------------------------

    def _of_object(self, value: Any, kind: type[Any]) -> list[Part]:
        """Guard what the walk over captured state does not know of an object; return what else it holds."""
        if isinstance(value, type):
            return self._of_class(value)
        if isinstance(value, ForeignCallable):
            return []
        of_library = imports_alike(kind.__module__)
        if not of_library:
            self.guard.state(type, (value,), kind)
        if isinstance(value, Tensor):
            return self._of_tensor(value, [])
        if isinstance(value, np.ndarray) and is_fixed(cast(Any, value)):
            self.guard.state(is_fixed, (cast(Any, value),), True)
        if isinstance(value, _OWNED):
            return self._added_by_subclass(value, kind) if kind not in _OWNED else []
        read = state_reader(value)
        if read is not None:
            self.guard.state(read, (value,), state := read(value))
            self._library_attributes(value)
            held = held_by_cache(value) if type(value) is CACHED_FUNCTION else _objects_in(state)
            return [("item", number, value, one) for number, one in enumerate(held)]
        if of_library and kind.__module__.partition(".")[0] in _FRAMEWORKS:
            return []
        if is_immutable(value):
            return []
        if isinstance(value, weakref.ref):
            self._weak.append(cast(Any, value))
            return []
        if _cannot_be_read(value):
            self._cannot_compare(_described(value))
            return []
        return self._library_attributes(value) if of_library and kind is not SimpleNamespace else []

    def _of_tensor(self, tensor: Tensor, held: list[Part]) -> list[Part]:
        added = user_attributes(tensor)
        if added:
            self.guard.references(added)
        return held + added

    def _of_class(self, cls: type[Any]) -> list[Part]:
        if imports_alike(cls.__module__):
            return []
        self.guard.state(operator.attrgetter("__mro__"), (cls,), cls.__mro__)
        return [] if type(cls) in (type, FunctionMeta) else [("class", "", cls, type(cls))]

    def _added_by_subclass(self, value: Any, kind: type[Any]) -> list[Part]:
        """Guard the attributes that a subclass adds to a container, an array or a tuple."""
        found: list[Part] = []
        if isinstance(value, np.ndarray | tuple):
            found = self._library_attributes(value)
        return found if imports_alike(kind.__module__) else [*found, ("class", "", value, kind)]

    def _library_attributes(self, value: Any) -> list[Part]:
        """Guard the attributes and slots of an object of a library."""
        attributes: Any = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self.guard.mapping(cast("dict[str, Any]", attributes))
        held = slot_parts(value, slot_names(cast(Any, type(value))))
        self.guard.references(held)
        return attribute_parts(value) + held


def user_attributes(tensor: Tensor) -> list[Part]:
    """Return the attributes that a program has given to a tensor."""
    attributes = tensor.__dict__
    return [("slot", name, tensor, attributes[name]) for name in sorted(attributes.keys() - _OF_TENSORS)]


_OF_TENSORS: Final = frozenset((*dir(Tensor), *Tensor.__annotations__))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _keys(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(mapping)


def _objects_in(state: Any) -> list[Any]:
    """Return the objects in a state that was read: those of a tuple, and of tuples in it."""
    if type(state) is not tuple:
        return [state]
    items = cast("tuple[Any, ...]", state)
    return [found for item in items for found in _objects_in(item)]


def _cannot_be_read(value: Any) -> bool:
    """Tell whether no guard can compare an object: it may give something else each time."""
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if (
        isinstance(value, (*_OWNED, *_LOOKED_INTO, Tensor, type, ModuleType))
        or state_reader(value) is not None
        or is_immutable(value)
    ):
        return False
    return kind.__module__.partition(".")[0] not in _FRAMEWORKS and is_hidden(value)


def _target(reference: weakref.ref[Any]) -> int:
    target = reference()
    return 0 if target is None else id(target)


def _described(value: Any) -> str:
    return f"an object of type '{type(value).__name__}'"


def _dotted(path: NamedPath) -> str:
    names = [name.module if type(name) is ImportedName else str(name) for name in path if name != CALLED]
    return ".".join(names).lstrip(".")


def closure_guard(objects: Iterable[Any]) -> ClosureState:
    """Return the tensors that some objects reach and a guard of everything else, optimisers and interop nodes included.

    Raises:
        SessionError: they reach too many objects.
    """
    return ClosureState(objects)


def global_generator_states() -> Any:
    """Return what is another value once somebody has drawn from the generators that Python and NumPy keep."""
    return hash((random.getstate(), frozen_state(np.random.get_state(legacy=False))))
