"""Programs, calls and records: what a worker runs, one attempt at it, and what the attempt did.

A plan has one program per segment: a static list of steps over numbered slots, shipped once and named by a key. A
`Call` supplies its values. A `Record` is small and always returns, also when user code raised. Frozen data only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from .nodes import Node
from .specs import Spec

INLINE_RESULT_BYTES = 64 * 1024
"""A kept result up to this size is inlined in its segment's record (H14)."""

LONG_NODE_SECONDS = 50e-6
"""A node that takes this long or longer is timed by itself: ten times the overhead of a node, so that timing costs less
than the node."""


class Step(NamedTuple):
    """One node of the graph, with slots in the place of value ids."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph, which names it in records and errors, and orders emits."""
    node: Node
    """`inputs` and `near` hold slots here (UNDEFINED stays -1)."""
    outputs: tuple[int, ...]
    """Slot of each output; -1 if it is not requested."""
    frees: tuple[int, ...]
    """Slots whose last reader is this step."""


class Program(NamedTuple):
    """One segment, ready to run on any worker."""

    slots: int
    specs: tuple[Spec, ...]
    externals: tuple[tuple[int, int], ...]
    """(external of the graph, slot), in the order of `Call.externals`."""
    imports: tuple[tuple[int, ...], ...]
    """Per imported object of this run, the slot of each of its values (-1: not needed here)."""
    unpins: tuple[tuple[int, int, bool], ...]
    """(value id, slot, last): values that an earlier segment of this run pinned on this worker; `last` unpins it."""
    steps: tuple[Step, ...]
    exports: tuple[tuple[int, ...], ...]
    """Per returned object, the slots packed into it."""
    pins: tuple[tuple[int, int], ...]
    """(slot, value id): values pinned on this worker under (run, value id), for later segments or for the client."""
    results: tuple[tuple[int, int], ...]
    """(slot, value id): kept values, sent in the record when small (`INLINE_RESULT_BYTES`)."""
    open_base: int = -1
    """Value id of the first open-ended output (H3), or -1; they are pinned and reported in the record."""
    user_code: tuple[tuple[int, int], ...] = ()
    """(node index of a step that runs user code, that node in the graph that was submitted), in order of steps."""


class Pinned(NamedTuple):
    """A value that an earlier run pinned on the worker which runs the call."""

    run: int
    value: int


class Item(NamedTuple):
    """Value number `index` of the object passed as argument `argument` of the call."""

    argument: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


class Call(NamedTuple):
    """One attempt at one segment. Objects that it reads are separate arguments: `Program.imports` in order, then those
    that `Item`s name."""

    run: int
    segment: int
    attempt: int
    program: bytes
    externals: tuple[Any, ...]
    """One per `Program.externals`: a `Pinned`, an `Item`, or the value itself (array, or any constant)."""
    unpin: tuple[Pinned, ...] = ()
    """Pinned values that the worker releases."""
    headroom: tuple[tuple[str, int], ...] = ()
    """Headroom for other values: per limited memory ("cpu", "cuda:0"), the bytes of values of other runs that may stay
    there during the call; -1 for any. Values beyond that are spilled. The record reports the peak."""
    limits: tuple[tuple[str, int], ...] = ()
    """The limit of each such memory on the worker, in bytes, which unplanned allocations have to keep, too."""
    paths: tuple[tuple[Any, ...], ...] = ()
    """One per `Program.user_code`: the paths by which that code draws random numbers
    (`raygrad.autograd.core.random_streams`). Of a forward, its application's; of a vjp, its application's and those of
    the pass of each level; of a hook, its registration's and the pass's. () if nobody compares these numbers: then all
    code draws the same."""


INTERRUPTED: Final = -2
"""The index of a failure that is an interrupt: the thread that ran the segment has raised it already."""


class Failure(NamedTuple):
    """An error that user code (or raygrad) raised while a step ran."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph, -1 for an error around the steps, or INTERRUPTED, which never travels."""
    node: str
    shapes: tuple[str, ...]
    traceback: str
    exception: Any
    """The pickled exception: an opaque blob, opened by a client that trusts its workers."""
    type: str
    message: str


class FunctionObservation(NamedTuple):
    """The observed signature of a user Function (H3), of a step that had no expected one, or did not match it."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    outputs: tuple[tuple[str, Any], ...]
    """Per output: ("array", (shape, dtype, differentiable, an earlier output that is the same tensor or -1, where it
    comes from, layout)), or ("object", None), or ("fixed", a pickled object that every run returns); then ("tuple",
    1 if forward returned a tuple) and ("saves", 1 if it saved tensors)."""
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]


class CapturedWarning(NamedTuple):
    """A warning that user code issued while a step ran; one per text and source line."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph."""
    category: str
    """The name of the warning's type."""
    message: str
    filename: str
    line: int
    module: str
    """The name of the module for which it was issued, or empty."""
    warning: Any
    """The pickled warning: an opaque blob, opened by a client that trusts its workers."""


class Timing(NamedTuple):
    """Start of an attempt by its worker's clock, and the seconds of its phases and long nodes."""

    began: float = 0.0
    """The worker's monotonic clock at the arrival of the call. Clocks of two machines are unrelated."""
    inputs: float = 0.0
    """For input binding."""
    steps: float = 0.0
    """For running the nodes."""
    outputs: float = 0.0
    """For packing outputs."""
    nodes: tuple[tuple[int, float, float], ...] = ()
    """(node index, start since `began`, seconds) of each node that took `LONG_NODE_SECONDS` or more, without its waits
    for other threads."""
    waited: float = 0.0
    """The part of `steps` that was found to be waits for other threads of the process."""


class OutputFingerprints(NamedTuple):
    """What steps that ran user code returned, by a fingerprint of 64 bits of each output (H2): see
    `raygrad.workers.values.fingerprints`. In columns, which a run that nothing disturbs passes on as they are."""

    nodes: tuple[int, ...] = ()
    """The node index of each step."""
    counts: tuple[int, ...] = ()
    """Its number of outputs."""
    fingerprints: tuple[int, ...] = ()
    """Those of all outputs, one step's after the other's; 0 stands for what has none."""

    def by_node(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield each node with the fingerprints of its outputs."""
        found = iter(self.fingerprints)
        for node, count in zip(self.nodes, self.counts, strict=True):
            yield node, tuple(islice(found, count))


NO_FINGERPRINTS: Final = OutputFingerprints()


class Record(NamedTuple):
    """The outcome of one attempt at a segment."""

    run: int
    segment: int
    attempt: int
    worker: str
    pid: int
    seconds: float
    status: str
    """"done", "failed" (see `failure`) or "skipped" (an input was poisoned by an earlier failure)."""
    exports: tuple[tuple[int, int], ...]
    """Per returned object: (bytes, bytes of saved tensors and contexts among them)."""
    results: tuple[tuple[int, Any], ...]
    """(value id, value) of small kept results; undefined is None."""
    sizes: tuple[tuple[int, int], ...]
    """(value id, bytes) of every value that an open-ended node made (H3); -1 bytes when it is undefined."""
    observations: tuple[FunctionObservation, ...]
    undefined: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    """Per vjp of a user Function that differs from its node: (node index, undefined outputs, outputs that require grad)
    (H5, H7). An output i whose derivative user code refuses (`once_differentiable`) is ~i among the last."""
    emits: tuple[tuple[int, int, str, Any], ...]
    """(node index, ordinal within the node, name, pickled value)."""
    hooks: tuple[int, ...]
    """Node indices of the hooks that fired here."""
    failure: Failure | None = None
    warned: tuple[CapturedWarning, ...] = ()
    """Warnings of user code, if the worker is a process of its own; the client's process issues them directly."""
    timing: Timing = Timing()
    peaks: tuple[tuple[str, int], ...] = ()
    """(memory, bytes): the peak of live values on the worker during the attempt, in host memory ("cpu") and on each
    device, other runs included; only for a call with limited memory."""
    fingerprints: OutputFingerprints = NO_FINGERPRINTS
    """Those of user code, if the worker may be lost."""
