"""GPU assignment: how many GPUs each worker asks for, and the session-wide numbers of those that it serves (H11).

Ray gives each process some GPUs of its node, and shows it no others. A session numbers the GPUs of all its workers, in
their order, so that "cuda:1" is one GPU wherever it is named. Workers that were each given a part of the same GPU serve
it under one number. Ray itself is not called here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from raygrad.autograd.devices.numbered import RenumberedBackend
from raygrad.autograd.devices.serving import backend_for_kind, disable_cuda, is_simulated, serve
from raygrad.autograd.devices.simulated.simulated_device import StandIn
from raygrad.errors import DeviceError

MOST_GPUS: Final = 128
"""The most GPUs of a session: PyTorch keeps the number of a device in a signed byte, as names of devices do here."""


def resource_requests(workers: int, gpus: int | None, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the Ray options of each worker: the first `gpus` workers request a GPU, or the share that `worker_options`
    state, and the others none. None leaves all workers alike."""
    if gpus is None:
        return [dict(options) for _ in range(workers)]
    share = options.get("num_gpus") or 1
    return [{**options, "num_gpus": share if number < gpus else 0} for number in range(workers)]


def logical_gpus(asked: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the number of GPUs for starting a Ray for these workers, if they are simulated; None lets Ray find those
    of the machine."""
    return math.ceil(sum([float(own.get("num_gpus") or 0) for own in asked])) if is_simulated() else None


def number_gpus(given: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[int, ...]]:
    """Return the session's numbers of each worker's GPUs, from its node and the node's ids of the GPUs given to it.

    Raises:
        DeviceError: they are too many.
    """
    known: dict[tuple[str, str], int] = {}
    numbers = [tuple([known.setdefault((node, own), len(known)) for own in ids]) for node, ids in given]
    if len(known) > MOST_GPUS:
        raise DeviceError(f"the workers of this session were given {len(known)} GPUs; it can tell {MOST_GPUS} apart")
    return numbers


def serve_gpus(worker: str, numbers: Sequence[int], simulated: bool, memory: int | None = None) -> str:
    """Let this process serve the GPUs that it was given, and no others, under these numbers. With `simulated`,
    simulated devices with `memory` bytes serve instead. Return why that is impossible, or ""."""
    serve(None)
    disable_cuda("")
    reason = f"{worker} of this session serves no GPU; name 'cuda' in the `devices` of what is to run on one"
    missing = ""
    if numbers:
        try:
            backend = StandIn(len(numbers), memory=memory) if simulated or is_simulated() else backend_for_kind("cuda")
            if backend.count() != len(numbers):
                raise DeviceError(
                    f"it was given {len(numbers)} of the GPUs of its node, and sees {backend.count()} (is "
                    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES set?)"
                )
        except DeviceError as error:
            missing = str(error)
        else:
            serve(RenumberedBackend(backend, numbers))
            return ""
        reason = f"{worker} of this session serves none: {missing}"
    disable_cuda(reason)
    return missing
