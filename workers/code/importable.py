"""Import names: which modules, functions and classes every process of a cluster has from the same source (DR-13).

Pickling sends these by name; the walk over user code stops at them."""

from __future__ import annotations

import functools
import site
import sys
import sysconfig
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final

from raygrad.tracebacks import attribute_of

_WELL_KNOWN: Final = sys.stdlib_module_names.union(("raygrad", "numpy", "scipy")) - {"__main__"}


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the folders from which every process of a cluster imports the same source."""
    paths = sysconfig.get_paths()
    found = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.update(site.getsitepackages())
    found.add(site.getusersitepackages())
    return tuple(path.rstrip("/") + "/" for path in found)


_shared: set[str] = set()
"""Modules that are not installed and yet the same in every process; see `share_modules`."""


def share_modules(names: Iterable[str]) -> None:
    """Take note that every process to which this one sends code imports these modules from the same source, wherever
    it lies: what they define goes by name from here on."""
    new = set(names) - _shared
    if new:
        _shared.update(new)
        imports_alike.cache_clear()


@functools.lru_cache(maxsize=4096)
def imports_alike(module: Any) -> bool:
    """Tell whether a worker surely imports the same source under this name; not of what has none, as in `exec`."""
    if type(module) is not str:
        return False
    top = module.partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    if module in _shared or top == "raygrad" or top in sys.stdlib_module_names:
        return True
    loaded = sys.modules.get(module)
    space: dict[str, Any] = getattr(loaded, "__dict__", {})  # not by attributes, which a module may make up
    file = space.get("__file__") or getattr(space.get("__spec__"), "origin", None)
    return isinstance(file, str) and file.startswith(_installed())


def import_name(obj: Any) -> tuple[str, str] | None:
    """Return (module, qualname) if every worker finds this very definition there."""
    module, qualname = attribute_of(obj, "__module__"), attribute_of(obj, "__qualname__")
    if not isinstance(module, str) or not isinstance(qualname, str) or not imports_alike(module):
        return None
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return (module, qualname) if found is obj else None


def is_well_known(obj: Any) -> bool:
    """Tell whether an object is Python's, NumPy's or ours, so that what its code does is known without a look."""
    name = obj.__name__ if isinstance(obj, ModuleType) else attribute_of(obj, "__module__")
    return isinstance(name, str) and name.partition(".")[0] in _WELL_KNOWN
