"""Outputs of forward over memory that the program has: an array that the code captures or is given, or an argument's.

Eagerly such an output (`rg.from_numpy(array)`) and the array are one memory; what a worker returns is a copy. The first
run of a Function looks for them, and warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor

_REMEDY: Final = (
    "eagerly that is one memory, in a session it is a copy, and a later change in place of either is not seen in the "
    "other: return a tensor of its own, as rg.tensor(array) makes it, or the argument, or a view of it"
)


def warn_of_shared_outputs(
    name: str, outputs: Sequence[Any], origins: Sequence[Any], given: Iterable[Any], captured: Sequence[Any]
) -> None:
    """Warn (UserWarning) of the first output that is memory of an array or tensor which forward was given, or of an
    array which its code captures.

    Args:
        name: the Function's.
        outputs: what forward returned.
        origins: per output, where it comes from; () if forward made it.
        given: the arguments.
        captured: the arrays that the code captures.
    """
    made = [
        (number, output._data)
        for number, (output, origin) in enumerate(zip(outputs, origins, strict=True))
        if type(output) is Tensor and output._shares_memory and not origin and type(output._data) is np.ndarray
    ]
    if not made:
        return
    memories: list[tuple[str, Any]] = [
        ("an array that the code captures", one) for one in captured if isinstance(one, np.ndarray)
    ]
    for place, value in enumerate(given):
        memories += [(f"argument {place}", array) for array in _arrays_of(value)]
    for number, data in made:
        what = next((what for what, array in memories if data.size and np.may_share_memory(data, array)), None)
        if what is not None:
            warnings.warn(
                f"{name}.forward returned, as output {number}, the memory of {what}: {_REMEDY}",
                UserWarning,
                stacklevel=2,
            )
            return


def _arrays_of(value: Any) -> list[Any]:
    """Return the arrays that an argument is, is over, or has as items."""
    if isinstance(value, Tensor):
        value = value._data
    if isinstance(value, np.ndarray):
        return [value]
    items: Any = ()
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).values()
    elif isinstance(value, list | tuple):
        items = cast("list[Any]", value)
    return [one for item in items for one in _arrays_of(item)]
