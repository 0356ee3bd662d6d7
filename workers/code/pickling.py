"""Pickling of Python objects and user code: by value for what is the user's, by import name for what is installed.

`shipping` sends code with it, `values` sends contexts and objects. What every process of a cluster imports from the
same source (standard library, site-packages, raygrad) goes by import name. All else goes by value, importable here or
not (DR-13).

A class that goes by value is named by the hash of its definition. Opened twice it is one class. An instance that
returns to the process of its class is an instance of that very class, so that `except MyError` works."""

from __future__ import annotations

import enum
import functools
import io
import pickle
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextvars import ContextVar
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeVar, cast

import cloudpickle
import numpy as np
from xxhash import xxh3_128_digest

from raygrad.autograd.devices.serving import device_of, is_device_array
from raygrad.autograd.functions.function import FunctionMeta
from raygrad.autograd.functions.function_class_api import MADE_BY_METACLASS
from raygrad.autograd.nodes.captured_leaves import PLAIN, kind_of_capture
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable

from . import unpickling
from .array_form import ARRAYS, NUMERIC, base_of, form_of, formed
from .culprit import path_to_unpicklable
from .enumerations import attributes_of_members, make_enumeration, members_of
from .fingerprint import digest
from .guard import ABSENT, is_input, value_of
from .identity import import_place, imported, is_plain_value, state_of, token_of
from .importable import import_name, imports_alike
from .unpickling import (
    EVERYWHERE,
    ClassName,
    class_names,
    fill_class,
    fill_function,
    fill_importing_function,
    fill_module,
    home_classes,
    importing_function,
    make_class,
    make_function,
    module_in_part,
    pickle_lock,
    rebuilt_tensor,
    restored_here,
)
from .visitor import DISPATCHES, attribute_parts, function_parts, imported_inside, looked_up, slot_names

PROTOCOL: Final = 5

TABLES_KEPT: Final = 1024
"""Tables of class names that are cached per process: a bound for programs that make new definitions without end."""

MUTABLE: Final = (list, dict, set, bytearray, deque)
"""Containers that code would fill in vain on a worker, which gets a copy (DR-06)."""

REMEDY: Final = "make it an argument or an output by itself, or move it to the host first (tensor.cpu())"
"""Advice for an array of a device that is nested in another object."""

# ---- picklers --------------------------------------------------------------------------------------------------------


class HoldsDeviceArray(NotShippable):
    """An object holds an array of a device, whose transfer was not requested."""


class _Pickler(cloudpickle.Pickler):
    """Pickles user code by value, and names the classes that go by value; see the head of this file."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=PROTOCOL)
        self._registered: list[ModuleType] = []
        self.imports = ""
        """The name of a function or class in a module of the user's that goes by name, since it cannot be pickled; or
        ""."""
        self._unnamed: set[int] = set()
        """Functions, by id, that nothing is compared with: methods of classes, and the code that is shipped."""

    def dump(self, obj: object) -> None:
        with pickle_lock:
            try:
                super().dump(obj)
            finally:
                for module in self._registered:
                    cloudpickle.unregister_pickle_by_value(module)
                self._registered.clear()

    def reducer_override(self, obj: Any) -> Any:
        given: Any = obj
        if isinstance(obj, type):
            return self._class(obj)
        if is_device_array(
            obj
        ):  # whatever its library makes of that: it would be moved unseen, and forget where it was
            raise HoldsDeviceArray(f"an array of {device_of(obj)} is not pickled; {REMEDY}")
        if isinstance(obj, Tensor) and obj.grad_fn is None and is_device_array(obj._data):
            raise HoldsDeviceArray(f"a tensor on {device_of(obj._data)} is not pickled; {REMEDY}")
        if isinstance(obj, FunctionType):
            self._by_value(obj.__module__)
            if obj.__code__ is DISPATCHES:
                registered = [pair for pair in given.registry.items() if pair[0] is not object]
                return _dispatching, (given.registry[object], registered)
            reduced: Any = super().reducer_override(obj)
            if type(reduced) is not tuple:
                return reduced
            space: dict[str, Any] = cast(Any, reduced)[2][1]["__globals__"]
            space.update({name: obj.__globals__[name] for name in looked_up(obj) if name not in space})
            self.sends(obj)
            for name, module in imported_inside(obj).items():
                if not imports_alike(name):
                    self._note_left(module)
            return self._function(obj, _with_imports(obj, cast("tuple[Any, ...]", reduced)))
        if isinstance(obj, CodeType):
            _, parts = cast("tuple[Any, Any]", self.dispatch_table[CodeType](obj))
            return _code, (parts, "".join(obj.co_filename))  # joined: interned or not, a name has the same bytes
        if isinstance(obj, ModuleType):
            if _travels_whole(obj):
                self._by_value(obj.__name__)
            elif not imports_alike(obj.__name__):
                self._note_left(obj)
                return _reduced_in_part(obj)
        elif isinstance(obj, io.IOBase) and obj is not sys.stdout and obj is not sys.stderr:
            raise NotShippable(f"an open file ({type(obj).__name__}) cannot travel to a worker")
        elif isinstance(obj, weakref.WeakSet):
            raise NotShippable("a WeakSet cannot travel to a worker, where nothing else would hold what is in it")
        elif isinstance(obj, functools.cached_property):  # which holds a lock
            return functools.cached_property, (obj.func,), {"attrname": obj.attrname}
        elif isinstance(obj, memoryview):
            if obj.nbytes and len(obj.format) == 1:
                return _memoryview, (obj.tobytes(), obj.format, obj.shape, obj.readonly)
        elif isinstance(obj, ContextVar):
            value = value_of(given)
            return _context_variable, (obj.name,) if value is ABSENT else (obj.name, value)
        elif isinstance(obj, functools._lru_cache_wrapper) and not imports_alike(obj.__module__):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        elif callable(given):
            offered = import_name(given)
            if offered is not None:
                return offered[1]
            if type(given).__name__ == "PjitFunction":  # what JAX has compiled for this process stays here
                return _jitted, _jit_of(given)
        array = cast("Any", obj)
        form = form_of(array) if _is_of_numbers(array) else None
        if form is not None:
            self.keeps_form(array)
            return formed, (base_of(array), form)
        if _has_attributes(array):
            return _derived_array, (array.view(np.ndarray), cast("type[Any]", type(array)), vars(array))
        constant = self._constant(given)
        return super().reducer_override(given) if constant is None else constant

    def _note_left(self, module: ModuleType) -> None:
        """Take note of code in a module that does not travel with it."""
        for name in () if _travels_whole(module) else _unpicklable_in(module):
            if isinstance(vars(module)[name], FunctionType | type):
                self.imports = f"{module.__name__}.{name}"

    def sends(self, function: FunctionType) -> None:
        """Called with each function that goes by value."""

    def keeps(self, constant: Any, state: tuple[Any, ...]) -> None:
        """Called with each object that keeps its identity, and its attributes."""

    def keeps_form(self, array: np.ndarray[Any, Any]) -> None:
        """Called with each array of numbers that lies otherwise than NumPy's pickles have it."""

    def class_reference(self, cls: Any) -> Any:
        """Return how the pickle names a class or function that goes by value."""
        return _class_name(cls)

    def _by_value(self, module: str | None) -> None:
        if module is None or imports_alike(module):
            return
        loaded = sys.modules.get(module)
        if loaded is not None and module not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(loaded)
            self._registered.append(loaded)

    def _class(self, cls: type) -> Any:
        self._by_value(cls.__module__)
        reduced: Any = super().reducer_override(cls)
        if type(reduced) is not tuple or len(reduced) != 6:  # pyright: ignore[reportUnknownArgumentType]
            return reduced  # pyright: ignore[reportUnknownVariableType]
        maker, args, state, _, _, setter = cast("tuple[Any, ...]", reduced)
        state[0].pop("__slotnames__", None)  # noted by Python when an instance is first pickled
        for name in slot_names(cls):  # cloudpickle leaves those that Python mangles
            state[0].pop(name, None)
        self._unnamed.update([id(getattr(one, "__func__", one)) for one in state[0].values()])
        if isinstance(cls, FunctionMeta):
            for made_by_the_metaclass in MADE_BY_METACLASS:
                state[0].pop(made_by_the_metaclass, None)
        # cloudpickle's own name for the class is random: not even equal when made anew
        args = (*args[:-2], None, None)
        how = (setter, state)
        if issubclass(cls, enum.Enum):
            for name in cls.__members__:
                state[0].pop(name, None)
            maker, args = make_enumeration, (*args[:3], members_of(cls), *args[4:])
            how = (setter, state, attributes_of_members(cls))
        elif state[0].get("__slots__"):  # set afterwards, they would make no slots
            args = (*args[:-3], {**args[-3], "__slots__": state[0].pop("__slots__")}, None, None)
        return make_class, (self.class_reference(cls), maker, args), how, None, None, fill_class

    def _function(self, function: FunctionType, reduced: tuple[Any, ...]) -> Any:
        """Return how a function that goes by value is made: one that others may compare is named."""
        if id(function) in self._unnamed:
            return reduced
        maker, args, state, _, _, setter = reduced
        made = (self.class_reference(function), maker, args)
        return make_function, made, (setter, state), None, None, fill_function

    def _constant(self, value: Any) -> Any:
        """Return how an object is made that is to be itself on the other side, None if it goes as others of its type:
        a dtype of NumPy's own, a constant of an installed module, a sentinel of the user's."""
        if isinstance(value, np.dtype):
            if np.dtype(value.str) is not value:
                return None
            self.keeps(value, ())
            return np.dtype, (value.str,)
        state = state_of(value)
        if state == () or state is None:
            place = import_place(value)
            if place is not None:
                self.keeps(value, ())
                return imported, place
        if state is None:
            return None
        self.keeps(value, state)
        return restored_here, (token_of(value), type(value), state)


def _is_of_numbers(value: Any) -> bool:
    return type(value) in ARRAYS and value.dtype.kind in NUMERIC


def _with_imports(function: FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return how a function is made that imports modules which travel with it, `reduced` if it imports none."""
    modules = {name: one for name, one in imported_inside(function).items() if not imports_alike(name)}
    if not modules:
        return reduced
    _, args, state, _, _, setter = reduced
    return importing_function, args, (setter, state, modules), None, None, fill_importing_function


class _ExtractingPickler(_Pickler):
    """A pickler that extracts some values: they are not part of the pickle, and `load` puts them back."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.captured: list[Any] = []
        """The extracted values, in the order of their slots."""
        self.iterators: list[str] = []
        """The variables by which functions capture iterators."""
        self.mutable: list[tuple[FunctionType, str]] = []
        """Functions that go by value, each with the name of a list, dict or set that it captures."""
        self._slots: dict[int, tuple[int, int]] = {}

    def extracted(self, obj: Any, kind: int) -> tuple[int, int]:
        """Extract a value of a kind (see `kind_of_capture`), and return what stands for it in the pickle."""
        slot = self._slots.get(id(obj))
        if slot is None:
            slot = self._slots[id(obj)] = (len(self.captured), kind)
            self.captured.append(obj)
        return slot

    def sends(self, function: FunctionType) -> None:
        self.mutable.extend(_mutable_of(function, MUTABLE))
        self.iterators.extend([name for _, name in _mutable_of(function, Iterator)])


_P = TypeVar("_P", bound=_Pickler)


class CodePickler(_ExtractingPickler):
    """The pickler of user code: extracts arrays and tensors, numbers classes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: list[Any] = []
        """Classes and functions that go by value, in the order of their references."""

    def dump(self, obj: object) -> None:
        self._unnamed.add(id(obj))
        super().dump(obj)

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        kind = cast("type[Any]", type(obj))
        if kind is np.ndarray:
            return (*self.extracted(obj, 0), *(form_of(obj) or ())) if is_input(obj) else None
        if kind is not Tensor and not isinstance(obj, Tensor):
            return None
        return self.extracted(obj, kind_of_capture(obj))

    def class_reference(self, cls: type) -> int:
        self.classes.append(cls)
        return len(self.classes) - 1


def _mutable_of(function: FunctionType, kinds: Any) -> Iterator[tuple[FunctionType, str]]:
    """Yield the variables by which a function captures objects of some kinds: globals, then those that it closes over.

    A default is an argument, and no variable of the client's."""
    if imports_alike(str(function.__globals__.get("__name__"))):
        return  # what a library wrapped around the user's code, as `dataclass` does: its captures are its own
    held = function_parts(function)
    for wanted in ("global", "cell"):
        for role, name, _, value in held:
            if role == wanted and isinstance(value, kinds):
                yield function, name


class ValuePickler(_ExtractingPickler):
    """The pickler of nested arguments: extracts tensors."""

    def persistent_id(self, obj: Any) -> tuple[int, int] | None:
        return self.extracted(obj, PLAIN) if isinstance(obj, Tensor) else None


class ArgumentPickler(_ExtractingPickler):
    """The pickler that tells arguments without tensors apart, and notes which objects in them keep their identity. What
    it writes is compared, and never opened."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.kept: list[Any] = []
        """The objects that keep their identity, and have no attributes."""
        self.formed: list[np.ndarray[Any, Any]] = []
        """The arrays with a form of their own."""
        self.opened_anew = False
        """Whether there are functions that go by value, or objects with attributes that keep their identity."""

    def reducer_override(self, obj: Any) -> Any:
        if is_device_array(obj) or (isinstance(obj, Tensor) and is_device_array(obj._data)):
            return NotImplemented
        return super().reducer_override(obj)

    def class_reference(self, cls: Any) -> int:
        return 0  # its definition follows

    def keeps_form(self, array: np.ndarray[Any, Any]) -> None:
        self.formed.append(array)

    def keeps(self, constant: Any, state: tuple[Any, ...]) -> None:
        if state:
            self.opened_anew = True
        else:
            self.kept.append(constant)

    def sends(self, function: FunctionType) -> None:
        super().sends(function)
        self.opened_anew = True


class _ArrayPickler(_ExtractingPickler):
    """The pickler of values on devices: extracts arrays of devices."""

    def persistent_id(self, obj: Any) -> tuple[int, int] | None:
        return self.extracted(obj, 0) if is_device_array(obj) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor) and obj.grad_fn is None and is_device_array(obj._data):
            return rebuilt_tensor, (obj._data, obj._requires_grad)
        return super().reducer_override(obj)


_whole_modules: dict[str, bool] = {}


def _travels_whole(module: ModuleType) -> bool:
    """Tell whether a module of the user's can be pickled with all that is in it. Else what cannot be goes by import
    name: a worker may well find the module, as it does what lies beside the client's script."""
    if imports_alike(module.__name__):
        return False
    known = _whole_modules.get(module.__name__)
    if known is None:
        _whole_modules[module.__name__] = True  # while it is being tried, since its functions may name it
        known = _whole_modules[module.__name__] = _pickles(module)
    return known


_picklable: dict[tuple[str, str, type[Any]], bool] = {}
"""By module, name and type, whether an attribute of a module can be pickled."""


def _unpicklable_in(module: ModuleType) -> list[str]:
    """Return the names of what cannot be pickled in a module of the user's, such as a lock and what uses it."""
    found: list[str] = []
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        key = (module.__name__, name, cast("type[Any]", type(value)))
        known = _picklable.get(key)
        if known is None:
            _picklable[key] = True  # while it is being tried, since it may name the module
            known = _picklable[key] = _pickles(value)
        if not known:
            found.append(name)
    return found


def _reduced_in_part(module: ModuleType) -> tuple[Any, ...]:
    """Return how a module is made anew of what can be pickled in it; the rest is looked up in the worker's own."""
    left = frozenset(_unpicklable_in(module))
    kept = {name: one for name, one in vars(module).items() if not name.startswith("__") and name not in left}
    return module_in_part, (module.__name__, tuple(sorted(left))), kept, None, None, fill_module


def _has_attributes(array: Any) -> bool:
    """Tell whether an object is an array of a class of the user's with attributes that its pickle would lose."""
    cls, plain = cast("Any", type(array)), cast("Any", np.ndarray)
    if not issubclass(cls, plain):
        return False
    own = cls.__reduce__ is not plain.__reduce__ or cls.__reduce_ex__ is not plain.__reduce_ex__
    return not imports_alike(cls.__module__) and not own and bool(attribute_parts(array))


def _derived_array(array: Any, cls: type[Any], attributes: dict[str, Any]) -> Any:
    made = array.view(cls)
    made.__dict__.update(attributes)
    return made


def _dispatching(default: Any, registered: list[tuple[type[Any], Any]]) -> Any:
    made = functools.singledispatch(default)
    for cls, implementation in registered:
        made.register(cls, implementation)
    return made


def _code(parts: tuple[Any, ...], filename: str) -> CodeType:
    """Return code with the file that it was written in, which tracebacks, warnings and their filters go by.

    cloudpickle 3.1.3 and later forget it."""
    return CodeType(*parts).replace(co_filename=filename)


def _memoryview(data: bytes, letter: str, shape: tuple[int, ...], readonly: bool) -> memoryview:
    held: memoryview = memoryview(data if readonly else bytearray(data))
    return cast("Any", held).cast(letter, shape)


def _context_variable(name: str, *value: Any) -> ContextVar[Any]:
    """Return a variable with the value that another had."""
    return ContextVar(name, default=value[0]) if value else ContextVar(name)


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


JIT_OPTIONS = ("static_argnums", "static_argnames", "keep_unused", "inline")
"""Of `jax.jit`: those that say what the function is, not where it runs."""


def _jit_of(compiled: Any) -> tuple[Any, dict[str, Any]]:
    """Return the arguments with which `_jitted` compiles a function again."""
    return compiled.__wrapped__, {name: getattr(compiled._jit_info, name) for name in JIT_OPTIONS}


def _jitted(function: Any, options: dict[str, Any]) -> Any:
    return import_module("jax").jit(function, **options)


_class_tables: OrderedDict[str, tuple[ClassName, ...]] = OrderedDict()
"""By fingerprint, the names of the classes in a payload: equal payloads have equal classes."""


def class_table(fingerprint: str, pickler: CodePickler, root: Any) -> tuple[ClassName, ...]:
    """Return the names of the classes in a payload, and remember which classes they name here."""
    table = _class_tables.get(fingerprint)
    if table is None:
        table = tuple(
            (fingerprint, not pickler.captured) if cls is root else _class_name(cls) for cls in pickler.classes
        )
        _class_tables[fingerprint] = table
        if len(_class_tables) > TABLES_KEPT:
            _class_tables.popitem(last=False)
    for cls, (name, _) in zip(pickler.classes, table, strict=True):
        if cls not in class_names:
            home_classes[name] = cls
    return table


def _class_name(cls: Any) -> ClassName:
    """Return the name of a class or function by its definition, and whether it captures nothing."""
    name = class_names.get(cls)
    if name is not None:
        return name, True
    alone = isinstance(cls, FunctionType) and not reads_variables(cls)
    if alone:
        defined = (cls.__code__, cls.__defaults__)
        known = _function_names.get(cls)
        if known is not None and known[0] == defined and not cls.__kwdefaults__ and not cls.__dict__:
            return known[1]
    buffer = io.BytesIO()
    pickler = CodePickler(buffer)
    pickler.dump(cls)
    name = digest(buffer.getvalue())
    if alone:
        name = EVERYWHERE + name
        _function_names[cls] = (cls.__code__, cls.__defaults__), (name, not pickler.captured)
    home_classes[name] = cls
    return name, not pickler.captured


def _is_still(function: Any, name: str) -> bool:
    return _class_name(function)[0] == name


unpickling.is_still = _is_still

_function_names: weakref.WeakKeyDictionary[FunctionType, tuple[Any, ClassName]] = weakref.WeakKeyDictionary()
"""The names of functions that read no variables, each with what it was defined by."""


def reads_variables(function: FunctionType) -> bool:
    """Tell whether a function reads more than its arguments, what is installed, and defaults that cannot change."""
    if not all(map(imports_alike, imported_inside(function))):
        return True
    for role, _, _, value in function_parts(function):
        if role in ("default", "keyword default") and (is_plain_value(value) or state_of(value) == ()):
            continue
        if not imports_alike(value.__name__) if isinstance(value, ModuleType) else import_name(value) is None:
            return True
    return False


def unpicklable_message(obj: Any, name: str, error: Exception) -> str:
    found = path_to_unpicklable(obj, _pickles)
    what = f"captures {found}, which" if found else "is an object that"
    return (
        f"'{name}' {what} cannot travel to a worker ({type(error).__name__}: {error}); make it inside the function, or "
        "pass plain data, arrays or tensors instead"
    )


def _pickles(value: Any) -> bool:
    try:
        CodePickler(io.BytesIO()).dump(value)
    except Exception:  # whatever a user's __reduce__ raises: the answer is no
        return False
    return True


def content_of(value: Any) -> bytes | None:
    """Return what is equal while an object that hides its state is the same: its pickle, with digests of the arrays,
    which may be copies that it has made to be pickled; None if it has none."""
    buffer = io.BytesIO()
    pickler = CodePickler(buffer)
    try:
        pickler.dump(value)
    except Exception:  # whatever a user's __reduce__ raises
        return None
    arrays = [one for one in pickler.captured if isinstance(one, np.ndarray)]
    digests = [xxh3_128_digest(cast(Any, np.ascontiguousarray(array))) + repr(array.shape).encode() for array in arrays]
    return b"".join([buffer.getvalue(), *digests])


# ---- values ---------------------------------------------------------------------------------------------------------


_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, np.float64, np.float32, np.int64, np.bool_})
"""Types without user code, tensors or device arrays, which plain `pickle` handles: nearly all emitted values."""


def pickle_value(value: Any) -> bytes:
    """Return a Python object as bytes for `unpickle_value`; user classes go with it.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    if type(value) in _PLAIN:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _pickled(value, _Pickler)[0]


def pickle_around_tensors(value: Any) -> tuple[bytes, ValuePickler]:
    """Return a Python object as bytes for `load`, and the pickler, which has the tensors in it (`captured`): they do
    not go with it, since they may be pending.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    return _pickled(value, ValuePickler)


def pickle_argument(value: Any) -> tuple[bytes, ArgumentPickler]:
    """Return bytes that are equal for equal arguments, and the pickler, which has noted what keeps its identity.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    return _pickled(value, ArgumentPickler)


def pickle_around_arrays(value: Any) -> tuple[bytes, list[Any]]:
    """Return a Python object as bytes for `load`, and the arrays of devices in it, which do not go with it.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    data, pickler = _pickled(value, _ArrayPickler)
    return data, pickler.captured


def _pickled(value: Any, kind: type[_P]) -> tuple[bytes, _P]:
    buffer = io.BytesIO()
    pickler = kind(buffer)
    try:
        pickler.dump(value)
    except Exception as error:
        kind_of_error = HoldsDeviceArray if isinstance(error, HoldsDeviceArray) else NotShippable
        raise kind_of_error(unpicklable_message(value, type(value).__name__, error)) from error
    return buffer.getvalue(), pickler
