"""Unpickling of Python objects and user code: one class for each definition, and captured values put back.

The inverse of `pickling`. Workers open shipped code with it, and the client opens what comes back. A function in an
argument or a context is that of the code which reads it, if that has one of the same definition (`functions_of`).
"""

from __future__ import annotations

import builtins
import contextlib
import io
import pickle
import threading
import weakref
from collections.abc import Generator, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import resolve_name
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from raygrad.autograd.core.array_layout import as_dense
from raygrad.autograd.nodes.captured_leaves import captured_tensor
from raygrad.autograd.tensor.tensor import Tensor

from .array_form import ArrayForm, formed
from .enumerations import set_attributes
from .identity import State, Token, restored

ClassName: TypeAlias = tuple[str, bool]
"""The name of a class or function that goes by value, and whether it captures no array: then one copy serves all."""

pickle_lock = threading.RLock()
"""Over pickling and opening: cloudpickle's list of modules and the tables of classes belong to the process."""
home_classes: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""Classes and functions that were written here and sent away, by name; the newest of several with one definition."""
_opened_classes: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""Classes and functions of which one copy serves all, by name."""
class_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The names of all classes and functions that came here by value."""

EVERYWHERE: Final = "="
"""Begins the names of functions that read no variables, so that one copy serves all code."""

Functions: TypeAlias = MutableMapping[str, FunctionType]
"""Functions by name, held weakly."""

_functions_in: weakref.WeakKeyDictionary[Any, Functions] = weakref.WeakKeyDictionary()
"""By opened code, the functions that came with it."""


def is_still(function: Any, name: str) -> bool:
    """Tell whether a function of this process reads what it read when it was named; `pickling` puts its own here."""
    raise NotImplementedError


class _UnpicklingState(threading.local):
    """The state of unpickling on this thread."""

    worker: bool = False
    classes: Sequence[ClassName] = ()
    finished: set[int] | None = None
    """Classes and functions, by id, that need no filling."""
    functions: Functions | None = None
    """Functions that are used in the place of others of the same definition."""


_opening = _UnpicklingState()


def opens_as_worker() -> bool:
    """Tell whether this thread is inside `opening_as_worker`."""
    return _opening.worker


@contextmanager
def opening_as_worker() -> Generator[None, None, None]:
    """Unpickle on this thread as another process would, though it is the client's: user classes are copies, not the
    client's own. For `strict` sessions."""
    before = _opening.worker
    _opening.worker = True
    try:
        yield
    finally:
        _opening.worker = before


def make_class(reference: Any, maker: Any, args: tuple[Any, ...]) -> type:
    is_code = isinstance(reference, int)
    name, pure = _opening.classes[reference] if is_code else reference
    # code that captures arrays is to have those of its node, which the class as it was written has not
    known = None if _opening.worker or (is_code and not pure) else home_classes.get(name)
    if known is None and pure:
        known = _opened_classes.get(name)
    finished = cast("set[int]", _opening.finished)
    if known is not None:
        finished.add(id(known))
        return known
    made: type = maker(*args)
    class_names[made] = name
    return made


def make_function(reference: Any, maker: Any, args: tuple[Any, ...]) -> FunctionType:
    is_code = isinstance(reference, int)
    name, pure = _opening.classes[reference] if is_code else reference
    functions = _opening.functions
    finished = cast("set[int]", _opening.finished)
    everywhere = name.startswith(EVERYWHERE)
    known: Any = None
    if pure and functions is not None and not is_code:
        known = functions.get(name)
    if known is None and pure and (everywhere or not is_code):  # that of code has the variables of its code
        known = None if _opening.worker else home_classes.get(name)
        if known is not None and not everywhere and not is_still(known, name):
            known = None
        if known is None and everywhere:
            known = _opened_classes.get(name)
    made: FunctionType = maker(*args) if known is None else known
    if known is None:
        class_names[made] = name
        if everywhere and pure:
            _opened_classes.setdefault(name, made)
    else:
        finished.add(id(known))
    if functions is not None and pure:
        functions[name] = made
    return made


def fill_function(function: FunctionType, how: tuple[Any, Any]) -> FunctionType:
    finished = cast("set[int]", _opening.finished)
    if id(function) not in finished:
        setter, state = how
        setter(function, state)
        finished.add(id(function))
    return function


def restored_here(token: Token, cls: type[Any], state: State) -> Any:
    """Return an object that keeps its identity."""
    return restored(token, cls, state, _opening.worker)


@contextmanager
def functions_of(code: Any) -> Generator[None, None, None]:
    """Open what `code` reads: functions of the definitions that came with it are those, and others are made once."""
    before = _opening.functions
    try:
        _opening.functions = _functions_in.get(code)
    except TypeError:  # not hashable, or takes no weak references
        _opening.functions = None
    if _opening.functions is None:
        _opening.functions = weakref.WeakValueDictionary()
    try:
        yield
    finally:
        _opening.functions = before


def fill_class(cls: type, how: tuple[Any, ...]) -> type:
    finished = cast("set[int]", _opening.finished)
    if id(cls) not in finished:
        setter, state, *members = how
        setter(cls, state)
        if members:
            set_attributes(cls, *members)
        _opened_classes.setdefault(class_names[cls], cls)
        finished.add(id(cls))
    return cls


class _Importer:
    """The `__import__` of a function that came with the modules which it imports: with what stood in them then."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def __call__(self, name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        full = resolve_name("." * level + name, space and space.get("__package__")) if level else name
        found = self.modules.get(full if wanted else full.partition(".")[0])
        return builtins.__import__(name, space, local, wanted, level) if found is None else found


def importing_function(code: CodeType, space: dict[str, Any], *rest: Any) -> FunctionType:
    """Return a function that imports modules of its own; see `fill_importing_function`."""
    space["__builtins__"] = {**vars(builtins), "__import__": _Importer()}
    return FunctionType(code, space, *rest)


def fill_importing_function(function: Any, how: tuple[Any, Any, dict[str, ModuleType]]) -> Any:
    setter, state, modules = how
    setter(function, state)
    function.__builtins__["__import__"].modules.update(modules)
    function.__globals__["__builtins__"] = function.__builtins__  # for functions that it defines
    return function


def module_in_part(name: str, left: tuple[str, ...]) -> ModuleType:
    """Return a module to be filled with what could be pickled of one of the user's; what was `left` is that of the
    module which this process imports by its name."""
    made = ModuleType(name)

    def __getattr__(attribute: str) -> Any:
        if attribute not in left:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return getattr(import_module(name), attribute)

    made.__dict__["__getattr__"] = __getattr__
    return made


def fill_module(module: ModuleType, kept: dict[str, Any]) -> ModuleType:
    module.__dict__.update(kept)
    return module


def opened_value(array: Any, kind: int, form: ArrayForm | None = None) -> Any:
    """Return a captured array of a form, or the tensor that it was (see `kind_of_capture`), read-only."""
    array = as_dense(array) if kind else formed(array, form)
    if type(array) is np.ndarray and array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return captured_tensor(array, kind) if kind else array


class _Unpickler(pickle.Unpickler):
    """Puts captured values back as arrays or tensors."""

    def __init__(self, data: bytes, captured: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._captured = captured
        self._bound: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        slot, kind, *form = cast("tuple[Any, ...]", pid)
        if slot not in self._bound:
            value = self._captured[slot]
            if value is not None and not isinstance(value, Tensor):
                value = opened_value(value, kind, ArrayForm(*form) if form else None)
            self._bound[slot] = value
        return self._bound[slot]


def load(data: bytes, classes: Sequence[ClassName], captured: Sequence[Any]) -> Any:
    with pickle_lock:
        before = _opening.classes, _opening.finished
        _opening.classes, _opening.finished = classes, set()
        try:
            return _Unpickler(data, captured).load()
        finally:
            _opening.classes, _opening.finished = before


def load_code(data: bytes, classes: Sequence[ClassName], captured: Sequence[Any]) -> Any:
    """Return the code of a payload, and remember the functions that came with it."""
    before = _opening.functions
    functions: Functions = weakref.WeakValueDictionary()
    _opening.functions = functions
    try:
        code = load(data, classes, captured)
        with contextlib.suppress(TypeError):  # not hashable, or takes no weak references
            _functions_in[code] = functions
        return code
    finally:
        _opening.functions = before


def rebuilt_tensor(array: Any, requires_grad: bool) -> Tensor:
    """Return a tensor that came as its array."""
    tensor = Tensor.made(array)
    tensor._requires_grad = requires_grad
    return tensor


def unpickle_value(data: bytes) -> Any:
    """Return the object that `pickle_value` was given."""
    return load(data, (), ())
