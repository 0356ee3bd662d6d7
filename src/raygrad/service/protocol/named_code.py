"""Code that goes by name: which functions, classes and members a session without pickles may name.

The server finds names in the modules that it was started with (`ServerOptions(allow=...)`), the client in those
from which it has sent code itself. A name means what its module defines under it, not what it imports."""

from __future__ import annotations

import builtins
import enum
import importlib
import sys
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, cast

import numpy as np

from raygrad import errors
from raygrad.autograd.registry.registry import customised
from raygrad.errors import ServiceError
from raygrad.tracebacks import attribute_of
from raygrad.workers.code.fingerprint import by_import_name
from raygrad.workers.code.importable import share_modules
from raygrad.workers.code.shipping import Shipment

NOT_ALLOWED: Final = "not allowed"
NOT_IMPORTABLE: Final = "not importable"
OTHER_SOURCE: Final = "other source"
VALUE: Final = "value"
"""Codes of `ServiceError`: the name is of no module that the service allows; nothing stands under it; the module's file
differs on the two sides; a value is none that passes without pickles."""

BY_VALUE: Final = (
    "or, where server and client trust each other, start the server with --allow-pickle and open "
    "Session(..., allow_pickle=True)"
)


class CodeName(NamedTuple):
    """The name of a function or class."""

    module: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}"[:200]

    @property
    def fingerprint(self) -> str:
        """By which graphs name it."""
        return by_import_name((self.module, self.qualname))

    @property
    def shipment(self) -> Shipment:
        """As which workers take it."""
        short = self.qualname.rpartition(".")[2]
        return Shipment(fingerprint=self.fingerprint, name=short, module=self.module, qualname=self.qualname)


def name_of(obj: Any) -> CodeName:
    """Return the name by which code goes.

    Raises:
        ServiceError: it has none, since it is no function or class that stands in its module.
    """
    module, qualname = attribute_of(obj, "__module__"), attribute_of(obj, "__qualname__")
    if not isinstance(obj, FunctionType | type) or type(module) is not str or type(qualname) is not str:
        kind = cast("type[Any]", type(obj))
        raise ServiceError(
            f"an object of {kind.__module__}.{kind.__qualname__} has no name to go to the service by: "
            f"give it a function or class that stands in a module which the service allows (--allow), {BY_VALUE}",
            NOT_IMPORTABLE,
        )
    name = CodeName(module, qualname)
    if module == "__main__" or _defined(name, sys.modules.get(module)) is not obj:
        raise ServiceError(
            f"{name} is not what has this name in its module (it was defined in a script, a function, by exec, "
            f"or again): move it to the top of a module which the service allows (--allow), {BY_VALUE}",
            NOT_IMPORTABLE,
        )
    return name


def check_no_registrations() -> None:
    """Raises ServiceError if this program has registered kernels or derivatives for built-in ops."""
    if ops := customised():
        raise ServiceError(
            f"this program has registered a kernel or derivative of its own for '{ops[0].name}', which cannot go by "
            f"name: register none in a session that sends code by name, {BY_VALUE}",
            NOT_IMPORTABLE,
        )


class NamedModules:
    """Modules, and what may be named in them."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = set(names)

    def load(self) -> None:
        """Import them, and have what they define go by name to workers, too. Nothing else imports one: what is not
        loaded is not found.

        Raises:
            ValueError: one cannot be imported.
        """
        for name in sorted(self._names):
            try:
                importlib.import_module(name)
            except Exception as error:  # of any kind: what the module does when it is imported
                raise ValueError(
                    f"the module {name!r} that is allowed cannot be imported ({type(error).__name__}: {error}): "
                    "install it here, or set PYTHONPATH"
                ) from error
        share_modules(self._names)

    def add(self, module: str) -> None:
        """Allow one more."""
        self._names.add(module)

    def __bool__(self) -> bool:
        return bool(self._names)

    def code(self, name: CodeName, source: bytes) -> Any:
        """Return the function or class of a name, whose module has the file of a digest on the other side.

        Raises:
            ServiceError: the module is not allowed, defines nothing under this name, or has another file.
        """
        found = self.found(name)
        own = source_digest(name.module)
        if source and own and source != own:
            raise ServiceError(
                f"the file of module '{name.module}' is another one at the service than here, so that {name} may be "
                "another function: install the same version on both sides",
                OTHER_SOURCE,
            )
        return found

    def found(self, name: CodeName) -> Any:
        """Return what a module defines under a name: a function or a class.

        Raises:
            ServiceError: the module is not allowed, or defines no such thing.
        """
        if name.module not in self._names:
            allowed = ", ".join(sorted(self._names))
            raise ServiceError(
                f"{name} is code of a module that the service does not allow (it allows {allowed or 'none'}): start it "
                f"with --allow {name.module[:100]}, {BY_VALUE}",
                NOT_ALLOWED,
            )
        module = sys.modules.get(name.module)
        found = _defined(name, module)
        if found is None:
            raise ServiceError(
                f"'{name.module}' defines no function or class '{name.qualname[:100]}' at its top or in a class; what "
                "it imports goes by the name of the module that defines it, which has to be allowed, too (--allow)",
                NOT_IMPORTABLE,
            )
        return found


def _defined(name: CodeName, module: ModuleType | None) -> Any:
    """Return the function or class that a module itself defines under a name, stepping through classes alone; None if
    there is none."""
    if module is None or not name.qualname:
        return None
    found: Any = module
    *outer, last = name.qualname.split(".")
    space: Any = vars(module)
    for part in (*outer, last):
        found = space.get(part)
        if isinstance(found, staticmethod):
            found = cast("Any", found).__func__
        if not isinstance(found, FunctionType | type) or found.__module__ != name.module:
            return None
        space = vars(found) if isinstance(found, type) else {}
    return found if found.__qualname__ == name.qualname else None


def source_digest(module: str) -> bytes:
    """Return a digest of the file of a module that is loaded; b"" if it has none."""
    file = attribute_of(sys.modules.get(module), "__file__")
    try:
        return blake2b(Path(str(file)).read_bytes(), digest_size=16).digest() if file else b""
    except OSError:
        return b""


# ---- what both sides have anyway -------------------------------------------------------------------------------------

_TYPES: Final[dict[CodeName, type]] = {
    CodeName(kind.__module__, kind.__qualname__): kind
    for kind in (
        bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, slice, type(None), range, object,
        np.ndarray, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.complex64, np.complex128,
    )
}  # fmt: skip

_ERRORS: Final[dict[CodeName, type[Exception]]] = {
    CodeName(kind.__module__, kind.__qualname__): kind
    for space in (vars(builtins), vars(errors), vars(np.exceptions), vars(np.linalg))
    for kind in space.values()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
"""Errors and warnings of Python, NumPy and raygrad."""


def reference_to(obj: Any) -> CodeName | None:
    """Return the name of a function or class that is a value; None of what has none."""
    known = CodeName(str(attribute_of(obj, "__module__")), str(attribute_of(obj, "__qualname__")))
    if _TYPES.get(known) is obj or _ERRORS.get(known) is obj:
        return known
    try:
        return name_of(obj)
    except ServiceError:
        return None


def referred(name: CodeName, modules: NamedModules) -> Any:
    """Return the function or class that a value names.

    Raises:
        ServiceError: it is none that may be named.
    """
    return _TYPES.get(name) or _ERRORS.get(name) or modules.found(name)


def error_class(name: CodeName, modules: NamedModules) -> type[Exception] | None:
    """Return the class of an error or warning; None if it is none that may be named."""
    known = _ERRORS.get(name)
    if known is not None:
        return known
    try:
        found = modules.found(name)
    except ServiceError:
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def member_of(name: CodeName, member: str, modules: NamedModules) -> enum.Enum:
    """Return a member of an enumeration.

    Raises:
        ServiceError: there is no such one, or it may not be named.
    """
    found: Any = modules.found(name)
    members: dict[str, enum.Enum] = (
        dict(found.__members__) if isinstance(found, type) and issubclass(found, enum.Enum) else {}
    )
    if member not in members:
        raise ServiceError(f"{name} is no enumeration with a member '{member[:100]}'", NOT_IMPORTABLE)
    return members[member]
