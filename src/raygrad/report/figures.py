"""Numbers as text: seconds, bytes, shares and ratios, rounded and with units.

Tables, drawings and traces format their figures with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def seconds(value: float) -> str:
    """Return a time with three digits and its unit: "1.23 ms", "45 µs"."""
    size = abs(value)
    if size == 0:
        return "0"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if size < limit * 0.9995:
            return f"{_digits(value * factor)} {unit}"
    return f"{_digits(value)} s"


def size(value: int) -> str:
    """Return a number of bytes: "0 B", "4.10 kB", "12.0 MB"."""
    amount = float(value)
    if abs(amount) < 1000:
        return f"{value} B"
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if abs(amount) < 999.5:
            return f"{_digits(amount)} {unit}"
    return f"{_digits(amount / 1000)} TB"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in per cent, or "-" of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def ratio(actual: float, predicted: float) -> str:
    """Return how many times the prediction the actual figure is, or "-" if nothing was predicted."""
    return f"{_digits(actual / predicted)} x" if predicted and actual else "-"


def number(count: int, noun: str) -> str:
    """Return "1 node", "2,000 nodes"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def commonest(names: Iterable[str], most: int = 3) -> str:
    """Return the commonest names with their numbers: "mul 12, Solve, …"."""
    counts = Counter(names).most_common()
    shown = [name if count == 1 else f"{name} {count:,}" for name, count in counts[:most]]
    return ", ".join([*shown, "…"] if len(counts) > most else shown)


def _digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"
