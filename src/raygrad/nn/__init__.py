"""The public module `raygrad.nn`: `nn.functional`, and gradient clipping in `nn.utils`.

Modules that hold parameters are the program's own.
"""

from __future__ import annotations

from typing import Any

from . import functional, utils

__all__ = ["functional", "utils"]

_INSTEAD = {
    "Module": "an object of your own holds tensors with requires_grad=True, and raygrad.interop.torch.function makes a "
    "node of a torch module",
    "Parameter": "a parameter is a tensor with requires_grad=True",
    "init": "fill a tensor under raygrad.no_grad(), by uniform_, normal_, fill_ or copy_",
}


def __getattr__(name: str) -> Any:
    hint = _INSTEAD.get(name)
    if hint is None and name[:1].isupper():
        hint = "there are no modules; raygrad.nn.functional has functions"
    raise AttributeError(f"module 'raygrad.nn' has no attribute '{name}'{': ' if hint else ''}{hint or ''}")
