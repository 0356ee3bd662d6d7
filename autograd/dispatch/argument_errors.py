"""Wrappers of public functions whose errors name the argument of a wrong type.

Users get catalogue functions through them; the library itself calls the bare functions. A wrapper does nothing before
something failed. It then compares the arguments with the signature: parameters named like tensors must be tensors, the
others must fit their annotation.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from raygrad.errors import DtypeError, MissingKernel
from raygrad.tracebacks import leave

from ..core.recorder import Pending
from ..registry.codegen import ABSENT, compile_wrapper
from ..tensor.tensor import Tensor
from .direct_functions import DIRECT, refusing_numbers
from .operand_errors import wrong_argument
from .spellings import as_method as respelling_method, missing_argument, respelled
from .tensor_arguments import MAY_BE_NUMBERS, NUMBERS, TENSORS, number_among, tensor_positions

Function = Callable[..., Any]

SIZES: Final = frozenset("dilation dim indices_or_sections kernel_size output_size stride".split())
"""What parameters without a further annotation are called that are ints."""

_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "Tensor": ("Tensor", lambda value: _is_tensor(value, True)),
    "int": ("int", lambda value: _is_index(value)),
    "float": ("a number", lambda value: isinstance(value, int | float | complex | np.generic | Tensor | np.ndarray)),
    "bool": ("bool", lambda value: isinstance(value, bool | int | np.bool_)),
    "str": ("str", lambda value: isinstance(value, str)),
    "Sequence[int]": ("tuple of ints", lambda value: _are_indices(value)),
    "Axes": ("int or tuple of ints", lambda value: _is_index(value) or _are_indices(value)),
    "Dims": ("int or tuple of ints", lambda value: value is None or _is_index(value) or _are_indices(value)),
    "tuple[int, int]": ("tuple of ints", lambda value: _are_indices(value)),
    "Sequence[float]": ("tuple of numbers", lambda value: isinstance(value, list | tuple)),
    "Sequence[Any]": ("tuple of Tensors", lambda value: isinstance(value, list | tuple)),
    "None": ("None", lambda value: value is None),
}
"""Per part of an annotation, what to call it and what it takes."""

_made: dict[Function, Function] = {}


def with_argument_errors(function: Function, module: str, name: str) -> Function:
    """Return a wrapper of a function whose errors name the argument that does not fit.

    It takes NumPy's spellings, too (`spellings`). A function of one operand that passes it straight to one op
    (`DIRECT`) is returned as it is: it takes these itself, and the op names the operand (`dispatch.explained`).

    Args:
        function: the function.
        module: the module that offers it.
        name: its name there, by which it is pickled.
    """
    made = _made.get(function)
    if made is None and function in DIRECT:
        if not tensor_positions(function):
            return function
        made = _made[function] = refusing_numbers(function, False)
        made.__module__, made.__qualname__ = module, name
    if made is None:
        made = _made[function] = _explaining(function, tensor_positions(function), False)
        made.__module__, made.__qualname__ = module, name
    return made


def as_method(function: Function, name: str) -> Function:
    """Return what serves as the method `name` of a catalogue function: the function itself where its only operand is
    the tensor, and no parameter has a further spelling."""
    positions = [position for position in tensor_positions(function) if position]
    if not positions:
        return respelling_method(function)
    made = refusing_numbers(function, True) if function in DIRECT else _explaining(function, positions, True)
    made.__module__, made.__qualname__ = Tensor.__module__, f"Tensor.{name}"
    return made


def explaining_method(function: Function) -> Any:
    """Return a method that has no function of its name, with the same errors: its first argument must be a tensor."""
    made = _explaining(function, (1,), True)
    made.__module__ = function.__module__
    return made


_SPELLED: Final = (
    "    if {missing}_spelled:\n"
    "        try:\n"
    "            return _respelled(made, {given}, _spelled)\n"
    "        except BaseException as error:\n"
    "            _leave(error)\n"
    "            raise\n"
)


def _explaining(function: Function, tensors: Sequence[int], method: bool) -> Any:
    """Return a wrapper of a function that refuses numbers at positions of `tensors`, and explains errors."""
    code = inspect.unwrap(function).__code__
    spelled = not code.co_flags & inspect.CO_VARARGS
    body = _SPELLED if spelled else ""
    refused = " or ".join([f"type({code.co_varnames[position]}) in _numbers" for position in tensors])
    body += "    try:\n"
    if refused:
        body += f"        if {refused}:\n            raise _number_among(_function, ({{args}}), _method, _tensors)\n"
    body += (
        "        return _function({plain})\n"
        "    except Exception as error:\n"
        "        try:\n"
        "            raise _said(_function, ({args}), {{{kwargs}}}, error, _method)\n"
        "        except Exception as said:\n"
        "            _leave(said)\n"
        "            raise\n"
    )
    names = {
        "_said": explain_error,
        "_leave": leave,
        "_respelled": partial(respelled, method=method),
        "_numbers": NUMBERS,
        "_number_among": number_among,
        "_method": method,
        "_tensors": tensors,
    }
    return compile_wrapper(function, body, names, __name__, spelled=spelled)


def explain_error(
    function: Function, args: Sequence[Any], named: Mapping[str, Any], error: Exception, method: bool = False
) -> Exception:
    """Return what to raise for an error of a function: that an argument is of the wrong type, if one is; else the
    error itself.

    Args:
        args, named: the positional arguments and those by keyword only.
        method: the first argument is the tensor whose method the function is, which does not count.
    """
    if isinstance(error, MissingKernel):  # it names the dtype, which is what does not fit
        return error
    if any([arg is ABSENT for arg in args]):
        return _missing(function, args)
    strictly = isinstance(error, AttributeError | DtypeError)
    wrong = _wrong(function, args, named, strictly, isinstance(error, TypeError), int(method))
    if wrong is None:
        return error
    wrong.__suppress_context__ = True
    return wrong


def _missing(function: Function, args: Sequence[Any]) -> TypeError:
    """Return the error for the first argument that is missing."""
    position = next(place for place, arg in enumerate(args) if arg is ABSENT)
    name = list(inspect.signature(function).parameters)[position]
    return missing_argument(function.__name__, name)


def _wrong(
    function: Function, args: Sequence[Any], named: Mapping[str, Any], strictly: bool, of_types: bool, before: int
) -> DtypeError | None:
    """Return the error for the first argument of the wrong type.

    Where something proved to have no such attribute (`strictly`), numbers are no tensors; there, and where the error
    is one `of_types`, tensors that may be left out are not None. Positions count from behind the first `before`.
    """
    position = 0
    numbers = MAY_BE_NUMBERS.get(function.__name__, frozenset())
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest: Sequence[Any] = args[position:]
            if len(rest) == 1 and isinstance(rest[0], list | tuple):
                rest = cast("Sequence[Any]", rest[0])
            for number, value in enumerate(rest):
                if parameter.name in TENSORS and not _is_tensor(value, strictly):
                    return _error(function, parameter.name, number + position - before, "Tensor", value)
            position = len(args)
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            value, place = named[parameter.name], -1
        else:
            value, place = args[position], position
            position += 1
        if value is parameter.default or (value is None and place != 0 and not (strictly or of_types)):
            continue
        expected = _expected(parameter, value, strictly and parameter.name not in numbers)
        if expected:
            return _error(function, parameter.name, max(place - before, -1), expected, value)
    return None


def _expected(parameter: inspect.Parameter, value: Any, strictly: bool) -> str:
    """Return what a value of another type should be, nothing if it is right."""
    annotation = str(parameter.annotation)
    if annotation == "Any" and parameter.name in SIZES:
        annotation = "Axes"
    if annotation in ("Any", "object"):
        return "Tensor" if parameter.name in TENSORS and not _is_tensor(value, strictly) else ""
    if annotation == "Sequence[Any]" and isinstance(value, list | tuple) and parameter.name in TENSORS:
        items = cast("Sequence[Any]", value)
        return "" if all([_is_tensor(item, strictly) for item in items]) else "tuple of Tensors"
    parts = [_KINDS.get(part) for part in annotation.split(" | ")]
    if any([part is None or part[1](value) for part in parts]):
        return ""
    return " or ".join([part[0] for part in parts if part is not None])


def _error(function: Function, name: str, place: int, expected: str, value: Any) -> DtypeError:
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        kind = f"{kind} of ({', '.join([type(item).__name__ for item in items])})"
    return wrong_argument(function.__name__, name, place + 1, expected, kind)


def _is_tensor(value: Any, strictly: bool) -> bool:
    if isinstance(value, Tensor | np.ndarray | np.generic | Pending) or getattr(value, "__array_namespace__", None):
        return True
    if isinstance(value, list | tuple):  # of numbers, where a function takes such for a tensor
        return not strictly
    return not strictly and isinstance(value, int | float | complex)


def _is_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _are_indices(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False
    try:
        return all([_is_index(item) for item in value])
    except TypeError:
        return False
