"""Versions of the software that a worker and its client must agree on, and the comparison of two processes.

Executors whose workers are processes of their own compare them before they send anything else. Of two versions of
raygrad or its protocol each may read the other's messages as something else. Bytecode, in which user code travels, is
of one minor version of Python; pickled arrays name NumPy's modules, which its major versions call differently."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable, Mapping
from typing import Final

_MUST_AGREE: Final = {"raygrad": 99, "protocol": 99, "Python": 2, "NumPy": 1}
"""By name of the software, how many parts of its version must be equal."""

_SHOULD_AGREE: Final = {"cloudpickle": 1}
"""The same of what only may fail, and says so then: user code that the other side cannot unpickle."""


_PLACES: Final = {
    "raygrad": ("raygrad", "__version__"),
    "protocol": ("raygrad.proto.codec.frames", "PROTOCOL_VERSION"),
    "NumPy": ("numpy", "__version__"),
    "cloudpickle": ("cloudpickle", "__version__"),
}
"""By name of the software, the module and its attribute that tell the version."""


def version_teller() -> Callable[[], dict[str, str]]:
    """Return a function that returns the versions of the process that calls it. It is pickled by value, and so runs
    beside any version of raygrad."""
    places = _PLACES

    def tell() -> dict[str, str]:
        told = {"Python": platform.python_version()}
        for name, (module, attribute) in places.items():
            try:
                told[name] = str(getattr(importlib.import_module(module), attribute))
            except (ImportError, AttributeError):  # not there, or somewhere else
                continue
        return told

    return tell


def versions() -> dict[str, str]:
    """Return the versions of this process."""
    return version_teller()()


def compare_versions(there: Mapping[str, str]) -> tuple[str, str]:
    """Compare the versions of another process with those of this one; return what differs and must not, and what
    differs and should not, each as "raygrad 0.2.0 there, 0.1.0 here" or ""."""
    here = versions()

    def differing(parts: Mapping[str, int]) -> str:
        return "; ".join(
            [
                f"{name} {there.get(name, 'unknown')} there, {here[name]} here"
                for name, count in parts.items()
                if there.get(name, "").split(".")[:count] != here[name].split(".")[:count]
            ]
        )

    return differing(_MUST_AGREE), differing(_SHOULD_AGREE)
