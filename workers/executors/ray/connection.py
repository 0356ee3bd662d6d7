"""This process's connection to Ray, shared by its executors: find, join or start a Ray, and read its statistics.

The only file that imports Ray, and only on request. No actors, no calls. A Ray that was running before is never shut
down."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from raygrad.errors import BackendUnavailable, ExecutionError

from .authentication import authenticate

CONNECT_DEADLINE: Final = 5.0
"""Seconds for a Ray at a given address to accept a connection; Ray itself would try for a minute."""


def ray_module() -> Any:
    """Return the Ray module.

    Raises:
        BackendUnavailable: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise BackendUnavailable(
            "this session needs Ray, which is not installed: pip install 'raygrad[ray]'", name="ray"
        ) from error


def node_id() -> str:
    """Return Ray's id of the node that this process is on."""
    return str(ray_module().get_runtime_context().get_node_id())


def node_and_gpus() -> tuple[str, tuple[str, ...]]:
    """Return Ray's id of this process's node, and the node's ids of the GPUs that this process was given."""
    context = ray_module().get_runtime_context()
    return str(context.get_node_id()), tuple(map(str, context.get_accelerator_ids().get("GPU", ())))


def may_grow() -> bool:
    """Tell whether nodes may join the connected Ray: not if this process started it."""
    worker = importlib.import_module("ray._private.worker")
    return worker._global_node is None or not worker._global_node.is_head()


@dataclass(slots=True)
class _Connection:
    """This process's connection to Ray, shared by its executors."""

    users: int = 0
    owned: bool = False
    """Whether this process connected (and perhaps started Ray), so that the last user disconnects."""
    lock: threading.Lock = field(default_factory=threading.Lock)


_connection = _Connection()


def connect(address: str, cpus: int, object_store_memory: int | None, gpus: int | None = None) -> None:
    """Connect this process to Ray as `address` says, or start one with so many CPUs and GPUs, None for those that the
    machine has. Undone by `disconnect`.

    Raises:
        BackendUnavailable: Ray is not installed.
        ExecutionError: no Ray is running at the address.
        ValueError: this process is connected to another Ray.
    """
    ray = ray_module()
    with _connection.lock:
        wanted = address.partition(":")[2]
        if ray.is_initialized():
            connected = ray.get_runtime_context().gcs_address
            if wanted and _resolved(wanted) != _resolved(connected):
                raise ValueError(f"this process is connected to the Ray at {connected}, and cannot use {wanted} too")
        else:
            os.environ.setdefault(
                "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
            )  # Ray's coming default, without its warning
            found = "" if wanted else _running_ray()
            wanted = wanted or found
            if wanted:
                _check_reachable(wanted)
                authenticate(wanted, found=bool(found) and os.environ.get("RAY_ADDRESS", "") in ("", "auto"))
                ray.init(address=wanted, logging_level=logging.ERROR, namespace=_namespace())
            else:
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    num_gpus=gpus,
                    include_dashboard=False,
                    logging_level=logging.ERROR,
                    namespace=_namespace(),
                    object_store_memory=object_store_memory,
                )
            _connection.owned = True
        _connection.users += 1


def disconnect() -> None:
    with _connection.lock:
        _connection.users -= 1
        if _connection.users == 0 and _connection.owned:
            _connection.owned = False
            ray_module().shutdown()  # ends a Ray that we started; from any other it only disconnects


def _namespace() -> str:
    return f"raygrad-{os.getpid()}"


def _running_ray() -> str:
    """Return the address of the running Ray: RAY_ADDRESS, or the last `ray start`; else ""."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto"):
        utils = importlib.import_module("ray._private.utils")
        address = utils.read_ray_address() or ""
        try:
            if address:
                _check_reachable(address)
        except ExecutionError:  # left behind by a Ray that is gone
            return ""
    return "" if address == "local" else address


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal():
        raise ExecutionError(f"'{address}' is not HOST:PORT of a running Ray (Ray Client is not used: it is too slow)")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_DEADLINE).close()
    except OSError as error:
        raise ExecutionError(f"no Ray answers at {address} ({error}); start one, or check host and port") from error


def _resolved(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    try:
        return socket.gethostbyname(host), port
    except OSError:
        return host, port


def store_statistics() -> dict[str, int]:
    """Return the statistics of Ray's object stores, summed over the live nodes: `objects` and `bytes_used` in
    memory, `bytes_primary` (of them, not cached copies), `bytes_spilled`. Small objects (up to 100 KB) are in no store:
    they live in their owner's memory.

    Raises:
        ExecutionError: this process is not connected to Ray.
    """
    ray = ray_module()
    if not ray.is_initialized():
        raise ExecutionError("this process is not connected to Ray")
    internal = importlib.import_module("ray._private.internal_api")
    total = {"objects": 0, "bytes_used": 0, "bytes_primary": 0, "bytes_spilled": 0}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        reply = internal.node_stats(node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False)
        stats = reply.store_stats
        total["objects"] += stats.num_local_objects
        total["bytes_used"] += stats.object_store_bytes_used
        total["bytes_primary"] += stats.object_store_bytes_primary_copy
        total["bytes_spilled"] += stats.spilled_bytes_total - stats.restored_bytes_total
    return total
