"""Back-pressure on submission: how many runs, and bytes of inputs, a program may submit ahead of the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from raygrad.workers.executors.calls import External, SuppliedExternal

if TYPE_CHECKING:
    from .run_table import RunTable
    from .waiter import Waiter

RUNS_AHEAD: Final = 1024
"""The most runs that have not ended when another is submitted."""

BYTES_AHEAD: Final = 256 * 1024 * 1024
"""The most bytes of arrays that these runs were given, each run's own. One run may be given more."""

CHECKED_BYTES: Final = BYTES_AHEAD // 8
"""The sum is taken again after so many bytes."""


class SubmissionLimit:
    """Waits before a submission where too much is under way; used under the session's lock."""

    def __init__(self, table: RunTable, waiter: Waiter) -> None:
        self._table = table
        self._waiter = waiter
        self._unchecked = 0
        """Bytes given since the sum was last taken."""
        self._given: set[int] = set()
        """The arrays that the latest run was given: parameters, say, which are there once however many runs read
        them."""

    def given(self, externals: Sequence[External]) -> int:
        """Note the arrays that a run is given; return the bytes of those that the run before was not given."""
        size, before, array = 0, self._given, np.ndarray
        self._given = now = set[int]()
        for external in externals:
            if type(external) is SuppliedExternal and type(external.value) is array:
                value = external.value
                now.add(id(value))
                if id(value) not in before:
                    size += value.nbytes
        self._unchecked += size
        return size

    def wait(self) -> None:
        """Wait while too much is under way, until half of it has ended.

        Raises:
            WaitTimeout: the session's timeout has passed.
            The oldest error of the session's work that was not raised before.
        """
        history = self._table.history
        if len(history) >= RUNS_AHEAD:
            self._waiter.wait_until(lambda: len(history) <= RUNS_AHEAD // 2)
        if self._unchecked >= CHECKED_BYTES:
            self._unchecked = 0
            if self._ahead() > BYTES_AHEAD:
                self._waiter.wait_until(lambda: self._ahead() <= BYTES_AHEAD // 2)

    def _ahead(self) -> int:
        return sum([one.nbytes for one in self._table.history if not one.finished])
