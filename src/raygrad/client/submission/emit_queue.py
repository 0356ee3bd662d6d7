"""The queue of emits at the client: from records and chunks to handlers and runs, one by one and in order (H20).

The run listener adds to it and delivers. While a handler runs nothing else is delivered, whoever polls meanwhile: a
handler that waits for a value finds the emits behind its own still in order, and handled once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.workers.code.shipping import unpickle_value
from raygrad.workers.values.emit_chunks import STREAMED, Emit, HeldChunk

if TYPE_CHECKING:
    from .run import Run


class EmitQueue:
    """The emits of one session that handlers are yet to be given."""

    def __init__(self, errors: list[BaseException]) -> None:
        """`errors` takes what handlers raise."""
        self.handlers: dict[str, list[Callable[[Any], Any]]] = {}
        """By name of emits, the user's handlers."""
        self.thread = 0
        """The thread that is in a handler, 0 for none."""
        self._errors = errors
        self._waiting: deque[tuple[Run | None, HeldChunk | Sequence[Emit]]] = deque()
        self._next: deque[tuple[Run | None, Emit]] = deque()
        """What is being delivered."""
        self._delivers = threading.Lock()

    def add(self, run: Run | None, emits: HeldChunk | Sequence[Emit]) -> None:
        """Add what a run, None for one that nobody holds, has emitted."""
        self._waiting.append((run, emits))

    @property
    def waiting(self) -> bool:
        """Whether anything is to be delivered."""
        return bool(self._waiting or self._next)

    def deliver(self) -> None:
        """Give handlers what is waiting, unless a thread does so already: that one goes on.

        Raises:
            KeyboardInterrupt: it came in a handler; what follows comes with the next call.
        """
        while self.waiting and self._delivers.acquire(blocking=False):
            self.thread = threading.get_ident()
            try:
                while self._next or self._take():
                    self._handle(*self._next.popleft())
            finally:
                self.thread = 0
                self._delivers.release()

    def _take(self) -> bool:
        """Take the next chunk or record; return whether there was one."""
        if not self._waiting:
            return False
        run, some = self._waiting.popleft()
        self._next.extend([(run, emit) for emit in (some.take().emits if isinstance(some, HeldChunk) else some)])
        return True

    def _handle(self, run: Run | None, emit: Emit) -> None:
        node, ordinal, name, value = emit
        if name == STREAMED:
            if run is not None:
                run.emit_seconds += unpickle_value(value)
            return
        if run is not None and not run.emitted.counts(node, ordinal):
            return
        handlers = tuple(self.handlers.get(name, ()))
        opened = unpickle_value(value)
        if run is not None:
            run.emitted.add(emit, opened, handled=bool(handlers))
        for handler in handlers:
            try:
                handler(opened)
            except KeyboardInterrupt:  # Ctrl-C: it must stop the program now
                raise
            except BaseException as error:  # raised at the next sync point, whatever it is: other emits follow
                self._errors.append(error)
