"""The kinds of node of a graph: one frozen class each, with named fields for what it reads, makes and does.

Graphs and programs are made of these nodes; other rooms import all kinds from here. All kinds begin with the same
fields: `inputs`, `outputs`, `pin` and `near`. Besides, each has

- `fn`: the name of what it runs: of a built-in op, of user code ("@" and its fingerprint), else of the kind;
- `role`: the family of kinds to which it belongs, as plans count and measurements name them;
- `depth`: how many times what it runs is differentiated: 0, or of a vjp 1 and more.

A node that is not yet part of a graph begins with `UNPLACED`; `placed` gives it its values.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar, cast

from .function_nodes import (
    FunctionCall,
    FunctionVjp,
    HookCall,
    LeafGrads,
    ObservedGradients,
    Settings,
    code_in,
    device_in,
    is_setting,
)
from .node_base import (
    ROLE_EMIT,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_MEMORY,
    ROLE_OP,
    ROLE_SUM,
    TO_DEVICE,
    UNDEFINED,
    UNPLACED,
    VJP,
    Ids,
)
from .op_nodes import (
    OpCall,
    OpVjp,
)
from .runtime_nodes import (
    CheckDefined,
    CheckDigest,
    CheckNotNan,
    ControlDependency,
    Digest,
    Emit,
    GradSum,
    Load,
    Spill,
)

__all__ = [
    "ROLE_EMIT",
    "ROLE_FUNCTION",
    "ROLE_HOOK",
    "ROLE_MEMORY",
    "ROLE_OP",
    "ROLE_SUM",
    "TO_DEVICE",
    "UNDEFINED",
    "UNPLACED",
    "VJP",
    "CheckDefined",
    "CheckDigest",
    "CheckNotNan",
    "ControlDependency",
    "Digest",
    "Emit",
    "FunctionCall",
    "FunctionVjp",
    "GradSum",
    "HookCall",
    "Ids",
    "LeafGrads",
    "Load",
    "Node",
    "ObservedGradients",
    "OpCall",
    "OpVjp",
    "Settings",
    "Spill",
    "Vjp",
    "code_in",
    "device_in",
    "is_setting",
    "moves",
    "placed",
    "reruns",
    "transforms_of",
]

USER_CODE: Final = (FunctionCall, FunctionVjp, HookCall)
"""The kinds of nodes that run user code."""

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
"""The kinds that compute derivatives, with a `depth` of 1 or more."""

N = TypeVar("N", bound=Node)

_WITHOUT_EFFECTS: Final = (OpCall, OpVjp, GradSum)
_COMMON: Final = len(UNPLACED)
_make: Any = cast("Any", tuple).__new__


def placed(node: N, inputs: Ids, outputs: Ids, pin: int = -1, near: int = UNDEFINED) -> N:
    """Return the node with these common fields. Most nodes of graphs and programs are made here."""
    return _make(type(node), (inputs, outputs, pin, near) + node[_COMMON:])  # noqa: RUF005 - half as fast otherwise


def transforms_of(node: Node) -> tuple[str, ...]:
    """Return the transforms of the code that a node runs, the last first: ("vjp", "vjp")."""
    return (VJP,) * node.depth


def reruns(node: Node) -> bool:
    """Tell whether a node may run again unnoticed, so that plans may rematerialise its values."""
    return isinstance(node, _WITHOUT_EFFECTS) or (isinstance(node, FunctionCall) and node.pure)


def moves(node: Node) -> bool:
    """Tell whether a node moves a value, or its gradient, between devices."""
    return node.fn == TO_DEVICE
