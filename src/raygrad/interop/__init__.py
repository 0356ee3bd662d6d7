"""Modules and functions of other frameworks as Function nodes: `interop.torch.function`, `interop.jax.function`.

    backends        loads torch and JAX, and says which extra is missing: nothing else in raygrad does
    calls           what is applied to what, as data: how arguments nest, which derivative of it is wanted
    node            the Function over them, and what users hold: the same for every framework
    torch, jax      what users call, and what they get
    torch_runtime, jax_runtime     running code of the framework, on whichever process the node is placed

Rules of this room: importing it loads no framework; that is done by `function`, and by the node that runs. What a node
knows of the client is its arguments and its class, so that it runs anywhere with the same bits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raygrad.interop import jax as jax
    from raygrad.interop import torch as torch

__all__ = ["jax", "torch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"raygrad.interop.{name}")
    raise AttributeError(f"module 'raygrad.interop' has no attribute '{name}'; there are: {', '.join(__all__)}")
