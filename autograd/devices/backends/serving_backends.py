"""Registry of the backends of this process: the one that serves "cuda", and each by the type of its arrays.

`serving` looks backends up here; simulated devices and workers install theirs by `serve`.
"""

from __future__ import annotations

import numpy as np

from .absent_device import AbsentArray, AbsentBackend
from .backend import Backend
from .cpu import Cpu

HOST = Cpu()
ABSENT = AbsentBackend()


class ServingBackends:
    """What serves "cuda" (None: not yet asked for), and every backend by the type of its arrays."""

    cuda: Backend | None = None
    refusal: str = ""
    """Why nothing is to serve it that was not switched on here, if so."""
    by_array: dict[type, Backend] = {np.ndarray: HOST, AbsentArray: ABSENT}  # noqa: RUF012 (one table for the process)


def serve(backend: Backend | None) -> Backend | None:
    """Let a backend serve "cuda" from now on; return what did before. Its arrays are known ever after."""
    before = ServingBackends.cuda
    ServingBackends.cuda = backend
    if backend is not None:
        ServingBackends.by_array[backend.array] = backend
    return before
