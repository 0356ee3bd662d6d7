"""Progress bar of a wait: rich's, on standard error or in a notebook's cell, fed with facts by the client.

rich is imported when a bar is shown; it redraws itself on a thread of its own, and is gone when the wait ends.
"""

from __future__ import annotations

from typing import NamedTuple

from . import figures


class ProgressFacts(NamedTuple):
    """How far the runs are that a session waits for."""

    runs: int
    done: int
    """Segments that are done."""
    segments: int
    bytes: int
    """Bytes that done segments have returned to the object store."""
    left: float | None
    """Predicted seconds until the last run ends; None if that is past, or nothing is known."""

    def __str__(self) -> str:
        left = "" if self.left is None else f", about {figures.seconds(self.left)} left"
        return f"{self.done:,} of {figures.number(self.segments, 'segment')}, {figures.size(self.bytes)}{left}"


class ProgressBar:
    """A bar that is shown from its construction to `close`."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("raygrad"), BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", said="")
        self._progress.start()

    def show(self, facts: ProgressFacts) -> None:
        """Show new facts."""
        self._progress.update(self._task, total=max(facts.segments, 1), completed=facts.done, said=str(facts))

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()
