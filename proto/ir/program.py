"""What a worker is told: programs (cached by hash, shipped once), calls that run them, records that come back.

Rules of this file: frozen data only. A program is the part of a plan that one worker runs as one unit: a static
list of steps over numbered slots. It knows no values; a `Call` supplies them. A `Record` is small and always
comes back, also when the user's code raised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .nodes import Node
from .specs import Spec

INLINE_RESULT_BYTES = 64 * 1024
"""A kept result up to this size rides in its segment's record (H14)."""


LONG_NODE_SECONDS = 50e-6
"""A node that takes as long as this is timed by itself: ten times what running any node costs, so that what is told of
a node does not cost more than the node."""


class Step(NamedTuple):
    """One node of the graph, with slots in the place of value ids."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph: names it in records and errors, and orders emits."""
    node: Node
    """`inputs` and `near` hold slots here (UNDEFINED stays -1)."""
    outputs: tuple[int, ...]
    """Slot of each output; -1 for one that nobody reads."""
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
    """(value id, slot, last): values that an earlier segment of this run pinned on this worker; `last` drops it."""
    steps: tuple[Step, ...]
    exports: tuple[tuple[int, ...], ...]
    """Per returned object, the slots packed into it."""
    pins: tuple[tuple[int, int], ...]
    """(slot, value id): values pinned on this worker under (run, value id), for later segments or for the client."""
    results: tuple[tuple[int, int], ...]
    """(slot, value id): kept values, sent in the record when small (`INLINE_RESULT_BYTES`)."""
    open_base: int = -1
    """Value id of the first open-ended output (H3), or -1; they are pinned and reported in the record."""


class Pinned(NamedTuple):
    """A value that an earlier run pinned on the worker which runs the call."""

    run: int
    value: int


class Item(NamedTuple):
    """Value number `index` of the object passed as argument `argument` of the call."""

    argument: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


class Call(NamedTuple):
    """One attempt at one segment. The objects it reads are passed beside it, as arguments of their own:
    first `Program.imports` in order, then those that `Item`s name."""

    run: int
    segment: int
    attempt: int
    program: bytes
    externals: tuple[Any, ...]
    """One per `Program.externals`: a `Pinned`, an `Item`, or the value itself (array, or any constant)."""
    unpin: tuple[Pinned, ...] = ()
    """Pinned values that nobody needs any more."""
    beside: tuple[tuple[str, int], ...] = ()
    """Where memory is limited, for each ("cpu", "cuda:0"), how many bytes of values that the call does not read, of
    other runs, may be there meanwhile; -1 for any. What is more waits on disk; the record says what values held."""
    limits: tuple[tuple[str, int], ...] = ()
    """The bytes of each such memory, where it is limited on the worker: what was not foreseen has to keep to them."""


class Failure(NamedTuple):
    """The user's code (or ours) raised while a step ran."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph, or -1."""
    node: str
    shapes: tuple[str, ...]
    traceback: str
    exception: Any
    """The pickled exception: an opaque blob, opened by a client that trusts its workers."""
    type: str
    message: str


class Learned(NamedTuple):
    """What running a user Function showed (H3): one entry per step that was not known before, or disagreed."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    outputs: tuple[tuple[str, Any], ...]
    """Per output: ("array", (shape, dtype, differentiable, an earlier output that is the same tensor or -1, where it
    comes from, layout)), or ("object", None), or ("fixed", a pickled object that every run returns); then ("tuple",
    1 if forward returned a tuple) and ("saves", 1 if it saved tensors)."""
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]


class Warned(NamedTuple):
    """User code issued a warning while a step ran; told once for each text and place."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The node's index in its graph."""
    category: str
    """The name of its type."""
    message: str
    filename: str
    line: int
    module: str
    """The name of the module that it was issued for, or empty."""
    warning: Any
    """The pickled warning: an opaque blob, opened by a client that trusts its workers."""


class Timing(NamedTuple):
    """When an attempt ran, by the clock of its worker, and what took how long, in seconds."""

    began: float = 0.0
    """The worker's monotonic clock when the call came. Clocks of two machines have nothing in common."""
    inputs: float = 0.0
    """To take in what the call brings and reads."""
    steps: float = 0.0
    """To run the nodes."""
    outputs: float = 0.0
    """To pack what it returns."""
    nodes: tuple[tuple[int, float, float], ...] = ()
    """(node index, start counted from `began`, seconds) of each node that took `LONG_NODE_SECONDS` or more,
    without what it waited for other threads."""
    waited: float = 0.0
    """Of `steps`, what went to waiting for other threads of the process, as far as it was found."""

    @property
    def ended(self) -> float:
        """The worker's clock when what it returns was packed."""
        return self.began + self.inputs + self.steps + self.outputs


class Record(NamedTuple):
    """What one attempt did."""

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
    learned: tuple[Any, ...]
    undefined: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    """Per vjp of a user Function that shows what its node does not say: (node index, undefined outputs, outputs that
    require grad): H5, H7. An output i whose derivative the user's code refuses (`once_differentiable`) is ~i among the
    last."""
    emits: tuple[tuple[int, int, str, Any], ...]
    """(node index, ordinal within the node, name, pickled value)."""
    hooks: tuple[int, ...]
    """Node indices of the hooks that fired here."""
    failure: Failure | None = None
    warned: tuple[Warned, ...] = ()
    """Warnings of user code, where the worker is a process of its own; elsewhere they come out as they are."""
    timing: Timing = Timing()
    peaks: tuple[tuple[str, int], ...] = ()
    """(memory, bytes): the most that values on the worker held while it ran in host memory ("cpu") and on each device,
    those of other runs too, if the call asked for it."""
