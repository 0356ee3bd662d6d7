"""The numerics class of a worker: libraries, versions and instruction sets that determine the bits of results (H12).

Actors report it at startup; the planner compares classes (`scheduler.model.numerics_class`)."""

from __future__ import annotations

import platform
from typing import Any, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from raygrad.autograd.devices.serving import backend_if_installed
from raygrad.scheduler.model.numerics_class import Numerics


def numerics() -> Numerics:
    """Return the numerics classes of this process: of the host, and of its GPUs if it serves any."""
    found = [("cpu", ", ".join([platform.machine(), _numpy(), *_blas()]))]
    backend = backend_if_installed()
    if backend is not None and backend.count():
        found.append((backend.kind, backend.numerics()))
    return tuple(found)


def _numpy() -> str:
    config = cast("Any", np.show_config(mode="dicts"))
    simd = config["SIMD Extensions"]
    return f"NumPy {np.__version__} with {'+'.join([*simd['baseline'], *simd.get('found', ())])}"


def _blas() -> list[str]:
    """Return the loaded BLAS libraries with version, core and number of threads."""
    libraries = [
        f"{one.internal_api} {one.version} for {getattr(one, 'architecture', None) or 'any core'} x {one.num_threads}"
        for one in ThreadpoolController().lib_controllers
        if one.user_api == "blas"
    ]
    return sorted(set(libraries))
