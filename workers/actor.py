"""A worker as the process of an actor: a host behind remote calls.

Rules of this file: it runs in the worker's process and knows no backend. Whoever calls passes bytes and packed objects
and gets bytes and packed objects back; nothing is put into a store from here (DESIGN §7).
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raygrad.proto.program import Pinned
from raygrad.proto.values import Packed

from .base import failed_record
from .host import POISON, WorkerHost, packed_since
from .shipping import Shipment
from .threads import limit_blas
from .warned import WarningCollector
from .wire import Frame, Order, compact, decode_call, decode_order, decode_program, encode_record, pieces


class WorkerActor:
    """The actor: a host behind Ray's calls. Its methods answer with values, never with errors of user code."""

    def __init__(self, name: str, blas_threads: int) -> None:
        _leave_the_repository()
        importlib.import_module("raygrad.autograd")  # the catalogue of built-in ops
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(blas_threads)  # for libraries that are loaded later
        limit_blas(blas_threads)
        self._host = WorkerHost(name, WarningCollector())

    def hello(self, node_id: Callable[[], str]) -> tuple[int, str]:
        """Return the process id, and what `node_id` says here."""
        return os.getpid(), node_id()

    def pass_on(self, size: int, *_waited_for: Any) -> Any:
        """Return that many bytes once what it waits for is here: what calls and links cost is measured with it."""
        return np.zeros(size, np.uint8) if size else b""

    def load(self, key: bytes, program: Frame | bytes, code: Mapping[str, Shipment]) -> None:
        """Keep a program, and user code that it needs."""
        for fingerprint, shipment in code.items():
            self._host.learn(fingerprint, shipment)
        self._host.load(key, decode_program(pieces(program)))

    def run(self, order: Order | bytes, *references: Any) -> Any:
        """Carry out an order. The first references are the objects that it reads, the others it only waits for.

        Returns the record, a token if asked for, and as many objects as asked for.
        """
        started = time.perf_counter()
        frame, count, exports, with_token = decode_order(order)
        call = decode_call(pieces(frame))
        host = self._host
        try:
            objects = [host.unpack(packed) for packed in references[:count]]
            record, values = host.run(call, objects, time.perf_counter() - started)
            packing = time.perf_counter()
            packed = [host.pack(one) for one in values]
            answer = compact(encode_record(packed_since(record, packing)))
        except BaseException as error:  # also SystemExit, which would end the actor: the record says what happened
            seconds = time.perf_counter() - started
            answer = compact(encode_record(failed_record(call, host.name, os.getpid(), error, seconds)))
            packed = [POISON] * exports
        token = (b"",) if with_token else ()
        return (answer, *token, *packed) if token or packed else answer

    def fetch(self, run: int, value: int, *_tokens: Any) -> tuple[tuple[bool, int], Any]:
        """Return (whether it is there, its bytes) and, as an object, a pinned value."""
        try:
            found = self._host.fetch(run, value)
        except KeyError:  # the segment that was to pin it failed
            found = POISON
        if found is POISON:
            return (False, 0), POISON
        packed = self._host.pack([found])
        return (True, packed.nbytes if isinstance(packed, Packed) else 0), packed

    def unpin(self, values: Sequence[Pinned]) -> None:
        """Let go of pinned values."""
        self._host.unpin(values)


def _leave_the_repository() -> None:
    """Take raygrad's repository off the path, where Ray puts the driver's folder: `autograd` and `proto` are other
    projects' names too."""
    root = Path(__file__).resolve().parents[1]
    if (root / "proto" / "graph.py").exists() and root.name != "raygrad":
        sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != root]
