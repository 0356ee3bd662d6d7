"""Programs of `ensemble_programs.py` run by Dask futures, and by torch's rpc with distributed autograd.

Each runs in a process of its own, with two workers of its own, and takes a step when it is asked to: so neither its
threads nor its imports disturb the others. Both are optional; who is not installed is not measured.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false

from __future__ import annotations

import importlib.util
import multiprocessing
import socket
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from ensemble_by_hand import Evaluate, stepping
from ensemble_programs import Grads, Outcome, Program
from measure import elsewhere

WORKERS: Final = 2
PATIENCE: Final = 120.0
"""Seconds in which a rival has to start, or to take a step."""

_here: dict[str, Program] = {}
"""The program that this worker runs, under the key "program"."""


class Rival:
    """A process that takes steps of programs by another system."""

    def __init__(self, name: str, serve: Callable[[Connection], None]) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, serve), name=name)
        self._process.start()
        theirs.close()

    def answer(self) -> Any:
        """Return the answer to what was asked last; the first says that the workers are there."""
        if not self._pipe.poll(PATIENCE):
            raise TimeoutError(f"{self.name} has not answered for {PATIENCE:.0f} s")
        answer = self._pipe.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def begin(self, program: Program) -> None:
        """Make the workers ready for the steps of a program."""
        self._pipe.send(program)
        self.answer()

    def step(self) -> tuple[float, Outcome]:
        """Take the next step of the program; return its seconds and what it gave."""
        self._pipe.send(None)
        return self.answer()

    def close(self) -> None:
        """End the process and its workers."""
        self._pipe.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def rivals() -> Generator[tuple[list[Rival], list[tuple[str, str]]]]:
    """Start those that are installed; give them, and for each that is not there its name and why."""
    started: list[Rival] = []
    ready: list[Rival] = []
    missing: list[tuple[str, str]] = []
    try:
        for name, package, serve in (("Dask futures", "distributed", by_dask), ("torch rpc", "torch", by_torch)):
            if importlib.util.find_spec(package) is None:
                missing.append((name, f"{package} is not installed"))
            else:
                started.append(Rival(name, serve))
        for rival in started:
            try:
                rival.answer()
                ready.append(rival)
            except (RuntimeError, TimeoutError, EOFError) as error:
                missing.append((rival.name, f"did not start: {error}"))
        yield ready, missing
    finally:
        for rival in started:
            rival.close()


# ---- in the rival's process ----------------------------------------------------------------------------------------


def _serve(pipe: Connection, serve: Callable[[Connection], None]) -> None:
    """Serve steps until the benchmark closes its end."""
    with elsewhere():
        try:
            serve(pipe)
        except (EOFError, BrokenPipeError):
            return
        except BaseException as error:
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
            raise


def _take_steps(pipe: Connection, install: Callable[[Program], Evaluate]) -> None:
    """Answer the benchmark: a program makes the workers ready, None takes a step of it."""
    pipe.send("ready")
    step: Callable[[], Outcome] | None = None
    while True:
        asked = pipe.recv()
        if asked is not None:
            step = stepping(asked, install(asked))
            pipe.send("ready")
            continue
        if step is None:
            raise RuntimeError("a step was asked for before a program")
        start = time.perf_counter()
        outcome = step()
        pipe.send((time.perf_counter() - start, outcome))


def _install(program: Program) -> None:
    """Make a worker ready."""
    program.prepare()
    _here["program"] = program


# ---- Dask ----------------------------------------------------------------------------------------------------------


def by_dask(pipe: Connection) -> None:
    """Serve steps by futures of a local cluster: one for each branch, one for each addition of two gradients."""
    distributed: Any = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def install(program: Program) -> Evaluate:
            client.run(_install, program)

            def evaluate(leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
                sent = client.scatter(leaves, broadcast=True, hash=False)
                branches = [
                    client.submit(_branch, index, factor, *sent, pure=False) for index, factor in enumerate(factors)
                ]
                terms = [client.submit(_second, branch, pure=False) for branch in reversed(branches)]
                while len(terms) > 1:
                    pairs = zip(terms[::2], terms[1::2], strict=False)
                    added = [client.submit(_added, one, two, pure=False) for one, two in pairs]
                    terms = [*added, *terms[len(added) * 2 :]]
                losses = [client.submit(_first, branch, pure=False) for branch in branches]
                return client.gather(losses), client.gather(terms[0])

            return evaluate

        _take_steps(pipe, install)


def _branch(index: int, factor: float, *leaves: Any) -> tuple[float, Grads]:
    return _here["program"].branch(list(leaves), index, factor)


def _first(pair: tuple[float, Grads]) -> float:
    return pair[0]


def _second(pair: tuple[float, Grads]) -> Grads:
    return pair[1]


def _added(one: Grads, two: Grads) -> Grads:
    return [np.add(a, b) for a, b in zip(one, two, strict=True)]


# ---- torch ---------------------------------------------------------------------------------------------------------


def by_torch(pipe: Connection) -> None:
    """Serve steps by rpc: forward of each branch is a call of its worker, backward is distributed autograd's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_torch_worker, args=(rank, port), daemon=True) for rank in range(1, WORKERS + 1)]
    for worker in workers:
        worker.start()
    rpc = _joined("client", 0, port)
    torch: Any = importlib.import_module("torch")
    autograd: Any = importlib.import_module("torch.distributed.autograd")
    names = [f"worker{rank}" for rank in range(1, WORKERS + 1)]

    def install(program: Program) -> Evaluate:
        for name in names:
            rpc.rpc_sync(name, _install, args=(program,))

        def evaluate(leaves: Grads, factors: Sequence[float]) -> tuple[Sequence[float], Grads]:
            tensors = [torch.from_numpy(leaf).requires_grad_() for leaf in leaves]
            count = program.branches
            with autograd.context() as context_id:
                calls = [
                    rpc.rpc_async(names[index * WORKERS // count], _torch_branch, args=(index, factor, *tensors))
                    for index, factor in enumerate(factors)
                ]
                losses = [call.wait() for call in calls]
                autograd.backward(context_id, [torch.stack(losses).sum()])
                grads = autograd.get_gradients(context_id)
                return [loss.item() for loss in losses], [grads[tensor].numpy() for tensor in tensors]

        return evaluate

    try:
        _take_steps(pipe, install)
    finally:
        rpc.shutdown()
        for worker in workers:
            worker.join(30)


def _joined(name: str, rank: int, port: int) -> Any:
    """Return torch's rpc, after this process has joined."""
    warnings.filterwarnings("ignore", message="You are using a Backend", category=UserWarning)  # torch's own use
    torch: Any = importlib.import_module("torch")
    rpc: Any = importlib.import_module("torch.distributed.rpc")
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=2,
        init_method=f"tcp://127.0.0.1:{port}",
        rpc_timeout=PATIENCE,
        _transports=["uv"],  # that of shared memory polls all the time, and would slow whoever else is measured
    )
    rpc.init_rpc(name, rank=rank, world_size=WORKERS + 1, rpc_backend_options=options)
    return rpc


def _torch_worker(rank: int, port: int) -> None:
    with elsewhere():
        _joined(f"worker{rank}", rank, port).shutdown()  # waits for the client's


def _torch_branch(index: int, factor: float, *leaves: Any) -> Any:
    """Return the loss of a branch, on its worker."""
    return _torch_function().apply(index, factor, *leaves)


def _torch_function() -> Any:
    """Return the autograd Function of a branch, made once."""
    if "function" not in _made:
        torch: Any = importlib.import_module("torch")

        class TorchBranch(torch.autograd.Function):
            """One branch: leaves to loss."""

            @staticmethod
            def forward(ctx: Any, index: int, factor: float, *leaves: Any) -> Any:
                loss, ctx.kept = _here["program"].forward([leaf.numpy() for leaf in leaves], index, factor)
                return torch.tensor(loss, dtype=torch.float64)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                grads = _here["program"].backward(ctx.kept)
                return None, None, *(torch.from_numpy(one) * grad for one in grads)

        _made["function"] = TorchBranch
    return _made["function"]


_made: dict[str, Any] = {}
"""The autograd Function of this process, under the key "function"."""
