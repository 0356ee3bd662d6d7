"""The public module `raygrad.nn`: a small `Module` with a few layers, `nn.functional`, and gradient clipping in
`nn.utils`.

Other layers are functions of `nn.functional`, and torch modules are nodes by `raygrad.interop.torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import functional, utils
from .layers import (
    GELU,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Identity,
    L1Loss,
    Linear,
    ModuleList,
    MSELoss,
    NLLLoss,
    ReLU,
    Sequential,
    Sigmoid,
    Softmax,
    Tanh,
)
from .module import Module, Parameter

__all__ = [
    "GELU",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Identity",
    "L1Loss",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
    "utils",
]

_INSTEAD = {"init": "fill a tensor under raygrad.no_grad(), by uniform_, normal_, fill_ or copy_"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        hint = _INSTEAD.get(name)
        if hint is None and name[:1].isupper():
            hint = (
                "call a function of raygrad.nn.functional in the forward of a Module of your own, or make a node of a "
                "torch module by raygrad.interop.torch.function"
            )
        raise AttributeError(f"module 'raygrad.nn' has no attribute '{name}'{': ' if hint else ''}{hint or ''}")
