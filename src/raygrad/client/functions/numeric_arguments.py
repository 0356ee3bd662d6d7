"""Numeric arguments: which of the numbers given to a Function are data, by what its runs showed with other values (H3).

Numbers that are data leave the key of a call, so that a new value is neither a new Function to be run first nor a new
graph. The Function recorder asks here which signature to presume; `presumed_signature` follows up how that turns out.
"""

from __future__ import annotations

import inspect
import marshal
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from raygrad.autograd.core.size import Size
from raygrad.proto.ir.signatures import SAME

if TYPE_CHECKING:
    from .observed_signature import FunctionSignature

MAX_RUNS: Final = 64
"""Runs with different numbers that are compared with a new one: a bound on time and memory."""

PLAIN_NUMBERS: Final = frozenset((int, float, complex))
_OPTIONS: Final = frozenset((bool, str, bytes, type(None)))
CONTAINERS: Final = frozenset((tuple, Size, list, dict))

MAX_NUMBERS: Final = 64
"""Numbers in one argument that are told apart: a longer list is data of its own kind."""

MAX_DEPTH: Final = 8
"""Containers inside one another that are looked into: one may hold itself."""

_PLAIN_MARSHAL: Final = 2
"""The version that gives equal bytes for equal values, whoever else refers to them."""


def is_number(value: Any) -> bool:
    """Tell whether an argument is a number: exactly of one of Python's types, or a scalar of NumPy. `True` is none, nor
    is a member of an `IntEnum`: these are options."""
    return type(value) in PLAIN_NUMBERS or (isinstance(value, np.number) and not isinstance(value, np.timedelta64))


class PlainData(NamedTuple):
    """A tuple, list or dict of numbers and options, without its numbers."""

    identity: Any
    """Its structure, the types of its numbers, and its options."""
    numbers: Sequence[Any]
    places: Sequence[str]
    """Where these are: "1[0]", "1['rate']"."""


def plain_data(value: Any, place: int | str) -> PlainData | None:
    """Return what a container among the arguments is made of; None for one that holds anything but numbers, options and
    such containers, or too much."""
    numbers: list[Any] = []
    places: list[str] = []
    identity = _identity_within(value, str(place), numbers, places, 0)
    return None if identity is None else PlainData(identity, numbers, places)


def _identity_within(value: Any, place: str, numbers: list[Any], places: list[str], depth: int) -> Any:
    kind = cast("type[Any]", type(value))
    if is_number(value):
        numbers.append(value)
        places.append(place)
        return kind if len(numbers) <= MAX_NUMBERS else None
    if kind in _OPTIONS:
        return kind, value
    if kind not in CONTAINERS or depth == MAX_DEPTH or len(value) > MAX_NUMBERS:
        return None
    held: Any = value
    items: list[tuple[Any, Any]] = list(held.items()) if kind is dict else [(i, held[i]) for i in range(len(held))]
    parts: list[Any] = [kind]
    for key, item in items:
        part = _identity_within(item, f"{place}[{key!r}]", numbers, places, depth + 1)
        if part is None or type(key) not in (int, str):
            return None
        parts.append((key, part))
    return tuple(parts)


def exact_numbers(values: Sequence[Any]) -> bytes:
    """Return a key of numbers of known types, by which 0.0 and -0.0 differ and NaN is itself."""
    return marshal.dumps(tuple(values), _PLAIN_MARSHAL)


class NumericRun(NamedTuple):
    """What one run showed."""

    values: tuple[Any, ...]
    signature: FunctionSignature
    where: Any
    """The key of the call, with the values of its numbers."""


class NumericArguments:
    """The runs of one Function that differed in numbers alone, and which of these numbers are data.

    Floating-point numbers are data from the beginning, integers once two values have shown equal facts. Those that
    differ where the facts do are none.
    """

    __slots__ = ("_free", "_presumed", "_runs")

    def __init__(self, values: Sequence[Any]) -> None:
        self._free = frozenset([i for i, value in enumerate(values) if not isinstance(value, int | np.integer)])
        self._runs: OrderedDict[bytes, NumericRun] = OrderedDict()
        self._presumed: dict[bytes, NumericRun] = {}

    def presumed(self, values: Sequence[Any]) -> NumericRun | None:
        """Return the run whose signature is presumed for numbers that have not been run with; None if they have to be
        run first."""
        return self._presumed.get(_key(values, self._free))

    def run_with(self, values: Sequence[Any]) -> NumericRun | None:
        """Return what is known of a run with these very numbers."""
        return self._runs.get(exact_numbers(values))

    def observe(self, run: NumericRun) -> NumericRun:
        """Take in what a run showed: decide anew which numbers are data. Returns the run as it is known from now on: of
        those that agree, all have one signature, so that calls with these numbers are one plan."""
        key = exact_numbers(run.values)
        self._runs.pop(key, None)
        earlier = list(reversed(self._runs.values()))
        alike = next((other for other in earlier if agree(run.signature, other.signature)), None)
        if alike is not None:
            run = NumericRun(run.values, alike.signature, alike.where)
        self._runs[key] = run
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        data = self._free
        for other in earlier:  # those from which this would have been presumed, and would be wrong
            if not agree(run.signature, other.signature) and _key(run.values, data) == _key(other.values, data):
                data -= differing_numbers(run.values, other.values)
        for other in earlier:
            if agree(run.signature, other.signature):
                more = data | differing_numbers(run.values, other.values)
                if more != data and self._is_consistent(more):
                    data = more
        self._go_by(data)
        return run

    def distrust(self, run: NumericRun, values: Sequence[Any]) -> None:
        """Take in that a call with `values` did something else than `run`, without having shown what."""
        self._go_by(self._free - differing_numbers(run.values, values))

    def _go_by(self, data: frozenset[int]) -> None:
        self._free = data
        runs = [run for run in self._runs.values() if is_presumable(run.signature)]
        self._presumed = {_key(run.values, data): run for run in runs}

    def _is_consistent(self, data: frozenset[int]) -> bool:
        """Tell whether all runs agree that differ in `data` alone."""
        first: dict[bytes, NumericRun] = {}
        return all(
            agree(run.signature, first.setdefault(_key(run.values, data), run).signature) for run in self._runs.values()
        )


def _key(values: Sequence[Any], data: frozenset[int]) -> bytes:
    """Return the key of the numbers that are no data."""
    if len(data) == len(values):
        return b""
    return exact_numbers([value for i, value in enumerate(values) if i not in data])


def differing_numbers(one: Sequence[Any], other: Sequence[Any]) -> frozenset[int]:
    """Return which numbers of two calls differ."""
    pairs = zip(one, other, strict=True)
    return frozenset([i for i, (a, b) in enumerate(pairs) if exact_numbers((a,)) != exact_numbers((b,))])


def is_presumable(signature: FunctionSignature) -> bool:
    """Tell whether a signature may be presumed for other numbers: not if an output is an argument as it is, which is
    read without a run that would check it."""
    return signature.expected is not None and not any(origin[:1] == (SAME,) for origin in signature.origins)


def agree(one: FunctionSignature, other: FunctionSignature) -> bool:
    """Tell whether two runs showed equal facts: in all but how many bytes their contexts hold."""
    same: Any = {"holds": 0, "on": (), "fixed": {}}  # what is fixed is among what is expected
    return one is other or one._replace(**same) == other._replace(**same)


def argument_texts(function: Any, places: Sequence[int | str], values: Sequence[Any]) -> Iterator[str]:
    """Return numbers as errors show them: "argument 1 (scale) = 2.0"."""
    names: list[str] = []
    try:
        parameters = list(inspect.signature(function.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if parameters and function._traits.setup is None:
        del parameters[0]
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        names.append(parameter.name)
    for place, value in zip(places, values, strict=True):
        if isinstance(place, str):
            yield f"argument {place} = {value!r}"
        else:
            yield f"argument {place}{f' ({names[place]})' if place < len(names) else ''} = {value!r}"
