"""What one run has emitted, as `run.emits` returns it: in memory up to a limit, beyond that on disk or left to
handlers."""

from __future__ import annotations

from typing import Any, Final

from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import Packed
from raygrad.workers.code.shipping import unpickle_value
from raygrad.workers.values.emit_chunks import Emit
from raygrad.workers.values.spill_file import FileRegion, SpillFile

KEPT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of pickled emits that a run keeps in memory. What is beyond and was given to a handler is the
handler's alone; what no handler was given goes to disk."""


class Emitted:
    """The emits of one run."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._found: list[tuple[int, int, str, Any]] = []
        """(node, ordinal, name, value or the part of the file that holds it)."""
        self._bytes = 0
        self._file: SpillFile | None = None
        self._next: dict[int, int] = {}
        """By node, the ordinal of its next emit, if they come in order."""
        self._early: dict[int, set[int]] = {}
        """By node, the ordinals of those that came before that."""
        self._left_to_handlers = 0
        self._lost: ExecutionError | None = None
        """Why some could not be kept."""

    def counts(self, node: int, ordinal: int) -> bool:
        """Tell whether an emit is new: what a node has emitted before that runs again, since what it made was lost,
        counts once."""
        following, early = self._next.get(node, 0), self._early.get(node)
        if ordinal < following or (early is not None and ordinal in early):
            return False
        if ordinal > following:
            self._early.setdefault(node, set()).add(ordinal)
            return True
        following += 1
        while early and following in early:
            early.discard(following)
            following += 1
        self._next[node] = following
        return True

    def add(self, emit: Emit, opened: Any, *, handled: bool) -> None:
        """Keep an emit, whose value has been opened."""
        node, ordinal, name, value = emit
        if self._bytes < self._limit:
            self._bytes += len(value)
            self._found.append((node, ordinal, name, opened))
        elif handled:
            self._left_to_handlers += 1
        else:
            try:
                self._file = self._file or SpillFile()
                self._found.append((node, ordinal, name, self._file.write(Packed(b"", (value,)))))
            except ExecutionError as error:
                self._lost = self._lost or error

    def read(self) -> list[tuple[str, Any]]:
        """Return all as (name, value), in the engine's order.

        Raises:
            ExecutionError: they were too many to keep them all.
            DiskFull: nobody handled them, and the disk had no room for more.
        """
        if self._lost is not None:
            raise self._lost
        if self._left_to_handlers:
            raise ExecutionError(
                f"this run has emitted more than the {self._limit:,} bytes that it keeps: {self._left_to_handlers:,} "
                "values were given to handlers alone; keep in the handler what is needed"
            )
        return [
            (name, unpickle_value(bytes(value.read().buffers[0])) if isinstance(value, FileRegion) else value)
            for _, _, name, value in sorted(self._found, key=lambda emit: emit[:2])
        ]
