"""Programs in forked processes, for tests: what a child says that `os.fork` made, within a deadline."""

from __future__ import annotations

import os
import select
import signal
import traceback
from collections.abc import Callable

DEADLINE = 60.0
"""Seconds that a child may take: it has nothing to wait for."""


def in_child(function: Callable[[], object]) -> str:
    """Return what a function returns, or the type and message of what it raises, in a forked process. An end by
    another way, or none within the deadline, is an AssertionError."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            try:
                said = str(function())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    said = b""
    try:
        while True:
            if not select.select([reader], [], [], DEADLINE)[0]:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("the forked process hangs")
            part = os.read(reader, 65536)
            if not part:
                break
            said += part
    finally:
        os.close(reader)
        status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the forked process ended with status {status}"
    return said.decode()
