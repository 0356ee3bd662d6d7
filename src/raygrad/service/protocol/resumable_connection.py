"""A session's messages over one connection after another: none is lost, and none comes twice.

Each side counts the messages of each direction, which numbers them. What was sent is kept until the other side has said
that it took so many; on a new connection both say how many they took, and what is missing goes out again. What is kept
is bounded: who would exceed that waits, for the other side or for the end of the session."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from raygrad.errors import ProtocolError

from .connection import EncodedMessage, MessageConnection
from .messages import Taken

MOST_KEPT: Final = 64 * 1024 * 1024
"""The most bytes that are kept for the other side, but for one message that is larger."""

TOLD_AFTER: Final = 0.05
"""Seconds after which the other side is told of what was taken; sooner if that is much."""

TOLD_AT_ONCE: Final = 32
"""Messages that are much."""

READER_SECONDS: Final = 5.0
"""Seconds within which a thread that reads a broken connection notices."""


class ConnectionEnded(Exception):
    """A session's messages go nowhere any more; says why."""


class ResumableConnection:
    """Sends and receives the messages of a session. Any thread may send; one receives.

    Args:
        grace: seconds for which a broken connection may be replaced.
    """

    def __init__(self, connection: MessageConnection, *, grace: float) -> None:
        self.max_message = connection.max_message
        self._grace = grace
        self._sending = threading.Lock()
        """Held while a message is numbered and written: what goes out is in order."""
        self._changed = threading.Condition()
        """Guards what follows."""
        self._connection: MessageConnection | None = connection
        self._kept: deque[EncodedMessage] = deque()
        self._kept_bytes = 0
        self._sent = self._taken = self._told = 0
        self._broken_at = 0.0
        self._reading = False
        self._ended: str | None = None
        threading.Thread(target=self._tell, name="raygrad-taken", daemon=True).start()

    @property
    def taken(self) -> int:
        """How many messages have been taken."""
        return self._taken

    @property
    def ended(self) -> str | None:
        """Why it has ended; None if it has not. It ends by itself when it was broken for longer than the grace."""
        with self._changed:
            self._look()
            return self._ended

    def end(self, why: str) -> None:
        """End it: who waits for it, or uses it from now on, gets a `ConnectionEnded`."""
        with self._changed:
            self._end(why)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End it, and close its connection."""
        with self._changed:
            connection = self._connection
            self._end(reason or "it was closed")
        if connection is not None:
            connection.close(code, reason)

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send(self, message: Any, *, waits: bool = True) -> None:
        """Send a message: now, or once there is a connection again.

        Args:
            waits: wait while too much is kept; not for a thread that receives.

        Raises:
            NotShippable: it holds a value that is no plain data.
            ServiceError: it is larger than the other side takes.
            ConnectionEnded: the session is over.
        """
        encoded = EncodedMessage.of(message, self.max_message)
        with self._changed:
            while waits and self._kept and self._kept_bytes + encoded.nbytes > MOST_KEPT and not self._look():
                self._changed.wait(1.0)
        with self._sending:
            with self._changed:
                if self._look():
                    raise ConnectionEnded(self._ended)
                self._kept.append(encoded)
                self._kept_bytes += encoded.nbytes
                self._sent += 1
                connection = self._connection
            if connection is not None:
                self._write(connection, (encoded,))

    def _write(self, connection: MessageConnection, messages: Sequence[EncodedMessage]) -> None:
        try:
            for one in messages:
                connection.send_encoded(one)
        except ConnectionClosed:
            self.broke(connection)

    def _tell(self) -> None:
        """Tell the other side what was taken: the body of a thread of its own, since who receives must not wait for the
        other side to receive."""
        while True:
            with self._changed:
                while not self._ended and (self._taken == self._told or self._connection is None):
                    self._changed.wait()
                until = time.monotonic() + TOLD_AFTER
                while not self._ended and self._taken - self._told < TOLD_AT_ONCE:
                    left = until - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                if self._ended:
                    return
            with self._sending:
                with self._changed:
                    connection, count = self._connection, self._taken
                    self._told = count
                if connection is not None:
                    with suppress(ConnectionClosed):  # the next connection tells, too
                        connection.send(Taken(count))

    # ---- receiving ---------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, connection: MessageConnection) -> Generator[None]:
        """Note, in a context manager, that this thread receives from a connection, which counts as broken after it."""
        with self._changed:
            self._reading = True
        try:
            yield
        finally:
            with self._changed:
                self._reading = False
                self._changed.notify_all()
            self.broke(connection)

    def receive(self, connection: MessageConnection) -> Any:
        """Return the next message, waiting for it; `took` says that it need not come again.

        Raises:
            ProtocolError: what came is no message.
            ConnectionClosed: the connection is.
        """
        while True:
            message = connection.receive()
            if not isinstance(message, Taken):
                return message
            with self._changed:
                self._forget(message.count)

    def took(self) -> None:
        """Note that the message that `receive` returned last is in good hands."""
        with self._changed:
            self._taken += 1
            if self._taken - self._told in (1, TOLD_AT_ONCE):
                self._changed.notify_all()

    # ---- one connection after another --------------------------------------------------------------------------------

    def broke(self, connection: MessageConnection) -> None:
        """Note that a connection is closed, if it is still the one in use."""
        with self._changed:
            if self._connection is connection:
                self._connection = None
                self._broken_at = time.monotonic()
                self._changed.notify_all()

    def abandon(self) -> bool:
        """Break the connection, if there is one, and wait until nobody reads it; return whether that came about. Then
        `taken` stays until `resume`."""
        with self._changed:
            connection = self._connection
        if connection is not None:
            connection.break_off()
            self.broke(connection)
        with self._changed:
            return self._changed.wait_for(lambda: not self._reading, READER_SECONDS)

    def await_next(self) -> bool:
        """Wait, the connection being broken, for another one; return whether one came before the grace was over."""
        with self._changed:
            while self._connection is None and not self._look():
                self._changed.wait(max(self._broken_at + self._grace - time.monotonic(), 0.0) + 0.01)
            return self._ended is None

    def resume(self, connection: MessageConnection, taken: int) -> None:
        """Go on over another connection, whose other side took so many messages. What it lacks is sent on a thread of
        its own, since the other side may do the same before it receives.

        Raises:
            ProtocolError: it cannot have taken so many.
            ConnectionEnded: the session is over.
        """
        connection.max_message = self.max_message
        self._sending.acquire()
        try:
            with self._changed:
                if self._look():
                    raise ConnectionEnded(self._ended)
                self._forget(taken)
                missing = tuple(self._kept)
                self._connection = connection
                self._told = self._taken
                self._changed.notify_all()
            threading.Thread(target=self._write_again, args=(connection, missing), daemon=True).start()
        except BaseException:
            self._sending.release()
            raise

    def _write_again(self, connection: MessageConnection, missing: Sequence[EncodedMessage]) -> None:
        try:
            self._write(connection, missing)
        finally:
            self._sending.release()

    # ---- with `_changed` held ----------------------------------------------------------------------------------------

    def _forget(self, taken: int) -> None:
        dropped = taken - (self._sent - len(self._kept))
        if dropped < 0 or taken > self._sent:
            raise ProtocolError(f"the other side says that it took {taken} messages of {self._sent}")
        for _ in range(dropped):
            self._kept_bytes -= self._kept.popleft().nbytes
        if dropped:
            self._changed.notify_all()

    def _look(self) -> bool:
        """Tell whether it has ended, also by the grace."""
        if self._ended is None and self._connection is None and time.monotonic() > self._broken_at + self._grace:
            self._end(f"the connection was broken for {self._grace:g} s")
        return self._ended is not None

    def _end(self, why: str) -> None:
        if self._ended is None:
            self._ended = why
            self._kept.clear()
            self._kept_bytes = 0
            self._changed.notify_all()
