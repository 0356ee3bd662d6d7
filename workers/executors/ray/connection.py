"""This process's connection to Ray, shared by its executors: find, join or start a Ray, and read its statistics.

The only file that imports Ray, and only on request. No actors, no calls. A Ray that was running before is never shut
down. A connection belongs to the process that made it, and ends with `ray.shutdown()`, whoever calls that."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import logging
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from raygrad.errors import BackendUnavailable, ExecutionError, SessionError
from raygrad.tracebacks import users_level

from ...process.single_thread_executor import SingleThreadExecutor
from .authentication import authenticate

CONNECT_DEADLINE: Final = 5.0
"""Seconds for a Ray at a given address to accept a connection; Ray itself would try for a minute."""


MOST_PER_CPU: Final = 8
"""CPUs for which workers of a new Ray may ask per CPU of this process without a warning."""


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
    """Tell whether nodes may join the connected Ray unasked: whether an autoscaler starts nodes for it."""
    worker = importlib.import_module("ray._private.worker")
    if worker._global_node is None or worker._global_node.is_head():
        return False
    config = importlib.import_module("ray._private.state").state.get_cluster_config()
    if config is not None and config.node_group_configs:
        return True
    status = importlib.import_module("ray.experimental.internal_kv")._internal_kv_get("__autoscaling_status")
    report: dict[str, Any] = (json.loads(status).get("autoscaler_report") if status else None) or {}
    kinds: dict[str, int] = {**(report.get("active_nodes") or {}), **(report.get("idle_nodes") or {})}
    return not all([kind.startswith("node_") for kind in kinds])  # without an autoscaler each node is its own kind


def object_nodes(references: Sequence[Any]) -> dict[Any, frozenset[str]]:
    """Return the ids of the nodes whose object stores hold each of some objects, as far as this process, which owns
    them, knows. Objects in this process's memory are nowhere."""
    locations = importlib.import_module("ray.experimental.locations").get_local_object_locations(list(references))
    return {one: frozenset(found.get("node_ids") or ()) for one, found in locations.items()}


def objects_nowhere(references: Sequence[Any]) -> set[Any]:
    """Return those of some objects which are in no object store, nor on the disk of one, as far as this process knows,
    which owns them: they are in this process's memory, or gone."""
    locations = importlib.import_module("ray.experimental.locations").get_local_object_locations(list(references))
    return {one for one, found in locations.items() if not found.get("node_ids") and not found.get("did_spill")}


RAY_SHUT_DOWN: Final = (
    "Ray was shut down under this session (`ray.shutdown()` was called in this process), and its workers and their "
    "values are gone; open a new session, and leave it to the session to disconnect from Ray"
)


def _client_state() -> Any:
    """Return the state of Ray's client in this process."""
    return importlib.import_module("ray._private.worker").global_worker


@dataclass(slots=True, eq=False)
class RayConnection:
    """This process's connection to one Ray, from `connect` to the last `disconnect`."""

    owned: bool
    """Whether this process connected (and perhaps started Ray), so that the last user disconnects."""
    node: Any
    """What Ray's client makes anew with each connection."""
    state: Any
    """The state of Ray's client, which is one for the process."""
    users: int = 0

    @property
    def alive(self) -> bool:
        """Whether this process is still connected, and to the same Ray."""
        return self.state.connected and self.state.node is self.node


@dataclass(slots=True)
class _Process:
    """What this process has to do with Ray."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: RayConnection | None = None
    """The latest."""
    starter: SingleThreadExecutor | None = None
    """A thread that lives as long as the process, and starts Ray for threads that may end before."""
    connected_parent: int = 0
    """The process that this one was forked from, if that one had used Ray."""


_process = _Process()


def connect(address: str, cpus: int, object_store_memory: int | None, gpus: int | None = None) -> RayConnection:
    """Connect this process to Ray as `address` says, or start one with so many CPUs and GPUs, None for those that the
    machine has. Undone by `disconnect`.

    Raises:
        BackendUnavailable: Ray is not installed.
        ExecutionError: no Ray is running at the address, or the one that this process is connected to is gone.
        SessionError: this process was forked from one that used Ray.
        ValueError: this process is connected to another Ray.
    """
    ray = ray_module()
    with _process.lock:
        if _process.connected_parent:
            raise _forked(f"process {_process.connected_parent}")
        wanted = address.partition(":")[2]
        owned = not ray.is_initialized()
        if owned:
            _join_or_start(ray, wanted, cpus, object_store_memory, gpus)
        else:
            listener = getattr(_client_state(), "listener_thread", None)
            if listener is not None and not listener.is_alive():
                raise _forked("another")
            connected = ray.get_runtime_context().gcs_address
            if wanted and _resolved(wanted) != _resolved(connected):
                raise ValueError(f"this process is connected to the Ray at {connected}, and cannot use {wanted} too")
            try:
                _check_reachable(connected)
            except ExecutionError as error:
                raise ExecutionError(
                    f"the Ray at {connected}, to which this process is connected, is gone ({error.__cause__}): call "
                    "ray.shutdown(), then open the session again"
                ) from error
        current = _process.connection
        if current is None or not current.alive:
            state = _client_state()
            current = _process.connection = RayConnection(owned, state.node, state)
        current.users += 1
        return current


def _join_or_start(ray: Any, wanted: str, cpus: int, object_store_memory: int | None, gpus: int | None) -> None:
    """Connect to the Ray at an address, or to the running one, or start one."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default, without its warning
    options: dict[str, Any] = {"logging_level": logging.ERROR, "namespace": _namespace()}
    wanted = ray_to_join(wanted)
    if wanted:
        options |= {"address": wanted}
    else:
        here = len(os.sched_getaffinity(0))
        if cpus > MOST_PER_CPU * here:
            warnings.warn(
                f"this session starts a Ray here for workers that ask for {cpus} CPUs together, and this process has "
                f"{here}: they share these, and take long to start",
                RuntimeWarning,
                stacklevel=users_level(),
            )
        options |= {
            "address": "local",
            "num_cpus": cpus,
            "num_gpus": gpus,
            "include_dashboard": False,
            "object_store_memory": object_store_memory,
        }
    try:
        _on_lasting_thread(lambda: ray.init(**options))
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise
        raise ExecutionError(f"the Ray at {wanted} runs another version of Ray or Python: {error}") from error


def ray_to_join(wanted: str) -> str:
    """Return the HOST:PORT of the Ray that a session joins: `wanted`, or the running one; "" if it starts its own.

    Raises:
        ExecutionError: no Ray answers there, or it would not admit this process.
    """
    found = "" if wanted else _running_ray()
    address = wanted or found
    if address:
        _check_reachable(address)
        authenticate(address, found=bool(found) and os.environ.get("RAY_ADDRESS", "") in ("", "auto"))
    return address


def _on_lasting_thread(function: Callable[[], object]) -> None:
    """Call a function on a thread that does not end before the process: Ray's processes die with the thread that
    started them."""
    if threading.current_thread() is threading.main_thread():
        function()
        return
    if _process.starter is None:
        _process.starter = SingleThreadExecutor("raygrad-ray-starter")
    _process.starter.call(function)


def disconnect(connection: RayConnection) -> None:
    with _process.lock:
        connection.users -= 1
        if connection.users == 0 and connection.owned and connection.alive:
            ray_module().shutdown()  # ends a Ray that we started; from any other it only disconnects


# ---- forked processes ------------------------------------------------------------------------------------------------


def _forked(parent: str) -> SessionError:
    return SessionError(
        f"process {os.getpid()} was forked from {parent}, which had used Ray, and Ray does not work in forked "
        "processes: start it with the method 'spawn' (multiprocessing.get_context('spawn')), or open a session in this "
        "process, Session('local')"
    )


def _leave_to_parent() -> None:
    """Forget, in a forked process, the connection of its parent: what Ray registered to be done when the process ends,
    or when handles die, would end the parent's workers or wait for threads that are not here."""
    global _process
    connection, parent = _process.connection, _process.connected_parent
    _process = _Process(connected_parent=parent)
    if connection is None:
        return
    _process.connected_parent = os.getppid()
    state = connection.state
    if connection.users and connection.alive:
        client = sys.modules["ray._private.worker"]
        atexit.unregister(client.shutdown)
        kept = [state, client._global_node, sys.modules["ray._private.state"].state]
        kept.append(getattr(sys.modules.get("ray.experimental.internal_kv"), "global_gcs_client", None))
        for one in kept:  # never destroyed, nor what they hold: that would wait for threads
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        if client._global_node is not None:
            client._global_node.all_processes = {}  # those that its handler at exit kills
        state.set_is_connected(False)
        state.set_mode(None)
        libc: Any = ctypes.CDLL(None)
        if getattr(libc, "on_exit", None) is not None:
            libc.on_exit(libc._exit, None)  # with the same status, before Ray's library ends what threads use


os.register_at_fork(after_in_child=_leave_to_parent)


# ---- addresses and statistics ----------------------------------------------------------------------------------------


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
    """Return host and port by which addresses can be compared: all names of this machine are one, since Ray knows by
    its own address what was joined at 127.0.0.1."""
    host, _, port = address.rpartition(":")
    try:
        host = socket.gethostbyname(host)
    except OSError:
        return host, port
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))  # possible for addresses of this machine only
        except OSError:
            return host, port
    return "localhost", port


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
