"""Nodes of user code: the forward of a Function, its derivatives of any order, and hooks.

User code is named by "@" and its fingerprint, and shipped beside the graph.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias, cast

from .node_base import ROLE_FUNCTION, ROLE_HOOK, Ids, distinct
from .signatures import ObservedSignature

Settings: TypeAlias = tuple[tuple[Any, ...], ...]
"""The settings under which user code was recorded (DR-10): () if all are as a program finds them at its start, else an
entry (name, *values) for each other one, in the order of this table:

- ("casting", 1 if operands are cast, name of the dtype, 1 if casts of leaves are kept) in a region of `autocast`; in
  the block of a device these, or 0, "", 0, and the name of the device on which factories make tensors
- ("default dtype", name)
- ("anomaly", 1 if it looks for NaN)
- ("inference",)
- ("one thread",): passes never go on on another thread
- ("errors", divide, over, under, invalid, size of the buffer): see `numpy.seterr` and `numpy.setbufsize`
- ("error handler", code): see `numpy.seterrcall`; the name of user code ("@" and its fingerprint)
- ("formatter", kind of element, code), any number of them, and ("print", option, value): see `numpy.set_printoptions`
- ("warnings", number, filters): the filters of the client's `warnings`, if they are not those with which the session
  began; see `raygrad.workers.code.warning_filters`
"""

_LENGTHS: Final = {
    "casting": (4, 5),
    "default dtype": (2,),
    "anomaly": (2,),
    "inference": (1,),
    "one thread": (1,),
    "errors": (6,),
    "error handler": (2,),
    "formatter": (3,),
    "print": (3,),
    "warnings": (3,),
}


def is_setting(entry: Any) -> bool:
    """Tell whether something is an entry of `Settings`, by its name and its number of values."""
    if not isinstance(entry, tuple) or not entry:
        return False
    values = cast("tuple[Any, ...]", entry)
    return len(values) in _LENGTHS.get(values[0], ())


def device_in(settings: Settings) -> str:
    """Return the device in whose block user code was recorded; "" outside of all such blocks."""
    for entry in settings:
        if entry[0] == "casting" and len(entry) > 4:
            return entry[4]
    return ""


def code_in(settings: Settings) -> list[str]:
    """Return the names of user code in settings."""
    return [entry[-1] for entry in settings if entry[0] in ("error handler", "formatter")]


class LeafGrads(NamedTuple):
    """The leaves of the client whose `.grad` is borrowed: user code might read or change it (H16).

    Their gradients are the last inputs of the node, `UNDEFINED` for none. A vjp of the first order and a hook return
    them to the client as their last outputs.
    """

    places: tuple[tuple[tuple[int, int], ...], ...]
    """Per leaf, where user code reaches it, as (what, number): see `raygrad.workers.interpreter.leaf_gradients`."""
    fate: int
    """What happens to changed gradients: see `raygrad.workers.interpreter.leaf_gradients`."""


@distinct
class FunctionCall(NamedTuple):
    """The forward of a user Function: reads its arguments in order (tensors or constants), keyword-only arguments
    (constants), then captured tensors and arrays; makes the context, then forward's outputs."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    """ "@" and the fingerprint of the Function."""
    requires_grad: tuple[int, ...]
    """Per argument: if it requires grad, one more than which output of its node it is; 0 if not, -1 if it is no tensor.
    """
    recorded: bool
    """Whether forward is recorded for backward."""
    pure: bool
    """Whether it may run again: it has no effects besides its outputs (H2)."""
    impure: bool
    """Whether a second run may return something else, so that all that was computed from the first has to be computed
    again after it (H2)."""
    silent: bool
    """Whether it is a silent replay: its emits are suppressed, since the first run sent them."""
    expected: ObservedSignature | None
    """The observed signature of earlier runs, which this run has to match; None if there is none."""
    keywords: tuple[str, ...]
    """The names of the keyword-only arguments."""
    shared: tuple[Any, ...]
    """The aliasing of arguments that share memory (`raygrad.workers.interpreter.arguments.Where`); else ()."""
    leaves: LeafGrads | None
    settings: Settings

    role = ROLE_FUNCTION
    depth = 0


class ObservedGradients(NamedTuple):
    """The gradients that earlier runs of a vjp returned, by number among the wanted ones."""

    undefined: tuple[int, ...]
    """Those that were undefined."""
    differentiable: tuple[int, ...]
    """Those that required grad."""


@distinct
class FunctionVjp(NamedTuple):
    """The derivative of a user Function, of any order (H7).

    It reads the context, then the inputs of level `depth`:
        I1 = cotangents (one per output), arguments, outputs;  I(k+1) = cotangents of O(k), I(k)
    where O1 = one gradient per argument and O(k+1) = one gradient per element of I(k). Absent ones are UNDEFINED (no
    tensor, a residual that was not saved, an undefined cotangent). Values of attributes that the client set on the
    context follow, then captured tensors and arrays. If the result is differentiated, captured tensors that require
    grad count as further arguments, which get no gradient at level 1.

    It makes the context as backward left it (level 1 only), then one gradient per wanted position of O(depth).
    """

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    depth: int
    """The level: 1 for the user's backward, 2 for its derivative, ..."""
    items: int
    """The length of I(depth)."""
    arguments: int
    """The number of arguments of the Function."""
    results: int
    """The number of outputs of its forward."""
    wanted: tuple[int, ...]
    """Positions of O(depth)."""
    requires_grad: tuple[int, ...]
    """Positions of I(depth) that require grad."""
    differentiated: bool
    """Whether the result is itself differentiated."""
    refusal: str
    """The error message on reading saved tensors that were freed or changed; "" if they may be read."""
    expected: ObservedGradients | None
    """The gradients of earlier runs, by which the client recorded. A differentiated vjp has to match them; another one
    reports gradients that are undefined now and were defined before."""
    retained: bool
    """Whether saved tensors are kept after it (`retain_graph`)."""
    spared: bool
    """Whether backward is skipped if all cotangents are undefined."""
    attributes: tuple[tuple[str, int], ...]
    """Per attribute that the client set on the context: (name, 1 if its value is a tensor)."""
    reports_effects: bool
    """Whether the run reports how backward changed the context."""
    leaves: LeafGrads | None
    settings: Settings

    role = ROLE_FUNCTION


@distinct
class HookCall(NamedTuple):
    """A hook of the user: reads `gradients` + `shown` gradients, then captured tensors and arrays; makes the first
    `gradients` gradients, replaced or not."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    """ "@" and the fingerprint of the hook."""
    kind: str
    """ "tensor", "pre" (before a node, on its cotangents), "post" (after it, on the gradients of its inputs), or "all"
    or "any" over several tensors, whose gradients it reads and cannot replace."""
    gradients: int
    """The number of gradients that it may replace."""
    shown: int
    """The number of gradients that it only reads: after a node the cotangents, over several tensors all."""
    leaves: LeafGrads | None
    settings: Settings

    role = ROLE_HOOK
    depth = 0
