"""Call costs: what the client knows of the time of one call of a user Function, and the cost hints of a graph.

`Function.cost` hints at the seconds of forward before its first run; non-tensor arguments, which no graph holds, tell
which calls take longer. `FunctionRecorder` notes both in records, submissions enter them into the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from numbers import Number, Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import aside
from raygrad.proto.ir.graph import CostHint
from raygrad.scheduler.model.function_costs import OTHER_VALUES

from ..recording.source_locations import user_site
from .numeric_arguments import CONTAINERS
from .observed_signature import described

if TYPE_CHECKING:
    from ..recording.records import NodeRecord

MAX_TEXT: Final = 80
"""Letters of the values of a call; longer ones are named by their digest."""

BY_NAME: Final = "by name"
"""Marks arguments that are given by name."""

_PLAIN: Final = frozenset({int, float, bool, str, complex, bytes, type(None)})


class CallCost(NamedTuple):
    """What is known of the time of one call."""

    seconds: float
    """Hinted for forward; 0.0 if nothing is."""
    arguments: Sequence[Any]
    """What identifies the non-tensor arguments (`records.snapshot`); of those by name (BY_NAME, name, that)."""

    def values(self) -> str:
        """Return the non-tensor arguments as a text; "" if there are none that tell calls apart. Most calls never need
        it."""
        texts: list[str] = []
        for identity in self.arguments:
            name = ""
            if identity[0] is BY_NAME:
                _, name, identity = identity
                name += "="
            if text := _value_text(*identity[:2]):
                texts.append(name + text)
        text = ", ".join(texts)
        return text if len(text) <= MAX_TEXT else _digest(text.encode())


class ReplayedCallCost(NamedTuple):
    """What is known of the time of a call that is made again and again, always with the same non-tensor arguments."""

    fn: str
    """The name of its Function."""
    seconds: float
    """As of `CallCost`."""
    text: str
    """`CallCost.values` of the call."""

    def values(self) -> str:
        """Return the non-tensor arguments, as `CallCost.values` does."""
        return self.text


class CallCosts:
    """The cost hints of a session's graphs.

    Args:
        values_known: returns, by name of the user Functions whose times differ between values of their non-tensor
            arguments, the values that were measured.
    """

    def __init__(self, values_known: Callable[[], Mapping[str, frozenset[str]]]) -> None:
        self.hinted = False
        """Whether any Function that was applied has a `cost`."""
        self.values_known: Final = values_known
        """Returns another mapping when what it says has changed."""

    def hints(self, records: Sequence[NodeRecord]) -> tuple[CostHint, ...]:
        """Return the hints for a graph of these records. Values are named where they count and were measured: a plan
        is made for each of them, and one for all others."""
        values_known = self.values_known()
        if not self.hinted and not values_known:
            return ()
        hints: list[CostHint | None] = []
        for index, record in enumerate(records):
            known = record.call_cost
            if known is not None:
                work: Any = record.work
                hints.append(_hint(index, known, values_known.get(work.fn)))
        return tuple([one for one in hints if one is not None])

    def replayed_hints(self, calls: Mapping[int, ReplayedCallCost]) -> tuple[CostHint, ...]:
        """Return the hints for a graph that is submitted again, with these calls by node."""
        known = self.values_known()
        hints = [_hint(index, one, known.get(one.fn)) for index, one in calls.items()]
        return tuple([one for one in hints if one is not None])


def replayed_calls(records: Sequence[NodeRecord]) -> dict[int, ReplayedCallCost]:
    """Return, by node, the calls of user Functions in a graph of these records."""
    calls: dict[int, ReplayedCallCost] = {}
    for index, record in enumerate(records):
        if record.call_cost is not None:
            work: Any = record.work
            calls[index] = ReplayedCallCost(work.fn, record.call_cost.seconds, record.call_cost.values())
    return calls


def _hint(index: int, known: CallCost | ReplayedCallCost, measured: frozenset[str] | None) -> CostHint | None:
    """Return the hint of a call, whose Function was measured with these values; None if there is nothing to say."""
    values = "" if measured is None else known.values()
    if values and measured is not None and values not in measured:
        values = OTHER_VALUES
    return CostHint(index, known.seconds, values) if values or known.seconds else None


def _value_text(kind: Any, value: Any) -> str:
    """Return the text of a non-tensor argument; "" for one whose content is not known."""
    if kind in _PLAIN or kind in CONTAINERS or isinstance(value, Number):
        return repr(cast(object, value))
    return _digest(value) if kind == "pickle" else ""


def declares_cost(cls: Any) -> bool:
    """Tell whether a Function hints at its time."""
    return getattr(cls, "cost", None) is not None


def hinted_seconds(cls: type[Any], args: Sequence[Any], named: Mapping[str, Any]) -> float:
    """Return the seconds of forward by the `cost` of a Function; 0.0 if it says None of this call. It is given what
    `infer` is, and keyword-only arguments by name.

    Raises:
        TypeError: it is neither a number nor a function that returns one.
        ValueError: it is no time.
    """
    declared: Any = cls.cost
    if not callable(declared):
        return _checked(declared, f"{cls.__name__}.cost", "must be seconds, or a function of the arguments")
    with aside(state.here):
        said: Any = declared(*described(args), **named)
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
