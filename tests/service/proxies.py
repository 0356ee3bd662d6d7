"""A proxy between client and service that cuts connections, as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any


class CuttingProxy:
    """Passes bytes on, between whoever connects to `url` and a server, until `cut`."""

    def __init__(self, server_url: str) -> None:
        host, _, port = server_url.rpartition("://")[2].partition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.connections = 0
        self.left: int | None = None
        """Bytes that may still pass before everything is cut; None for any number."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections, without a word."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self.left = None
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def armed(self) -> bool:
        """Tell whether a cut is still to come after `left` bytes."""
        return self.left is not None

    def refuse(self) -> None:
        """Accept no connections any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            with self._lock:
                self._pairs.append((client, server))
                self.connections += 1
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: Any, target: Any) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.left is not None:
                    if len(data) >= self.left:
                        target.sendall(data[: self.left])
                        break
                    self.left -= len(data)
                target.sendall(data)
        if self.left is not None:
            self.cut()
        for one in (source, target):  # one end is gone: so is the other
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
