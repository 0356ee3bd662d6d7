"""Interop: modules and functions of torch and JAX as Function nodes, by `interop.torch.function`,
`interop.jax.function`.

    backends        imports torch and JAX, and names the missing extra: nothing else in raygrad does
    calls           a call as data: the nesting of its arguments, and which derivative is wanted
    node            the Function over foreign code, and its callable: the same for every framework
    torch, jax      the public functions, at the client
    torch_runtime, jax_runtime     execution of the framework's code, in the process where the node is placed

Importing this room loads no framework; `function` does, and the node that runs. A node knows nothing of the client but
its arguments and its class, so that it runs anywhere with the same bits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raygrad.interop import jax, torch

__all__ = ["jax", "torch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"raygrad.interop.{name}")
    raise AttributeError(f"module 'raygrad.interop' has no attribute '{name}'; there are: {', '.join(__all__)}")
