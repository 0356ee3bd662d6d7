"""The writer of nodes: tuples of eight fields, (role, fn, transforms, inputs, outputs, params, pin, near).

`node_reader` is its inverse; graphs and programs are written with it. The content of `params` depends on the kind of
node, and only these two files know it. User code that meets leaves of the client has two more params before the last,
which is the casting state: the places of the leaves, and their fate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..ir.nodes import (
    ROLE_OP,
    VJP,
    CheckDefined,
    CheckDigest,
    CheckNotNan,
    ControlDependency,
    Digest,
    Emit,
    FunctionCall,
    FunctionVjp,
    GradSum,
    HookCall,
    Load,
    Node,
    OpCall,
    OpVjp,
    Spill,
)
from .signatures import signature_fields

RECORDED, SILENT, PURE = 1, 2, 4
"""Flags of a FunctionCall, as a sum."""

RETAINED, SPARED = 1, 2
"""Flags of a FunctionVjp, as a sum."""

VJP_STACK: Final = (VJP,)
"""The transforms of a vjp of the first order."""


def node_fields(nodes: Iterable[Node]) -> list[tuple[Any, ...]]:
    """Return nodes as the wire has them."""
    made: list[tuple[Any, ...]] = []
    for node in nodes:
        if type(node) is OpCall:  # most are of ops: spared a call
            inputs, outputs, pin, near, fn, params = node
            made.append((ROLE_OP, fn, (), inputs, outputs, params, pin, near))
        elif type(node) is OpVjp:
            inputs, outputs, pin, near, fn, params, wanted, operands, results = node
            made.append((ROLE_OP, fn, VJP_STACK, inputs, outputs, (params, wanted, operands, results), pin, near))
        else:
            made.append(_WRITE[type(node)](node))
    return made


def _function_call(node: FunctionCall) -> tuple[Any, ...]:
    flags = RECORDED * node.recorded + SILENT * node.silent + PURE * node.pure
    expected = None if node.expected is None else signature_fields(node.expected)
    count, requires_grad = len(node.requires_grad), node.requires_grad
    params = (count, requires_grad, flags, expected, node.keywords, node.shared, *_leaves_of(node), node.casting)
    return _fields(node, (), params)


def _function_vjp(node: FunctionVjp) -> tuple[Any, ...]:
    params = (
        node.items,
        node.arguments,
        node.results,
        node.wanted,
        node.requires_grad,
        int(node.differentiated),
        node.refusal,
        node.expected,
        RETAINED * node.retained + SPARED * node.spared,
        node.attributes,
        int(node.reports_effects),
        *_leaves_of(node),
        node.casting,
    )
    return _fields(node, VJP_STACK * node.depth, params)


def _hook_call(node: HookCall) -> tuple[Any, ...]:
    return _fields(node, (), (node.kind, node.gradients, node.shown, *_leaves_of(node), node.casting))


def _leaves_of(node: FunctionCall | FunctionVjp | HookCall) -> tuple[Any, ...]:
    return () if node.leaves is None else (node.leaves.places, node.leaves.fate)


def _check_not_nan(node: CheckNotNan) -> tuple[Any, ...]:
    return _fields(node, (), (node.message,))


def _check_digest(node: CheckDigest) -> tuple[Any, ...]:
    return _fields(node, (), (node.function,))


def _plain(node: Node) -> tuple[Any, ...]:
    """Write a node that has no fields but the common ones."""
    return _fields(node, (), ())


def _fields(node: Node, transforms: tuple[str, ...], params: tuple[Any, ...]) -> tuple[Any, ...]:
    return (node.role, node.fn, transforms, node.inputs, node.outputs, params, node.pin, node.near)


_PLAIN: Final = (GradSum, CheckDefined, ControlDependency, Digest, Emit, Spill, Load)

_WRITE: Final[dict[type, Callable[[Any], tuple[Any, ...]]]] = {
    FunctionCall: _function_call,
    FunctionVjp: _function_vjp,
    HookCall: _hook_call,
    CheckNotNan: _check_not_nan,
    CheckDigest: _check_digest,
    **dict.fromkeys(_PLAIN, _plain),
}
