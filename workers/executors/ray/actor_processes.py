"""Lifecycle of worker processes as Ray actors: start with resources, versions, identification, GPUs, death.

The Ray executor starts its workers here; calls go through `channel`. Ray retries and restarts nothing."""

from __future__ import annotations

import importlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from raygrad.autograd.devices.serving import is_simulated, simulated_memory
from raygrad.errors import DeviceError, DiskFull, ExecutionError
from raygrad.scheduler.model.numerics_class import Numerics
from raygrad.tracebacks import users_level

from ...process.gpu_assignment import number_gpus
from ...process.versions import compare_versions, version_teller
from .actor import CONTROL_GROUP, MAX_CONCURRENT_CALLS, WorkerActor
from .cluster_resources import (
    Amounts,
    NodeResources,
    amounts_of,
    bundles_to_place,
    describe_nodes,
    inside_a_group,
    missing_resources,
    read_actors,
    read_nodes,
    read_queued,
)
from .connection import may_grow, node_and_gpus, ray_module
from .placement_groups import check_placement

START_DEADLINE: Final = 60.0
"""Seconds in which one worker has to come up, while some have not: a process takes one or two, importing NumPy
included."""

QUIET_SECONDS: Final = 3.0
"""Seconds for which workers may wait for resources before a warning says so: Ray tells what waits a second later."""

HELLO_DEADLINE: Final = 10.0
"""Seconds to read an answer that Ray says has arrived."""

CLOSE_DEADLINE: Final = 10.0
"""Seconds for killed worker processes to be gone."""


@dataclass(slots=True)
class ActorProcess:
    """An actor and its process."""

    name: str
    actor: Any
    actor_id: str
    pid: int = 0
    node_id: str = ""
    gpus: tuple[int, ...] = ()
    """The session's numbers of the GPUs that it serves."""
    numerics: Numerics = ()
    lost: bool = False
    hello: Any = None
    """Where the process was started later, and nobody has waited for it: the reference of what it says first."""

    served: Any = None
    """The reference of what `serve` has answered there."""

    def process_id(self, timeout: float = START_DEADLINE) -> int:
        """Return the process id; 0 if the process is not there by the deadline."""
        if not self.pid and self.hello is not None:
            ray = ray_module()
            try:
                self.pid, _ = ray.get(self.hello, timeout=timeout)
            except (ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
                return 0
        return self.pid


def start_workers(
    options: Sequence[Mapping[str, Any]],
    blas_threads: int,
    placement_group: Any,
    made: list[Any],
    *,
    simulated: bool = False,
    memory: int | None = None,
    required: bool = False,
) -> list[ActorProcess]:
    """Start an actor with each of these options and wait until they answer. `made` gets each actor as soon as it
    exists. Actors that Ray gives GPUs serve them: `simulated` ones with `memory` bytes, if so. If that is `required`,
    an actor that cannot raises.

    Raises:
        ExecutionError: the nodes have too little for them, they do not come up before the deadline, or they cannot
            import raygrad or run another version.
        DeviceError: there are not so many GPUs, or a worker cannot serve those that it was given.
        TypeError, ValueError: see `check_placement`.
    """
    check_gpus(options)
    if placement_group is not None:
        check_placement(placement_group, options)
    warned = check_resources(options, placement_group)
    workers = _make_actors(options, blas_threads, placement_group, made)
    ray = ray_module()
    hellos = [worker.actor.hello.remote(_whereabouts()) for worker in workers]
    if not warned:
        _warn_if_waiting(hellos, workers, options, placement_group)
    given: list[tuple[str, tuple[str, ...]]] = []
    told: list[dict[str, str]] = []
    for worker, own, hello in zip(workers, options, _all_of(hellos, workers, options, placement_group), strict=True):
        try:
            worker.pid, ((worker.node_id, gpus), versions) = ray.get(hello, timeout=HELLO_DEADLINE)
        except ray.exceptions.RayError as error:
            _check_versions([worker], [_versions_without_actor(own)])
            raise ExecutionError(
                f"{worker.name} did not start ({error_line(error)}); raygrad must be installed for the Python of Ray's "
                "workers, or named in runtime_env"
            ) from error
        given.append((worker.node_id, gpus))
        told.append(versions)
    _check_versions(workers, told)
    numbers = number_gpus(given)
    answers = [worker.actor.serve.remote(own, simulated, memory) for worker, own in zip(workers, numbers, strict=True)]
    for worker, own, answer in zip(workers, numbers, _all_of(answers, workers, options, placement_group), strict=True):
        missing, worker.numerics = ray.get(answer, timeout=HELLO_DEADLINE)
        if missing and required:
            raise DeviceError(f"{worker.name} on node {worker.node_id} cannot serve a GPU: {missing}")
        worker.gpus = () if missing else own
    return workers


def _make_actors(
    options: Sequence[Mapping[str, Any]], blas_threads: int, placement_group: Any, made: list[Any]
) -> list[ActorProcess]:
    """Have Ray start the actors, and do not wait for them."""
    workers: list[ActorProcess] = []
    for number, own in enumerate(options):
        worker = _make_actor(number, own, blas_threads, placement_group)
        made.append(worker.actor)
        workers.append(worker)
    return workers


def _make_actor(
    number: int, own: Mapping[str, Any], blas_threads: int, placement_group: Any, node: str = ""
) -> ActorProcess:
    """Have Ray start an actor, on `node` if that is given, and do not wait for it."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    chosen = {
        **own,
        "max_restarts": 0,
        "max_task_retries": 0,
        "allow_out_of_order_execution": True,
        "max_concurrency": MAX_CONCURRENT_CALLS,
        "concurrency_groups": {CONTROL_GROUP: 1},
    }
    if placement_group is not None:
        chosen["scheduling_strategy"] = strategies.PlacementGroupSchedulingStrategy(
            placement_group, placement_group_bundle_index=number
        )
    elif node:
        chosen["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    name = f"worker {number}"
    actor = ray_module().remote(**chosen)(WorkerActor).remote(name, blas_threads)
    return ActorProcess(name, actor, actor._actor_id.hex())


def restart_worker(
    before: ActorProcess, number: int, options: Sequence[Mapping[str, Any]], blas_threads: int, placement_group: Any
) -> ActorProcess:
    """Start an actor in the place of one that has died, on its node if that is there, and do not wait for it, unless it
    serves GPUs: no call may come before."""
    alive = any([node["Alive"] and node["NodeID"] == before.node_id for node in ray_module().nodes()])
    worker = _make_actor(number, options[number], blas_threads, placement_group, before.node_id if alive else "")
    worker.node_id, worker.gpus, worker.numerics = before.node_id, before.gpus, before.numerics
    worker.hello = worker.actor.hello.remote(_whereabouts())
    worker.served = worker.actor.serve.remote(before.gpus, is_simulated(), simulated_memory())
    if before.gpus:
        ray_module().get(worker.served, timeout=START_DEADLINE)
    return worker


def ask_for_worker(options: Mapping[str, Any], blas_threads: int) -> ActorProcess:
    """Have Ray start an actor when it has what these options ask for, and do not wait for it: `hello` is what it
    answers then."""
    worker = _make_actor(0, options, blas_threads, None)
    worker.hello = worker.actor.hello.remote(_whereabouts())
    return worker


def take_hello(worker: ActorProcess, name: str) -> Any:
    """Take in what an actor that was asked for has answered, give it its name, and have it get ready; return the
    reference of its answer to that, for `take_ready`.

    Raises:
        ExecutionError: it did not start, or runs other versions.
    """
    ray = ray_module()
    try:
        worker.pid, ((worker.node_id, _), versions) = ray.get(worker.hello, timeout=HELLO_DEADLINE)
    except ray.exceptions.RayError as error:
        raise ExecutionError(f"a worker that was to join did not start ({error_line(error)})") from error
    worker.name, worker.hello = name, None
    _check_versions([worker], [versions])
    return worker.actor.serve.remote((), is_simulated(), simulated_memory(), name)


def take_ready(worker: ActorProcess, answer: Any) -> None:
    """Take in that an actor is ready.

    Raises:
        ExecutionError: it has died.
    """
    ray = ray_module()
    try:
        _, worker.numerics = ray.get(answer, timeout=HELLO_DEADLINE)
    except ray.exceptions.RayError as error:
        raise ExecutionError(f"{worker.name}, which was to join, died ({error_line(error)})") from error


def _whereabouts() -> Callable[[], tuple[tuple[str, tuple[str, ...]], dict[str, str]]]:
    """Return what workers call first: where they are, and the versions that they run."""
    tell = version_teller()
    return lambda: (node_and_gpus(), tell())


def _versions_without_actor(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions where a worker with these options did not start, since another raygrad may have another
    actor; {} if they cannot be told, or no raygrad is there."""
    ray = ray_module()
    there = {name: options[name] for name in ("runtime_env", "label_selector") if options.get(name)}
    try:
        told = ray.get(ray.remote(num_cpus=0, **there)(version_teller()).remote(), timeout=HELLO_DEADLINE)
    except ray.exceptions.RayError:
        return {}
    return told if "raygrad" in told else {}


def _check_versions(workers: Sequence[ActorProcess], told: Sequence[Mapping[str, str]]) -> None:
    """Check that workers run the versions of this process, as far as they are told.

    Raises:
        ExecutionError: one of them does not.
    """
    warned = ""
    for worker, there in zip(workers, told, strict=True):
        must, should = compare_versions(there) if there else ("", "")
        if must:
            raise ExecutionError(
                f"{worker.name} runs other software than this process: {must}; install the same on all nodes of Ray, "
                "or name it in Session(runtime_env=...)"
            )
        if should and not warned:
            warned = f"{worker.name} runs other software than this process, which may refuse user code: {should}"
    if warned:
        warnings.warn(warned, RuntimeWarning, stacklevel=users_level())


def check_resources(options: Sequence[Mapping[str, Any]], placement_group: Any = None) -> bool:
    """Check that the nodes have room for workers, or for the placement group that they are to be in, unless it is
    placed; return whether a warning says that others hold it, and who.

    Raises:
        ExecutionError: the nodes have too little, whoever holds it, and no others can come.
    """
    asked = amounts_of(options) if placement_group is None else bundles_to_place(placement_group)
    nodes = read_nodes()
    missing = missing_resources(asked, [node.total for node in nodes])
    if missing and not may_grow():
        raise ExecutionError(
            f"the nodes of this Ray do not have what the workers ask for: {missing}; ask for fewer with "
            "Session(workers=...) or for less with Session(worker_options=...), or start Ray with more. There is"
            f"{describe_nodes(nodes, asked)}"
        )
    if not missing and (placement_group is not None or not inside_a_group(options)):
        missing = missing_resources(asked, [node.free() for node in nodes])
    if missing:
        _warn_of_wait(missing, nodes, asked)
    return bool(missing)


def _warn_of_wait(missing: str, nodes: Sequence[NodeResources], asked: Counter[Amounts]) -> None:
    warnings.warn(
        f"this session waits for resources of Ray, {START_DEADLINE:.0f} s at most for each worker: {missing}. There is"
        f"{describe_nodes(nodes, asked)}",
        RuntimeWarning,
        stacklevel=users_level(),
    )


def check_gpus(options: Sequence[Mapping[str, Any]]) -> None:
    """Check that a Ray that cannot grow has the GPUs that workers request: Ray would wait for them in vain.

    Raises:
        DeviceError: there are too few.
    """
    if _gpus_in(options) > ray_module().cluster_resources().get("GPU", 0.0) and not may_grow():
        raise _too_few(options)


def _warn_if_waiting(
    answers: Sequence[Any],
    workers: Sequence[ActorProcess],
    options: Sequence[Mapping[str, Any]],
    placement_group: Any,
) -> None:
    """Warn of workers that soon have still not got their resources."""
    limit = min(QUIET_SECONDS, START_DEADLINE)
    if not ray_module().wait(answers, num_returns=len(answers), timeout=limit)[1]:
        return
    waiting = _without_resources(workers, options, placement_group)
    if waiting:
        nodes = read_nodes()
        why = missing_resources(waiting, [node.free() for node in nodes]) or "tasks may hold what they ask for"
        _warn_of_wait(f"{waiting.total()} of {len(options)} workers wait for a node ({why})", nodes, waiting)


def _all_of(
    answers: Sequence[Any],
    workers: Sequence[ActorProcess],
    options: Sequence[Mapping[str, Any]],
    placement_group: Any,
) -> Sequence[Any]:
    """Wait for the answers of all workers and return them. Many workers take long to start on few CPUs, one by one.

    Raises:
        ExecutionError: some do not come, and none has come for as long as the deadline.
        DeviceError: for want of GPUs.
    """
    ray = ray_module()
    began = time.monotonic()
    count, missing = -1, list(answers)
    while missing and len(answers) - len(missing) > count:
        count = len(answers) - len(missing)
        ray.wait(answers, num_returns=count + 1, timeout=START_DEADLINE)
        _, missing = ray.wait(answers, num_returns=len(answers), timeout=0)
    if not missing:
        return answers
    if _gpus_in(options) > ray.cluster_resources().get("GPU", 0.0):
        raise _too_few(options)
    waiting = _without_resources(workers, options, placement_group)
    starting = len(missing) - waiting.total()
    why = [f"{waiting.total()} wait for resources"] if waiting else []
    why += [f"{starting} have a node, on which they are still starting"] if starting > 0 else []
    raise ExecutionError(
        f"{count} of {len(answers)} workers came up within {time.monotonic() - began:.0f} s, and none in the last "
        f"{START_DEADLINE:.0f} s; {', '.join(why)}. There is"
        f"{describe_nodes(read_nodes(), waiting or amounts_of(options))}"
    )


def _without_resources(
    workers: Sequence[ActorProcess], options: Sequence[Mapping[str, Any]], placement_group: Any
) -> Counter[Amounts]:
    """Return what those workers ask for that wait for it, or what their placement group does."""
    if placement_group is not None:
        return bundles_to_place(placement_group)
    alive = {actor.actor_id.hex() for actor in read_actors() if actor.pid}
    pending = amounts_of([own for worker, own in zip(workers, options, strict=True) if worker.actor_id not in alive])
    return pending & read_queued()


def _gpus_in(options: Sequence[Mapping[str, Any]]) -> float:
    return sum([float(own.get("num_gpus") or 0) for own in options])


def _too_few(options: Sequence[Mapping[str, Any]]) -> DeviceError:
    """Return the error for workers that request more GPUs than there are."""
    there = ray_module().cluster_resources().get("GPU", 0.0)
    asking = [own["num_gpus"] for own in options if own.get("num_gpus")]
    return DeviceError(
        f"{len(asking)} of the {len(options)} workers ask for {_gpus_in(options):g} GPUs together, and the nodes of "
        f"this Ray have {there:g}: ask for fewer with Session(gpus=...), for a part of one each with "
        "worker_options={'num_gpus': 0.5}, or start Ray on machines that have them (for simulated GPUs with logical "
        f"ones: ray.init(num_gpus={-(-_gpus_in(options) // 1):g}))"
    )


def as_execution_error(error: Exception) -> ExecutionError:
    """Return an error of Ray other than a dead actor as an ExecutionError."""
    cause = getattr(error, "cause", None)
    inner = f"{type(cause).__name__}: {cause}" if cause is not None else error_line(error)
    if any([type(one).__name__ == "OutOfDiskError" for one in (error, cause)]):
        return DiskFull(
            f"Ray's object store is full, and so is the disk that it spills to: {inner}; free some of it and run this "
            "again, or start Ray with another spill folder or a larger object_store_memory"
        )
    return ExecutionError(f"Ray could not run or read it: {inner}")


def error_line(error: Exception) -> str:
    """Return the line of a Ray error that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "died" in line or "dead" in line or "Error" in line]
    return f"{type(error).__name__}: {(telling or lines or ['no message'])[-1]}"


def wait_until_gone(pids: Sequence[int]) -> None:
    """Wait until processes of this machine have ended, or the deadline has passed."""
    deadline = time.monotonic() + CLOSE_DEADLINE
    left = list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if is_alive(pid)]
        if left:
            time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
