"""Argument binding of `Function.apply`: positional, default and keyword arguments against forward's signature (FN-04,
FN-05).

Runs before forward and before recording.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..core.modes import state
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .function import Function

_signatures: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _signature(cls: type[Function]) -> inspect.Signature:
    function = getattr(cls.forward, "__func__", cls.forward)
    found = _signatures.get(function)
    if found is None:
        found = _signatures[function] = inspect.signature(cls.forward)
    return found


def _filled(forward: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return `args` with defaults for a forward of the common kind, without the cost of `inspect`; None for others."""
    if type(forward) is not FunctionType or "__wrapped__" in forward.__dict__:
        return None
    code = forward.__code__
    missing = code.co_argcount - len(args)
    if missing < 0 or code.co_kwonlyargcount or code.co_flags & _VARIADIC:
        return None
    if not missing:
        return args
    defaults = forward.__defaults__ or ()
    return (*args, *defaults[-missing:]) if missing <= len(defaults) else None


def bind(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return all arguments by position, and those that forward takes by keyword only (FN-04, FN-05).

    Keywords are moved to their slots, with the defaults before them; in the separate style all defaults are filled in.

    Raises:
        TypeError: they do not fit forward's signature, or a keyword-only one is a tensor.
    """
    separate = cls._traits.setup is not None
    if separate and not kwargs:
        filled = _filled(cls.forward, args)
        if filled is not None:
            return filled, kwargs
    signature = _signature(cls)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    given = set(bound.arguments)
    bound.apply_defaults()
    positional = bound.args if separate else bound.args[1:]
    if not separate:  # an argument that the caller left out behind the last one given is none (FN-04)
        names = [name for name, parameter in signature.parameters.items() if parameter.kind in _POSITIONAL]
        omitted = 0
        while len(positional) - omitted > len(args) and len(names) > omitted and names[-1 - omitted] not in given:
            omitted += 1
        positional = positional[: len(positional) - omitted]
    named = {name: value for name, value in bound.kwargs.items() if name in kwargs}
    for name, value in named.items():
        if isinstance(value, Tensor):
            if state.here.batches:
                raise NotImplementedError(
                    f"{cls.__name__}.apply: vmap does not support kwarg-only Tensor args; '{name}' is one: make it a "
                    "positional parameter of forward"
                )
            raise TypeError(
                f"{cls.__name__}.apply: the keyword-only argument '{name}' is a tensor; keyword-only tensors are no "
                "differentiable inputs: make it a positional parameter of forward"
            )
    return positional, named
