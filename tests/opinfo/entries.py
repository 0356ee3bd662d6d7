"""The entries of OpInfo that raygrad offers, and what each form of one is called in both libraries."""

# pyright: reportMissingImports=false
from __future__ import annotations

import fnmatch
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import raygrad as rg

from .translate import dotted, named, retyped

Form = tuple[Callable[..., Any], Callable[..., Any]]
"""One way to call an op: torch's callable and raygrad's."""

DTYPES = (torch.float64, torch.float32, torch.complex128, torch.int64, torch.bool)

_DRAWN = """
    rand rand_like randn randn_like randint randint_like randperm bernoulli multinomial normal cauchy exponential
    geometric log_normal uniform nn.functional.*dropout* nn.functional.rrelu empty empty_like new_empty
    empty_strided new_empty_strided empty_permuted poisson binomial *svd_lowrank pca_lowrank
""".split()
"""Entries whose numbers are drawn, or left as they are: only dtype and shape are compared."""


@dataclass(frozen=True)
class Entry:
    """One entry of OpInfo.

    Attributes:
        info: PyTorch's description.
        function: the op as a function.
        method, inplace: its other forms, where PyTorch has them; raygrad's callable may be missing (None).
    """

    info: Any
    function: Form
    method: Form | None
    inplace: Form | None

    @property
    def name(self) -> str:
        return self.info.name + (f".{self.info.variant_test_name}" if self.info.variant_test_name else "")

    @property
    def drawn(self) -> bool:
        """Whether the numbers of all its results are drawn, or left as they are."""
        return any(fnmatch.fnmatchcase(self.info.name, pattern) for pattern in _DRAWN)

    def draws(self, options: dict[str, Any]) -> bool:
        """Tell whether a call with these keywords gives numbers that are drawn: so does attention with dropout."""
        return self.drawn or bool(options.get("dropout_p"))


def counterpart(function: Any, path: str = "") -> Any:
    """Return what raygrad offers for one of torch's callables: by `path`, as a method, or its source retyped."""
    if isinstance(function, types.FunctionType) and ".testing." in (function.__module__ or ""):
        return retyped(function)
    if isinstance(function, functools.partial):
        inner = counterpart(function.func, path)
        return None if inner is None else functools.partial(inner, *function.args, **function.keywords)
    found = dotted(path) if path else None
    return found if callable(found) else named(function)


def _offers(info: Any) -> bool:
    """Tell whether raygrad has a function or a method of the entry's name, or a fill (`cauchy_`)."""
    return any((dotted(info.name) is not None, hasattr(rg.Tensor, info.name), hasattr(rg.Tensor, f"{info.name}_")))


def _form(function: Any) -> Form | None:
    if function is None:
        return None
    if getattr(function, "__module__", None) in ("_operator", "operator"):
        return function, function
    return function, counterpart(function)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Return the entries that raygrad offers, in the order of PyTorch's table."""
    found: list[Entry] = []
    for info in op_db:
        if not _offers(info):
            continue
        ours = counterpart(info.op, info.name)
        if ours is not None:
            found.append(Entry(info, (info.op, ours), _form(info.get_method()), _form(info.get_inplace())))
    return tuple(found)
