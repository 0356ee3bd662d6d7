"""The errors of raygrad. A leaf: imports nothing of the package, open to every room.

Each derives from `RaygradError` and from the builtin that PyTorch (or Python) raises in that place, so that
`except RuntimeError` keeps working. All carry fields and survive pickling.

    RaygradError
      AutogradError (RuntimeError)      the autograd contract: freed buffers, wrong gradients, in-place changes
        MissingDerivative (NotImplementedError)
        CheckpointError               a second run that did not what the first did
        GradcheckError                gradcheck found a derivative that is wrong
        NoSingleValue                   a number or an array requested of a tensor inside vmap
        LinAlgError                   a matrix that cannot be inverted or factorised
      GraphError (RuntimeError)         a graph that cannot be recorded or run
        MissingKernel (NotImplementedError)  an operation that a dtype does not have
        ShapeError (RuntimeError)       operands that do not fit, found while recording
        DtypeError (TypeError)
      ProtocolError (ValueError)        bytes that violate the protocol
      SchedulerError (RuntimeError)     the planner or the state machine
        PlanError (ValueError)          no worker can run a node
        InvalidTransition               a bug of ours: a segment got an event it cannot take
        InvariantViolation
      ExecutionError (RuntimeError)     a run did not finish
        NumericsError                   workers may give different bits for the same node (H12)
        ImpureFunctionError             a Function that was run again did not return the same bits
        RemoteError                     user code raised, and its own exception could not be rebuilt here
        WorkerLost                      a worker process died
        DroppedError                    a value was dropped because an earlier failure reached it
          RunCancelled                  ... or because its run was cancelled, or one from which it reads
        WaitTimeout (TimeoutError)
        DeadlineExceeded (TimeoutError) a node, a segment or a run took longer than it may
        DiskFull (OSError)              what does not fit into memory does not fit on disk either
        OverBudget (MemoryError)        a node by itself needs more than the memory of its worker
      SessionError (RuntimeError)       a session used after close, two sessions mixed, a value of another session
        NotShippable (TypeError)        code or a constant that cannot travel to a worker
      BackendUnavailable (ImportError)  an extra is not installed; the message names it
      DeviceError (RuntimeError, ValueError)  a name of no device, or a device that is not here
      OutOfDeviceMemory (RuntimeError, MemoryError)  a device has no memory left for a result
      SaveError (TypeError)             something that a file cannot hold; the message names its path
      LoadError (RuntimeError)          a file that is damaged, foreign, or does not fit what it is loaded into
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class RaygradError(Exception):
    """The root of all errors that raygrad itself raises. The first argument is the message, the others are fields."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class AutogradError(RaygradError, RuntimeError):
    """The autograd contract was broken by the program."""


class MissingDerivative(AutogradError, NotImplementedError):
    """No derivative is defined where one is needed."""


class CheckpointError(AutogradError):
    """A checkpointed function, run again for backward, saved other tensors than it did the first time."""


class GradcheckError(AutogradError):
    """`gradcheck` found a derivative that is wrong.

    Attributes: kind: which check failed: "formula", "determinism", "undefined gradients", "linearity", "dtype",
    "batched gradients" or "graph".
    """

    def __init__(self, message: str = "", kind: str = "") -> None:
        super().__init__(message, kind)
        self.kind = kind


class NoSingleValue(AutogradError):
    """A number or an array was requested of a batched tensor inside vmap."""


class LinAlgError(AutogradError):
    """A matrix that cannot be inverted or factorised: singular, not positive definite, or without convergence in
    LAPACK."""


class GraphError(RaygradError, RuntimeError):
    """A graph that cannot be recorded or run."""


class ShapeError(GraphError):
    """Operands whose shapes do not fit each other."""


class MissingKernel(GraphError, NotImplementedError):
    """An operation is not defined for operands of this dtype."""


class DtypeError(RaygradError, TypeError):
    """An operand of a type that the operation does not take."""


class ProtocolError(RaygradError, ValueError):
    """Bytes or messages that violate the protocol."""


class SchedulerError(RaygradError, RuntimeError):
    """The planner or the state machine cannot go on."""


class PlanError(SchedulerError, ValueError):
    """No plan exists: a node that no worker can run.

    Attributes:
        nodes: of the graph, those that the message names, each as (index, what it is called there).
        workers: the indices of those whose memory is too small for what is to run there, if that is why.
        needs: (worker, "memory" or "gpu_memory", bytes) of each limit that is too low, with one that would do.
    """

    def __init__(
        self,
        message: str,
        nodes: tuple[tuple[int, str], ...] = (),
        workers: tuple[int, ...] = (),
        needs: tuple[tuple[int, str, int], ...] = (),
    ) -> None:
        super().__init__(message, nodes, workers, needs)
        self.nodes = nodes
        self.workers = workers
        self.needs = needs

    def with_more(self, text: str) -> PlanError:
        """Return the same error with more at the end of its message."""
        return PlanError(str(self) + text, self.nodes, self.workers, self.needs)

    def call_nodes(self, name_of: Callable[[int], str]) -> None:
        """Call the nodes of the graph something else in the message: what the user calls them."""
        message = str(self)
        named = tuple([(index, name_of(index)) for index, _ in self.nodes])
        for (_, before), (_, now) in zip(self.nodes, named, strict=True):
            message = message.replace(before, now)
        self.args = (message, named, self.workers, self.needs)
        self.nodes = named


class CostsError(SchedulerError, ValueError):
    """A costs file that is invalid, damaged, or of another version."""


class InvalidTransition(SchedulerError):
    """A segment received an event that its state does not allow: a bug in raygrad.

    Attributes: key, state, event, story (what happened to the segment before, oldest first).
    """

    def __init__(self, key: object, state: object, event: object, story: tuple[str, ...] = ()) -> None:
        super().__init__(key, state, event, story)
        self.key, self.state, self.event, self.story = key, state, event, story

    def __str__(self) -> str:
        story = "".join(f"\n    {line}" for line in self.story)
        return f"segment {self.key} in state {self.state} cannot take {self.event}; its story:{story or ' none'}"


class InvariantViolation(SchedulerError):
    """An invariant of the state machine does not hold: a bug in raygrad."""


class ExecutionError(RaygradError, RuntimeError):
    """A run did not finish."""


class NumericsError(ExecutionError):
    """Workers of one session may give different bits for the same node."""


class NumericsWarning(RuntimeWarning):
    """A warning instead of `NumericsError`, in a session that accepts different bits."""


class ImpureFunctionError(ExecutionError):
    """A Function was run again, and did not return the same bits while those of its first run are in use.

    Attributes: function (its name).
    """

    def __init__(self, message: str = "", function: str = "") -> None:
        super().__init__(message, function)
        self.function = function


class RemoteError(ExecutionError):
    """User code raised on a worker and its exception could not be rebuilt here.

    Attributes: type_name, remote_traceback.
    """

    def __init__(self, message: str, type_name: str = "", remote_traceback: str = "") -> None:
        super().__init__(message, type_name, remote_traceback)
        self.type_name, self.remote_traceback = type_name, remote_traceback


class WorkerLost(ExecutionError):
    """A worker process died, and what was lost with it cannot be made again, or was too often. Attributes: worker."""

    def __init__(self, message: str, worker: str = "") -> None:
        super().__init__(message, worker)
        self.worker = worker


class DroppedError(ExecutionError):
    """The value was dropped, because a failure reached the submission that makes it."""


class RunCancelled(DroppedError):
    """The value was not computed, because its run was cancelled: by `run.cancel()`, `session.cancel()` or Ctrl-C."""


class DeadlineExceeded(ExecutionError, TimeoutError):
    """A node, a segment or a run took longer than `node_timeout`, `segment_timeout` or `run_timeout` allow.

    Attributes: scope ("node", "segment" or "run"), where (the node and the user's line), seconds, limit, worker.
    """

    def __init__(
        self, message: str, scope: str = "", where: str = "", seconds: float = 0.0, limit: float = 0.0, worker: str = ""
    ) -> None:
        super().__init__(message, scope, where, seconds, limit, worker)
        self.scope, self.where, self.seconds, self.limit, self.worker = scope, where, seconds, limit, worker


class WaitTimeout(ExecutionError, TimeoutError):
    """A wait passed its deadline."""


class DiskFull(ExecutionError, OSError):
    """What was to be put on disk, since memory has no room for it, does not fit there. What was stored before stays
    readable, and the session goes on once there is room.

    Attributes: folder (where it was to go), needed (bytes).
    """

    def __init__(self, message: str = "", folder: str = "", needed: int = 0) -> None:
        super().__init__(message, folder, needed)
        self.errno = errno.ENOSPC
        self.folder, self.needed = folder, needed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.folder, self.needed)


class SessionError(RaygradError, RuntimeError):
    """A session used in a way it does not allow: after close, or mixed with another."""


class ServiceError(SessionError):
    """A service refused something, or cannot be reached any more. Attributes: code, a short name of the reason."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class NotShippable(SessionError, TypeError):
    """Code or a constant that cannot travel to a worker; the message names the captured variable."""


class BackendUnavailable(RaygradError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class DeviceError(RaygradError, RuntimeError, ValueError):
    """A name that is not a device's, or a device that is missing; the message lists the available ones."""


class OverBudget(ExecutionError, MemoryError):
    """A node whose inputs and outputs alone exceed the memory limit that the session gives a worker.

    Attributes: device (the memory: "cpu", "cuda:0"), limit, needed (bytes).
    """

    def __init__(self, device: str, limit: int, needed: int) -> None:
        option = "memory" if device == "cpu" else "gpu_memory"
        super().__init__(
            f"what it reads, makes and saves holds {needed:,} bytes at once, and the session has {option}={limit}: no "
            f"order of other nodes makes room for that. Give it at least {option}={needed}, save less for backward "
            "(ctx.save_for_backward, attributes of ctx), or work in smaller parts"
        )
        self.device, self.limit, self.needed = device, limit, needed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.device, self.limit, self.needed)


class OutOfDeviceMemory(RaygradError, RuntimeError, MemoryError):
    """A device has too little memory left for a result."""


class SaveError(RaygradError, TypeError):
    """A value that a file cannot hold; the message names where it stands, and what to do.

    Attributes: path: the keys and indices that lead to it.
    """

    def __init__(self, message: str = "", path: tuple[Any, ...] = ()) -> None:
        super().__init__(message, path)
        self.path = path


class LoadError(RaygradError, RuntimeError):
    """A file that is damaged, of another program, or does not fit what it is loaded into."""
