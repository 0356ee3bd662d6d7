"""A `raygrad serve` of tests: it runs until it is told to end, and what it says is read."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any


class Serving:
    """A `raygrad serve` that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self._listening.wait(60), self.lines
        self.url = next(line for line in self.lines if "listening on" in line).split("listening on ")[1].split('"')[0]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.strip())
            if "listening on" in line:
                self._listening.set()
        self._listening.set()

    def ends(self, seconds: float = 40.0) -> int:
        """Wait for its end, and return its exit code."""
        code = self.process.wait(seconds)
        self._thread.join(10)
        return code

    def entries(self) -> list[dict[str, Any]]:
        """The lines of a log in JSON."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    @staticmethod
    @contextlib.contextmanager
    def by(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Generator[Serving]:
        """Start one by a command, and wait until it listens; it is gone after the block."""
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=cwd, env=env)
        try:
            yield Serving(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
