"""Forward mode of built-in ops: the tangent of each result, derived from the op's vjp rule.

No derivative is written here, but two in `matrix_tangents`. A linear op is applied to the tangents. A product is
applied once for each factor. An elementwise op's vjp rule is applied to the tangent in the gradient's place. Any other
op's vjp, which is linear in the gradient, is transposed: differentiated with respect to that gradient. The tables below
name the first three kinds; the last way is right for all ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.errors import MissingDerivative

from .. import ops
from ..core.modes import state
from ..dispatch.dispatch import call
from ..engine.engine import pull_back
from ..nodes.node import NO_EDGE, Edge, Node, next_sequence
from ..nodes.op_node import OpNode
from ..registry.define_op import conj
from ..registry.vjp_rules import OpContext, by_operand, vjp_tensors
from ..tensor.tangent_levels import TangentLevel, active_levels, share_tangents
from ..tensor.tensor import Tensor
from .matrix_tangents import OWN_RULES

if TYPE_CHECKING:
    from ..registry.registry import Derivative, Op
    from ..registry.vjp_rules import NamedOp

_LINEAR: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            "as_strided_grad clone contiguous conj cumsum diagonal_grad flip gather gather_grad getitem_grad in_order "
            "index index_grad keep mean neg roll sum to_dtype tril triu windows windows_together zeros_as"
        ).split(),
        (0,),
    ),
    **dict.fromkeys("add sub index_put put_diagonal put_strided put_windows setitem".split(), (0, 1)),
    "masked_fill": (0, 2),
    "scatter": (0, 2),
    "where": (1, 2),
    **dict.fromkeys("cat stack".split(), ()),
}
"""Ops that are linear in these operands together, () meaning all; views, linear in their first, need not be listed."""

_PRODUCTS = frozenset({"matmul", "mul"})
"""Bilinear ops."""

_HOLOMORPHIC = frozenset(
    (
        "acos acosh asin asinh atan atanh cos cosh div exp expm1 log log10 log1p log2 pow reciprocal rsqrt sigmoid sin "
        "sinh sqrt square tan tanh"
    ).split()
)
"""Elementwise, complex differentiable ops: their tangent rule is the vjp rule, applied to conjugates."""

_ELEMENTWISE = _HOLOMORPHIC | frozenset(
    (
        "abs atan2 ceil clamp elu erf floor fmod hypot leaky_relu logaddexp maximum minimum relu remainder round sign "
        "softplus trunc"
    ).split()
)


def propagate(op: Op, operands: Sequence[Any], params: tuple[Any, ...], outcome: Any) -> None:
    """Set the tangents of the results of a built-in op, at each open level.

    Raises:
        NotImplementedError: an operand carries a tangent, and the op has no derivative.
    """
    levels: tuple[TangentLevel, ...] = state.forward
    held = [o._tangents if isinstance(o, Tensor) else None for o in operands]
    if not any(held):
        return
    results: tuple[Tensor, ...] = outcome if op.outputs != 1 else (outcome,)
    if not any(r._data.dtype.kind in "fc" for r in results):
        return
    for depth, level in enumerate(levels):
        tangents = [None if h is None else h.get(level) for h in held]
        if any(t is not None for t in tangents):
            with active_levels(levels[:depth]):
                found = _result_tangents(op, operands, params, results, tangents)
            for result, tangent in zip(results, found, strict=True):
                if tangent is not None and result._data.dtype.kind in "fc":
                    level.carry(result, tangent)
    node = next((r.grad_fn for r in results if r.grad_fn is not None), None)
    if isinstance(node, OpNode) and node.rule is not None:
        node.tangents = [held[p] if p >= 0 else results[-1 - p]._tangents for p in node.rule.saves]


def _result_tangents(
    op: Op,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    results: tuple[Tensor, ...],
    tangents: Sequence[Tensor | None],
) -> Sequence[Tensor | None]:
    """Return the tangent of each result, None where there is none."""
    linear = (0,) if op.view else _LINEAR.get(op.name)
    if linear is not None:
        places = linear or range(len(operands))
        if all(tangent is None or place in places for place, tangent in enumerate(tangents)):
            moved = [_tangent_or_zero(o, tangents[i]) if i in places else o for i, o in enumerate(operands)]
            out = call(op, moved, params)
            return out if op.outputs != 1 else (out,)
    if op.name in _PRODUCTS:
        return (_product_rule(lambda a, b: call(op, (a, b), params), operands, tangents),)
    own = OWN_RULES.get(op.name)
    if own is not None and tangents[0] is not None:
        return own(results, tangents[0])
    rule = op.sole_rule or op.derivative("cpu", results[0].dtype)
    if rule is None:
        raise MissingDerivative(
            f"Trying to use forward AD with {op.name} that does not support it: the op has no derivative; register one "
            "with raygrad.autograd.register_autograd, or detach its operands"
        )
    if op.name in _ELEMENTWISE:
        turned = _elementwise(op, rule, operands, params, results[0], tangents)
        if turned is not None:
            return (turned,)
    return _by_transposition(op, rule, operands, params, results, tangents)


def _tangent_or_zero(operand: Any, tangent: Tensor | None) -> Any:
    """Return a linear op's operand replaced by its tangent, or by zero."""
    if tangent is not None:
        return tangent
    if isinstance(operand, Tensor):
        return ops.zeros_as(operand)
    return operand if operand is None else 0


def _product_rule(
    product: Callable[[Any, Any], Any], operands: Sequence[Any], tangents: Sequence[Tensor | None]
) -> Any:
    (a, b), (ta, tb) = operands, tangents
    if ta is None:
        return product(a, tb)
    return product(ta, b) if tb is None else product(ta, b) + product(a, tb)


def _context(
    rule: Derivative,
    params: tuple[Any, ...],
    needs: Sequence[bool],
    operands: Sequence[Any],
    results: Sequence[Tensor],
    kept: Sequence[Any],
) -> OpContext:
    gates = rule.gates or (None,) * len(kept)
    saved = [None if g is not None and not needs[g] else value for g, value in zip(gates, kept, strict=True)]
    inputs = [(o.shape, o.dtype) if isinstance(o, Tensor) else None for o in operands]
    return OpContext(saved, params, needs, inputs, [(r.shape, r.dtype) for r in results])


def _saved_values(rule: Derivative, operands: Sequence[Any], results: Sequence[Tensor]) -> list[Any]:
    return [operands[p] if p >= 0 else results[-1 - p] for p in rule.saves]


# ---- elementwise ops -------------------------------------------------------------------------------------------------


def _elementwise(
    op: Op,
    rule: Derivative,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    result: Tensor,
    tangents: Sequence[Tensor | None],
) -> Tensor | None:
    """Return the tangent that an elementwise op's vjp rule gives for the operands' tangents; None if the rule does not
    apply."""
    if rule.setup_context is not None:
        return None
    dtypes = [result.dtype, *(o.dtype for o in operands if isinstance(o, Tensor))]
    if any(dtype.kind == "c" for dtype in dtypes) and op.name not in _HOLOMORPHIC:
        return None
    total = None
    kept = _saved_values(rule, operands, (result,))
    for position, tangent in enumerate(tangents):
        if tangent is None:
            continue
        spread = tangent if tangent.shape == result.shape else ops.expand(tangent, result.shape)
        needs = [place == position for place in range(len(operands))]
        ctx = _context(rule, params, needs, operands, (result,), kept)
        term = by_operand(op, rule.backward(ctx, conj(spread)), len(operands))[position]
        if term is not None:
            total = conj(term) if total is None else total + conj(term)
    return ops.zeros_as(result) if total is None else total


# ---- any op ----------------------------------------------------------------------------------------------------------


class LocalAliasNode(Node):
    """The node of a local alias of a tensor: a local pass ends here, a later pass goes on to the tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._metas = ((tensor.shape, tensor.dtype),)
        self._sequence = next_sequence()

    def name(self) -> str:
        """Return the node's name."""
        return "AliasBackward0"

    def lead_to(self, edge: Edge) -> None:
        """Let gradients flow on to `edge`."""
        self._edges = (edge,)

    def _run(self, grads: list[Any], create_graph: bool, recorder: Any) -> Sequence[Any]:
        return grads

    def _input_metas(self) -> Sequence[Any]:
        return self._metas


def local_alias(tensor: Tensor) -> tuple[Tensor, LocalAliasNode]:
    """Return an alias of a tensor, with its tangents, that requires grad, and its node, which leads nowhere yet."""
    node = LocalAliasNode(tensor)
    alias = Tensor.made(tensor._data, node)
    alias.share_counter(tensor)
    return share_tangents(tensor, alias), node


def with_tangents(
    items: Sequence[Tensor | None], run: Callable[[list[Tensor | None]], list[Tensor | None]]
) -> list[Tensor | None]:
    """Return `run(items)` with tangents, for a `run` that records how its results depend on its items; the recorded
    graph is differentiated twice, as a vjp is in `_by_transposition`."""
    levels: tuple[TangentLevel, ...] = state.forward
    recording = state.grad
    entries: list[tuple[LocalAliasNode, Edge]] = []
    local: list[Tensor | None] = []
    for item in items:
        if item is None or item.dtype.kind not in "fc":
            local.append(item)
            continue
        alias, entry = local_alias(item)
        entries.append((entry, edge_or_none(item)))
        local.append(alias)
    state.grad = True
    try:
        with active_levels(()):
            results = run(local)
        for depth, level in enumerate(levels):
            given = [None if item is None else level.of(item) for item in items]
            if any(tangent is not None for tangent in given):
                with active_levels(levels[:depth]):
                    _push(level, results, local, given, recording)
    finally:
        state.grad = recording
    for entry, edge in entries:
        entry.lead_to(edge)
    return [r if r is None or recording or not r._requires_grad else share_tangents(r, r.detach()) for r in results]


def _probe(result: Tensor) -> Tensor:
    """Return a gradient of ones that is a leaf and requires grad."""
    with active_levels(()):
        return local_alias(ops.ones_as(result))[0]


def _push(
    level: TangentLevel,
    results: Sequence[Tensor | None],
    local: Sequence[Tensor | None],
    given: Sequence[Tensor | None],
    recording: bool,
) -> None:
    """Set, at a level, the tangents of results that depend on local items."""
    flowing = [r for r in results if r is not None and r._requires_grad]
    pairs = [(item, t) for item, t in zip(local, given, strict=True) if item is not None and t is not None]
    if not flowing:
        return
    probes = [_probe(result) for result in flowing]
    turned = pull_back(flowing, probes, [item for item, _ in pairs], True)
    live = [(g, t) for g, (_, t) in zip(turned, pairs, strict=True) if g is not None and g._requires_grad]
    for result, tangent in zip(flowing, _transposed(live, probes, recording), strict=True):
        if tangent is not None:
            level.carry(result, tangent)


def _by_transposition(
    op: Op,
    rule: Derivative,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    results: tuple[Tensor, ...],
    tangents: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Return the tangents of the results as the derivative of <vjp(u), tangents> by u; the vjp is linear in u."""
    recording = state.grad
    entries: list[tuple[LocalAliasNode, Edge]] = []

    def local(value: Any) -> Any:
        if not (recording and isinstance(value, Tensor) and value._requires_grad):
            return value
        alias, entry = local_alias(value)
        entries.append((entry, value.edge()))
        return alias

    kept = [local(value) for value in _saved_values(rule, operands, results)]
    probes: list[Tensor | None] = [None] * len(results)
    state.grad = True
    try:
        for number, result in enumerate(results):
            if result.dtype.kind in "fc":
                probes[number] = _probe(result)
        needs = [tangent is not None for tangent in tangents]
        turned = vjp_tensors(op, rule, _context(rule, params, needs, operands, results, kept), probes)
        differentiable = bool(entries) or any(t is not None and t._requires_grad for t in tangents)
        found = transposed(op, turned, tangents, probes, recording and differentiable)
    finally:
        state.grad = recording
    for entry, edge in entries:
        entry.lead_to(edge)
    return [
        ops.zeros_as(result) if tangent is None and result.dtype.kind in "fc" else tangent
        for result, tangent in zip(results, found, strict=True)
    ]


def transposed(
    op: NamedOp,
    turned: Sequence[Tensor | None],
    tangents: Sequence[Tensor | None],
    probes: Sequence[Tensor | None],
    recording: bool,
) -> list[Tensor | None]:
    """Return, per output of an op, its tangent: the derivative of <turned, tangents> with respect to its probe.

    Args:
        op: the op, for messages.
        turned: the results of its backward for the probes.
        tangents: the tangents of its operands.
        probes: gradients of its outputs that require grad; None for an output that has no gradient.
        recording: the tangents may be differentiated in turn.

    Raises:
        MissingDerivative: the backward is not written with differentiable operations.
    """
    pairs = [(g, t) for g, t in zip(turned, tangents, strict=True) if g is not None and t is not None]
    for grad, _ in pairs:
        _check_differentiable(op, grad)
    return _transposed([(g, t) for g, t in pairs if g._requires_grad], probes, recording)


def _check_differentiable(op: NamedOp, grad: Tensor) -> None:
    """Raise if a rule's result does not depend on its gradient by differentiable operations, and is not zero either."""
    if not grad._requires_grad and grad._read().any():
        raise MissingDerivative(
            f"Trying to use forward AD with {op.name} that does not support it: its backward is not written with "
            "differentiable ops, so it cannot be turned round"
        )


def _transposed(
    pairs: Sequence[tuple[Tensor, Tensor]], probes: Sequence[Tensor | None], recording: bool
) -> list[Tensor | None]:
    wanted = [probe for probe in probes if probe is not None]
    if not pairs:
        return [None] * len(probes)
    found = iter(pull_back([g for g, _ in pairs], [t for _, t in pairs], wanted, recording))
    return [None if probe is None else next(found) for probe in probes]


def edge_or_none(tensor: Tensor) -> Edge:
    """Return the edge along which a tensor's gradient flows, (None, 0) if it requires none."""
    return tensor.edge() if tensor._requires_grad else NO_EDGE
