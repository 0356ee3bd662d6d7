"""The kinds of node of a graph: one frozen class each, with named fields for what it reads, makes and does.

All kinds begin with the same fields: `inputs`, `outputs`, `pin` and `near`. Besides, each has

- `fn`: the name of what it runs: of a built-in op, of user code ("@" and its fingerprint), else of the kind;
- `role`: the family of kinds to which it belongs, as plans count and measurements name them;
- `depth`: how many times what it runs is differentiated: 0, or of a vjp 1 and more.

A node that is not yet part of a graph begins with `UNPLACED`; `placed` gives it its values.

Value ids number the externals first (0 .. E-1), then the outputs of node 0, of node 1, ...; nodes are in a topological
order, so a node reads only smaller ids. `UNDEFINED` stands for a gradient that never arrives, or for an absent operand.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from .signatures import ObservedSignature

UNDEFINED: Final = -1
"""In the place of a value id: there is no such value."""

UNPLACED: Final[tuple[tuple[int, ...], tuple[int, ...], int, int]] = ((), (), -1, UNDEFINED)
"""The common fields of a node that is not yet part of a graph."""

ROLE_OP = "op"
ROLE_FUNCTION = "function"
ROLE_HOOK = "hook"
ROLE_SUM = "sum"
ROLE_EMIT = "emit"
ROLE_MEMORY = "memory"

VJP = "vjp"
"""What a node is called that computes a derivative, in texts."""

TO_DEVICE: Final = "to_device"
"""The built-in op that moves a value to another device; its vjp moves the gradient back."""

Ids: TypeAlias = tuple[int, ...]
Casting: TypeAlias = tuple[Any, ...]
"""The casting state of user code: () if it was recorded outside of all regions of `autocast`, else (1 if operands are
cast, name of the dtype, 1 if casts of leaves are kept); in the block of a device this, or (0, "", 0), and the name of
the device on which factories make tensors."""

_Kind = TypeVar("_Kind", bound=type)


def _distinct(kind: _Kind) -> _Kind:
    """Let nodes of a kind be equal only to nodes of that kind: tuples are equal whatever their classes."""

    base: Any = tuple

    def equal(self: Any, other: object) -> bool:
        return type(other) is kind and base.__eq__(self, other)

    def unequal(self: Any, other: object) -> bool:
        return not equal(self, other)

    setattr(kind, "__eq__", equal)  # noqa: B010 - a named tuple has no place for it in its body
    setattr(kind, "__ne__", unequal)  # noqa: B010
    setattr(kind, "__hash__", base.__hash__)  # noqa: B010
    return kind


class LeafGrads(NamedTuple):
    """The leaves of the client whose `.grad` user code meets and might read or change (H16).

    Their gradients are the last inputs of the node, `UNDEFINED` for none. Where they go home (of a vjp of the first
    order, and of a hook), what they then are is the last of its outputs.
    """

    places: tuple[tuple[tuple[int, int], ...], ...]
    """Per leaf, where the node meets it, as (what, number): see `raygrad.workers.interpreter.leaf_gradients`."""
    fate: int
    """What becomes of changes: see `raygrad.workers.interpreter.leaf_gradients`."""


# ---- built-in ops --------------------------------------------------------------------------------------------------


@_distinct
class OpCall(NamedTuple):
    """A built-in op on its operands, in declared order."""

    inputs: Ids
    """Tensors and constants; UNDEFINED for an operand that is absent."""
    outputs: Ids
    """Spec index of each output; their value ids follow those of the node before."""
    pin: int
    """Index of the worker that the user asked for, or -1."""
    near: int
    """A value id: the node must run on the worker that makes (or holds) that value; UNDEFINED for none."""
    fn: str
    """The op's name."""
    params: tuple[object, ...]
    """Static parameters, passed after the operands."""

    role = ROLE_OP
    depth = 0


@_distinct
class OpVjp(NamedTuple):
    """The derivative of a built-in op: reads the residuals that the op declares, in declared order, then one cotangent
    per output of the op; makes one gradient per wanted operand."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    params: tuple[object, ...]
    """The op's own."""
    wanted: tuple[int, ...]
    """Per operand, 1 if its gradient is wanted."""
    operand_specs: tuple[int, ...]
    """Per operand its spec index, -1 of what is no array."""
    result_specs: tuple[int, ...]
    """Spec index of each output of the op."""

    role = ROLE_OP
    depth = 1


# ---- user code -----------------------------------------------------------------------------------------------------


@_distinct
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
    """Per argument: 1 if it requires grad, 0 if not, -1 if it is no tensor."""
    recorded: bool
    """Forward is recorded for backward."""
    pure: bool
    """It may run a second time, since nothing but what it returns shows that it ran (H2)."""
    silent: bool
    """It runs a second time, unnoticed: what it emits was sent the first time."""
    expected: ObservedSignature | None
    """What earlier runs showed and this one has to show, too; None if nothing is known."""
    keywords: tuple[str, ...]
    """The names of the keyword-only arguments."""
    shared: tuple[Any, ...]
    """Where arguments share memory, what each is to it (`raygrad.workers.interpreter.arguments.Where`); else ()."""
    leaves: LeafGrads | None
    casting: Casting

    role = ROLE_FUNCTION
    depth = 0


class ObservedGradients(NamedTuple):
    """What earlier runs of a vjp showed of its gradients, by number among those that are wanted."""

    undefined: tuple[int, ...]
    differentiable: tuple[int, ...]
    """Those that require grad."""


@_distinct
class FunctionVjp(NamedTuple):
    """The derivative of a user Function, of any order (H7).

    It reads the context, then the inputs of level `depth`:
        I1 = cotangents (one per output), arguments, outputs;  I(k+1) = cotangents of O(k), I(k)
    where O1 = one gradient per argument and O(k+1) = one gradient per element of I(k). Absent ones are UNDEFINED (no
    tensor, a residual that was not saved, an undefined cotangent). Then come values of attributes that the client set
    on the context, then captured tensors and arrays. Where the result is differentiated, captured tensors that require
    grad count as further arguments, which get no gradient at level 1.

    It makes the context as backward left it (of level 1 only), then one gradient per wanted position of O(depth).
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
    """How many the Function has."""
    results: int
    """How many outputs its forward has."""
    wanted: tuple[int, ...]
    """Positions of O(depth)."""
    requires_grad: tuple[int, ...]
    """Positions of I(depth) that require grad."""
    differentiated: bool
    """The result is itself to be differentiated."""
    refusal: str
    """Why what was saved must not be read any more: reading it raises this."""
    expected: ObservedGradients | None
    """What earlier runs showed and the client went by. A differentiated vjp has to agree; another one reports the
    gradients that are undefined now and were not before."""
    retained: bool
    """What was saved is kept."""
    spared: bool
    """Without any cotangent nothing is run."""
    attributes: tuple[tuple[str, int], ...]
    """Per attribute that the client set on the context: (name, 1 if its value is a tensor)."""
    reports_effects: bool
    """It is to be reported what backward does with the context."""
    leaves: LeafGrads | None
    casting: Casting

    role = ROLE_FUNCTION


@_distinct
class HookCall(NamedTuple):
    """A hook of the user: reads `gradients` + `shown` gradients, then captured tensors and arrays; makes the first
    `gradients` of them, replaced or not."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    fn: str
    """ "@" and the fingerprint of the hook."""
    kind: str
    """ "tensor", "pre" (before a node, on its cotangents) or "post" (behind it, on the gradients of its inputs); "all"
    or "any" over several tensors, whose gradients it is shown and cannot replace."""
    gradients: int
    """How many it may replace."""
    shown: int
    """How many it sees besides: behind a node its cotangents, over several tensors all."""
    leaves: LeafGrads | None
    casting: Casting

    role = ROLE_HOOK
    depth = 0


# ---- gradients, checks and order -----------------------------------------------------------------------------------


@_distinct
class GradSum(NamedTuple):
    """The sum of two gradients, either of which may be undefined (H5, H19)."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "sum"
    depth = 0


@_distinct
class CheckDefined(NamedTuple):
    """Its one input, which must prove defined: the run fails if not, since somebody went by what earlier runs
    showed."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "defined"
    depth = 0


@_distinct
class CheckNotNan(NamedTuple):
    """Its one input, in which no element may be NaN."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    message: str
    """The text of the error otherwise."""

    role = ROLE_SUM
    fn = "no nan"
    depth = 0


@_distinct
class ControlDependency(NamedTuple):
    """Its first input, once the others are there."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "after"
    depth = 0


@_distinct
class Digest(NamedTuple):
    """A fingerprint of the bits of all its inputs."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_SUM
    fn = "digest"
    depth = 0


@_distinct
class CheckDigest(NamedTuple):
    """Its first input, a context whose forward was run again, if the second is the fingerprint of all others."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int
    function: str
    """The name of the Function, for the error otherwise."""

    role = ROLE_SUM
    fn = "agree"
    depth = 0


# ---- what leaves the graph -----------------------------------------------------------------------------------------


@_distinct
class Emit(NamedTuple):
    """What the client's own code sent to the session's handlers (H20): reads a constant, the name and the object,
    pickled without the tensors in it; then those tensors. It makes nothing."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_EMIT
    fn = "emit"
    depth = 0


@_distinct
class Spill(NamedTuple):
    """Writes a value to disk, on a worker with a limit: added by plans, never recorded. Makes what stands for the value
    while it is there: an array without bytes."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_MEMORY
    fn = "spill"
    depth = 0


@_distinct
class Load(NamedTuple):
    """Reads a spilled value back from disk: reads what stands for it, makes the value."""

    inputs: Ids
    outputs: Ids
    pin: int
    near: int

    role = ROLE_MEMORY
    fn = "load"
    depth = 0


Node: TypeAlias = (
    OpCall
    | OpVjp
    | FunctionCall
    | FunctionVjp
    | HookCall
    | GradSum
    | CheckDefined
    | CheckNotNan
    | ControlDependency
    | Digest
    | CheckDigest
    | Emit
    | Spill
    | Load
)

Vjp: TypeAlias = OpVjp | FunctionVjp
"""The kinds that compute derivatives: those of a `depth`."""

N = TypeVar("N", bound=Node)

_COMMON: Final = len(UNPLACED)
_make: Any = cast("Any", tuple).__new__


def placed(node: N, inputs: Ids, outputs: Ids, pin: int = -1, near: int = UNDEFINED) -> N:
    """Return the node with these common fields: most nodes of graphs and programs are made here."""
    return _make(type(node), (inputs, outputs, pin, near) + node[_COMMON:])  # noqa: RUF005 - half as fast otherwise


def transforms_of(node: Node) -> tuple[str, ...]:
    """Return what was done to what a node runs, the last first, as texts have it: ("vjp", "vjp")."""
    return (VJP,) * node.depth


def reruns(node: Node) -> bool:
    """Tell whether nobody notices that a node runs a second time: a rematerialised value may be made by it."""
    return isinstance(node, OpCall | OpVjp | GradSum) or (isinstance(node, FunctionCall) and node.pure)


def moves(node: Node) -> bool:
    """Tell whether a node moves a value, or its gradient, between devices."""
    return node.fn == TO_DEVICE
