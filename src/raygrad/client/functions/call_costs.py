"""Call costs: what the client knows of the time of one call of a user Function, and the cost hints of a graph.

`Function.cost` hints at the seconds of forward before its first run; non-tensor arguments, which no graph holds, tell
which calls take longer. `FunctionRecorder` notes both in records, submissions enter them into the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.graph import CostHint
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.function_costs import OTHER_VALUES

from ..recording.source_locations import user_site

if TYPE_CHECKING:
    from ..recording.records import NodeRecord

MAX_TEXT: Final = 80
"""Letters of the values of a call; longer ones are named by their digest."""

_PLAIN: Final = frozenset({int, float, bool, str, complex, bytes, type(None)})


class CallCost(NamedTuple):
    """What is known of the time of one call."""

    seconds: float
    """Hinted for forward; 0.0 if nothing is."""
    values: str
    """The non-tensor arguments; "" if there are none that tell calls apart."""


class CallCosts:
    """The cost hints of a session's graphs.

    Args:
        values_known: returns, by name of the user Functions whose times differ between values of their non-tensor
            arguments, the values that were measured.
    """

    def __init__(self, values_known: Callable[[], Mapping[str, frozenset[str]]]) -> None:
        self.hinted = False
        """Whether any Function that was applied has a `cost`."""
        self._values_known = values_known

    def call_cost(self, cls: type[Any], args: Sequence[Any], named: Mapping[str, Any], texts: list[str]) -> CallCost:
        """Return what is known of the time of a call; `texts` names its non-tensor arguments.

        Raises:
            TypeError, ValueError: the `cost` of the class is not what it should be.
        """
        seconds = hinted_seconds(cls, args, named)
        self.hinted = self.hinted or seconds > 0.0
        values = ", ".join(texts)
        return CallCost(seconds, values if len(values) <= MAX_TEXT else _digest(values.encode()))

    def hints(self, records: Sequence[NodeRecord]) -> tuple[CostHint, ...]:
        """Return the hints for a graph of these records. Values are named where they count and were measured: a plan
        is made for each of them, and one for all others."""
        values_known = self._values_known()
        if not self.hinted and not values_known:
            return ()
        hints: list[CostHint] = []
        for index, record in enumerate(records):
            known = record.call_cost
            if known is None:
                continue
            work: Any = record.work
            values = values_known.get(work.fn)
            text = "" if values is None else known.values if known.values in values else OTHER_VALUES
            if text or known.seconds:
                hints.append(CostHint(index, known.seconds, text))
        return tuple(hints)


def value_text(identity: Any) -> str:
    """Return the text of a non-tensor argument by what identifies it (`records.snapshot`); "" for one whose content is
    not known."""
    kind, value, *_ = identity
    if kind in _PLAIN:
        return repr(value)
    return _digest(value) if kind == "pickle" else ""


def hinted_seconds(cls: type[Any], args: Sequence[Any], named: Mapping[str, Any]) -> float:
    """Return the seconds of forward by the `cost` of a Function; 0.0 if it has none, or says None of this call. It is
    given what `infer` is, and keyword-only arguments by name.

    Raises:
        TypeError: it is neither a number nor a function that returns one.
        ValueError: it is no time.
    """
    declared: Any = getattr(cls, "cost", None)
    if declared is None:
        return 0.0
    if not callable(declared):
        return _checked(declared, f"{cls.__name__}.cost", "must be seconds, or a function of the arguments")
    given = [ArraySpec(a.shape, a.dtype.name, str(a.device)) if isinstance(a, Tensor) else a for a in args]
    said: Any = declared(*given, **named)
    if said is None:
        return 0.0
    what = f"for {cls.__name__}.apply at {user_site()} {cls.__name__}.cost"
    return _rounded(_checked(said, what, "must return seconds, or None where they are not known"))


def _checked(value: Any, what: str, must: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{what} {must}, not {value!r}")
    seconds = float(value)
    if not math.isfinite(seconds) or seconds <= 0.0:
        raise ValueError(f"{what} {must}: a time is more than 0 and finite, not {value!r}")
    return seconds


def _rounded(seconds: float) -> float:
    """Return one of ten steps per decade: hints that hardly differ make no new plan."""
    return float(f"{10.0 ** (round(10.0 * math.log10(seconds)) / 10.0):.2g}")


def _digest(data: bytes) -> str:
    return "#" + blake2b(data, digest_size=8).hexdigest()
