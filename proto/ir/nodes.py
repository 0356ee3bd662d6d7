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

from .function_nodes import Casting as Casting
from .function_nodes import FunctionCall as FunctionCall
from .function_nodes import FunctionVjp as FunctionVjp
from .function_nodes import HookCall as HookCall
from .function_nodes import LeafGrads as LeafGrads
from .function_nodes import ObservedGradients as ObservedGradients
from .node_base import ROLE_EMIT as ROLE_EMIT
from .node_base import ROLE_FUNCTION as ROLE_FUNCTION
from .node_base import ROLE_HOOK as ROLE_HOOK
from .node_base import ROLE_MEMORY as ROLE_MEMORY
from .node_base import ROLE_OP as ROLE_OP
from .node_base import ROLE_SUM as ROLE_SUM
from .node_base import TO_DEVICE as TO_DEVICE
from .node_base import UNDEFINED as UNDEFINED
from .node_base import UNPLACED as UNPLACED
from .node_base import VJP as VJP
from .node_base import Ids as Ids
from .op_nodes import OpCall as OpCall
from .op_nodes import OpVjp as OpVjp
from .runtime_nodes import CheckDefined as CheckDefined
from .runtime_nodes import CheckDigest as CheckDigest
from .runtime_nodes import CheckNotNan as CheckNotNan
from .runtime_nodes import ControlDependency as ControlDependency
from .runtime_nodes import Digest as Digest
from .runtime_nodes import Emit as Emit
from .runtime_nodes import GradSum as GradSum
from .runtime_nodes import Load as Load
from .runtime_nodes import Spill as Spill

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
    return isinstance(node, OpCall | OpVjp | GradSum) or (isinstance(node, FunctionCall) and node.pure)


def moves(node: Node) -> bool:
    """Tell whether a node moves a value, or its gradient, between devices."""
    return node.fn == TO_DEVICE
