"""PyTorch's own table of autograd Functions (`autograd_function_db`), each as it reads with raygrad in torch's place.

Every class of the table becomes a raygrad Function with the same methods; `test_function_db` runs both on the table's
samples.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import types
from typing import Any

import torch
from torch.testing._internal import autograd_function_db as table

import raygrad as rg

from .entries import Entry
from .translate import retyped

METHODS = "forward setup_context backward jvp vmap".split()


def _method(function: Any) -> Any:
    """Return a method of a Function retyped; the decorator `once_differentiable` is replaced by raygrad's."""
    inner = getattr(function, "__wrapped__", None)
    if inner is not None:
        return rg.autograd.function.once_differentiable(_method(inner))
    return retyped(function)


def _plain(function: Any) -> types.FunctionType:
    return getattr(function, "__wrapped__", function)


def _translated() -> dict[str, Any]:
    """Return raygrad's counterparts of the classes of the table, by name."""
    made: dict[str, Any] = {}
    methods: list[types.FunctionType] = []
    for name, cls in vars(table).items():
        if not (isinstance(cls, type) and issubclass(cls, torch.autograd.Function)):
            continue
        body: dict[str, Any] = {k: v for k, v in vars(cls).items() if not k.startswith("_") and k not in METHODS}
        for method in METHODS:
            if method in vars(cls):
                body[method] = staticmethod(_method(vars(cls)[method].__func__))
                methods.append(_plain(body[method].__func__))
        kind: Any = type(rg.autograd.Function)
        made[name] = kind(name, (rg.autograd.Function,), {**body, "__module__": __name__})
    for method in methods:  # they name one another
        method.__globals__.update(made)
    return made


FUNCTIONS = _translated()


def _counterpart(function: Any) -> Any:
    """Return raygrad's counterpart of an entry's callable: `apply` of a class, or a function around one."""
    if isinstance(function, types.MethodType):
        owner: Any = function.__self__
        return FUNCTIONS[owner.__name__].apply
    return retyped(function, FUNCTIONS)


def function_entries() -> list[Entry]:
    """Return the entries of the table."""
    return [
        Entry(
            info,
            (info.op, _counterpart(info.op)),
            None,
            (info.inplace_variant, _counterpart(info.inplace_variant)) if info.inplace_variant is not None else None,
        )
        for info in table.autograd_function_db
    ]
