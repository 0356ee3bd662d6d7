"""The import of torch and JAX, on request and nowhere else: when a node of theirs is made or run.

A framework that is not installed is an error that names the extra.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from raygrad.errors import BackendUnavailable

_NAMES: Final = {"torch": "torch", "jax": "JAX"}


def load(name: str) -> Any:
    """Return the module of a framework, "torch" or "jax".

    Raises:
        BackendUnavailable: it is not installed in this process's environment.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendUnavailable(
            f"raygrad.interop.{name} needs {_NAMES[name]}, which cannot be imported here ({error}); install it with "
            f"`pip install 'raygrad[{name}]'`, on every machine whose workers run such nodes"
        ) from error
