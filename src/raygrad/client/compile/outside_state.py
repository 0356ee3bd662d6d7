"""Outside state: what Python code can read that neither arguments nor captured objects show, and how objects of
libraries are compared that hide what they hold.

A clock, a file, a frame or an iterator gives another value each time, and no guard can compare it. The closure guard
asks here which functions and objects are of that kind, and which have a state that can be read."""

from __future__ import annotations

import array
import contextvars
import datetime
import decimal
import enum
import functools
import gc
import logging
import operator
import pathlib
import re
import struct
import threading
import types
import uuid
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from fractions import Fraction
from types import BuiltinFunctionType
from typing import Any, Final, cast

import numpy as np

from raygrad.tracebacks import attribute_of
from raygrad.workers.code.guard import ABSENT
from raygrad.workers.code.importable import import_name, imports_alike

_FUNCTIONS: Final[dict[str, frozenset[str]]] = {
    module: frozenset(names.split())
    for module, names in {
        "builtins": "open input eval exec globals __import__ breakpoint",
        "io": "open open_code",
        "_io": "open open_code",
        "time": "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time "
        "process_time_ns thread_time thread_time_ns clock_gettime clock_gettime_ns localtime gmtime ctime asctime "
        "strftime",
        "os": "listdir scandir walk fwalk stat lstat fstat access getcwd getcwdb urandom times getloadavg open read "
        "popen system getpid getppid readlink statvfs get_terminal_size",
        "os.path": "exists lexists isfile isdir islink ismount getmtime getatime getctime getsize samefile realpath "
        "abspath",
        "sys": "_getframe _current_frames exc_info gettrace getprofile getrefcount getrecursionlimit",
        "gc": "get_objects get_referrers get_referents get_count get_stats",
        "inspect": "currentframe stack trace getclosurevars getgeneratorlocals getgeneratorstate getouterframes",
        "importlib": "import_module reload",
        "threading": "current_thread get_ident get_native_id active_count enumerate",
        "_thread": "get_ident get_native_id _count",
        "contextvars": "copy_context",
        "_contextvars": "copy_context",
        "decimal": "getcontext",
        "_decimal": "getcontext",
        "locale": "getlocale localeconv",
        "platform": "node uname",
        "socket": "",
        "subprocess": "",
        "secrets": "",
        "tempfile": "",
        "glob": "",
        "shutil": "",
        "linecache": "",
        "fileinput": "",
        "uuid": "uuid1 uuid4 getnode",
        "urllib.request": "",
        "http.client": "",
        "numpy": "load loadtxt genfromtxt fromfile memmap geterr geterrcall getbufsize get_printoptions",
        "raygrad": "generator initial_seed get_rng_state load",
    }.items()
}
"""By module, the functions whose results depend on more than their arguments; an empty set stands for all."""

_ALIASES: Final = {"posix": "os", "nt": "os", "posixpath": "os.path", "ntpath": "os.path", "genericpath": "os.path"}

_METHODS: Final[tuple[tuple[type[Any], frozenset[str]], ...]] = (
    (datetime.date, frozenset(("now", "today", "utcnow"))),
    (
        pathlib.PurePath,
        frozenset(
            "read_text read_bytes open exists is_file is_dir is_symlink stat lstat iterdir glob rglob cwd home resolve "
            "absolute expanduser owner samefile".split()
        ),
    ),
)
"""By class, the methods of instances, and of the class itself, that read more than these."""

_ATTRIBUTES: Final = frozenset(
    "read_text read_bytes iterdir rglob utcnow f_locals f_globals f_back f_builtins gi_frame cr_frame tb_frame "
    "_version data_ptr __globals__ __builtins__ __subclasses__".split()
)
"""Attributes that say by their name alone that they read more than the object that has them."""

_SEEDED: Final = frozenset("default_rng RandomState SeedSequence Random PCG64 PCG64DXSM MT19937 Philox SFC64".split())
"""Generators that take a seed of the system where they are given none."""

REFLECTING: Final = frozenset(
    ("getattr", "hasattr", "vars", "dir", "__dict__", "attrgetter", "methodcaller", "getmembers")
)
"""Names by which code may read any attribute of an object."""


def reads_outside(function: Any) -> bool:
    """Tell whether the result of a callable depends on more than its arguments and on what it captures."""
    module = attribute_of(function, "__module__")
    name = attribute_of(function, "__name__")
    return isinstance(module, str) and isinstance(name, str) and name_reads_outside(module, name)


def name_reads_outside(module: str, name: str) -> bool:
    """Tell the same of the function of this name in a module."""
    names = _FUNCTIONS.get(_ALIASES.get(module, module))
    return names is not None and (name in names or not (names or name[:1].isupper()))


def method_reads_outside(owner: Any, name: str) -> bool:
    """Tell the same of a method of an object or class."""
    cls: type[Any] = owner if isinstance(owner, type) else type(owner)
    return any([name in names for kind, names in _METHODS if issubclass(cls, kind)])


def attribute_reads_outside(names: tuple[Any, ...], called: bool) -> bool:
    """Tell the same of the attributes on a path; a `called` one is called without arguments."""
    return not _ATTRIBUTES.isdisjoint(names) or (called and names[-1] in _SEEDED)


# ---- objects of libraries -------------------------------------------------------------------------------------------


def _of_local(local: threading.local) -> Any:
    return tuple(vars(local).items())


def _of_buffer(view: memoryview) -> Any:
    try:
        return (view.format, view.shape, view.tobytes())
    except ValueError:  # released
        return ABSENT


def held_by_cache(function: Any) -> list[Any]:
    """Return what a function made by `lru_cache` refers to: the function, the arguments and results that it keeps."""
    found: list[Any] = []
    for one in gc.get_referents(function):
        if type(one) is not dict:
            found.append(one)
        elif one is not function.__dict__:
            found += [held for held in cast("dict[Any, Any]", one).values() if type(held).__name__ != "_lru_list_elem"]
    return [one for one in found if not isinstance(one, type)]


def _of_cache(function: Any) -> Any:
    return tuple(sorted(map(id, held_by_cache(function))))  # a hit only changes their order


def _of_variable(variable: contextvars.ContextVar[Any]) -> Any:
    return variable.get(ABSENT)


CACHED_FUNCTION: Final[Any] = type(functools.lru_cache(lambda: None))

_STATES: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (bytearray, bytes),
    (array.array, lambda items: (items.typecode, items.tobytes())),
    (memoryview, _of_buffer),
    (contextvars.ContextVar, _of_variable),
    (types.MappingProxyType, lambda proxy: tuple(proxy.items())),
    ((KeysView, ValuesView, ItemsView), tuple),
    (threading.local, _of_local),
    (CACHED_FUNCTION, _of_cache),
    (functools.partial, lambda partial: (partial.func, partial.args, tuple(partial.keywords.items()))),
    ((operator.attrgetter, operator.itemgetter, operator.methodcaller), lambda getter: getter.__reduce__()),
    ((types.GenericAlias, type(Final[int])), lambda alias: (alias.__origin__, alias.__args__)),
)
"""By type, what reads the state of an object that hides it."""

_IMMUTABLE: Final = (
    *(type(None), int, float, complex, str, bytes, slice, range, type(Ellipsis), type(NotImplemented)),
    *(enum.Enum, uuid.UUID),
    *(np.generic, np.dtype, decimal.Decimal, Fraction, re.Pattern, pathlib.PurePath, struct.Struct),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(types.CodeType, types.CellType, types.UnionType),
)

_WITHOUT_DATA: Final = (type(threading.Lock()), type(threading.RLock()), logging.Logger, logging.LoggerAdapter)
"""Types of objects that a step may use and whose state is none of its data."""

_IMMUTABLE_MODULES: Final = frozenset(("typing", "_abc", "abc", "annotationlib"))


def state_reader(value: Any) -> Callable[[Any], Any] | None:
    """Return what reads the hidden state of an object; None if it hides none, or no one can read it."""
    for kinds, read in _STATES:
        if isinstance(value, kinds):
            return read
    return None


def is_immutable(value: Any) -> bool:
    """Tell whether an object of a library has no state that changes."""
    kind = cast("type[Any]", type(value))
    if kind is np.ufunc:  # one that a program makes has a function of its own
        return import_name(value) is not None
    return kind is object or isinstance(value, _IMMUTABLE + _WITHOUT_DATA) or kind.__module__ in _IMMUTABLE_MODULES


def is_hidden(value: Any) -> bool:
    """Tell whether an object, which has no readable state, may give something else each time: an iterator or a file of
    a library, an instance of a class in C."""
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if imports_alike(cls.__module__):
        if cls is _KEY or cls is np.ufunc:
            return True
        if callable(value) or "__get__" in dir(cls):  # code, or a member of a class
            return False
        return isinstance(value, Iterator) or any(map(_is_in_c, cls.__mro__[:-1]))
    return any([imports_alike(base.__module__) and _is_in_c(base) for base in cls.__mro__[:-1]])


def _is_in_c(cls: type[Any]) -> bool:
    """Tell whether instances of a class may hold what is in neither their dict nor their slots."""
    if cls in _PLAIN:
        return False
    flags = cls.__flags__
    return not flags & _HEAP or bool(flags & _FIXED) or isinstance(cls.__dict__.get("__new__"), BuiltinFunctionType)


_KEY: Final = cast(Any, type(cast(Any, functools).cmp_to_key(max)))
_PLAIN: Final = frozenset((dict, list, tuple, set, frozenset, BaseException, Exception))
_HEAP: Final = 1 << 9
_FIXED: Final = 1 << 7 | 1 << 8
"""Flags of types: made at run time; cannot be instantiated or cannot be changed, as no class in Python."""
