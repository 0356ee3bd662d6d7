"""Fingerprints: the names under which workers know shipped code.

Equal fingerprints mean equal code: a hash of the pickle, of the import name, or of a number given to an object that is
shipped by reference. `code_cache_key` is the client's shortcut, by which it finds a fingerprint without pickling.
"""

from __future__ import annotations

import weakref
from hashlib import blake2b
from itertools import count
from types import MethodType
from typing import Any

from .guard import Guard


def digest(data: bytes) -> str:
    """Return the fingerprint of a pickle, or of what else identifies code."""
    return blake2b(data, digest_size=16).hexdigest()


def by_import_name(home: tuple[str, str]) -> str:
    """Return the fingerprint of code that every process imports: by its module and qualified name."""
    return digest(":".join(home).encode())


def by_reference(obj: Any, guard: Guard | None) -> str:
    """Return the fingerprint of an object that is shipped by reference.

    An object with a guard gets another fingerprint when its captured state has changed.
    """
    key = obj.__func__ if isinstance(obj, MethodType) else obj
    try:
        number, before = _numbers.get(key, (None, None))
        if number is None or (before is not None and not before.holds()):
            number = next(_new_numbers)
            _numbers[key] = number, guard
    except TypeError:  # takes no weak references, or is not hashable
        number = next(_new_numbers)
    identity = f"as it is {number}"
    if isinstance(obj, MethodType):
        identity += f" of {id(obj.__self__)}"
    return digest(identity.encode())


_new_numbers = count()
_numbers: weakref.WeakKeyDictionary[Any, tuple[int, Guard | None]] = weakref.WeakKeyDictionary()
"""Numbers of code that is shipped by reference."""
