"""The codec of nodes: tuples of eight fields, (role, fn, transforms, inputs, outputs, params, pin, near), and back.

Graphs and programs are written and read with it. `_PARAMS` says for each kind what stands in `params`, one entry per
place, and both ways follow it. Graphs have thousands of nodes, of few sorts: fields that all nodes have are checked all
at once, and what else stands in a node is read and written once for all nodes that are alike in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

from raygrad.errors import ProtocolError

from ..ir.nodes import (
    ROLE_EMIT,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_MEMORY,
    ROLE_OP,
    ROLE_SUM,
    UNDEFINED,
    UNPLACED,
    USER_CODE,
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
    LeafGrads,
    Load,
    Node,
    ObservedGradients,
    OpCall,
    OpVjp,
    Spill,
    is_setting,
    transforms_of,
)
from .checks import all_ints, fields, integer, integers, many, of, one_of, row, sequence, shown, text, texts
from .signatures import signature_fields, signature_of

MAX_NODES: Final = 1 << 24
"""Of one graph or program: sixteen times the largest graph that planning has a budget for (10^6 nodes)."""

MAX_VALUES: Final = 1 << 26
"""Value ids of one graph, slots of one program: a worker makes a list of as many places before it runs anything."""

_VJP_STACK: Final = (VJP,)
_COMMON: Final = len(UNPLACED)
_new: Any = cast("Any", tuple).__new__
_type_of: Callable[[object], type[Any]] = type
"""`type` as pyright can follow it for a value of unknown type."""


# ---- the params of each kind ---------------------------------------------------------------------------------------


class _Param(NamedTuple):
    """One place of `params`."""

    write: Callable[[Any], Any]
    """From a node to what stands there."""
    read: Callable[[Any, str, int], dict[str, Any]]
    """From what stands there, the name of the node in errors, and the number of specs, to fields of the node by name.
    """


def _field(name: str, what: str, check: Callable[..., Any], *limits: Any) -> _Param:
    """Return the place of a field that stands as it is, if it passes a check of `checks`; `what` names it in errors."""

    def read(raw: Any, where: str, _: int) -> dict[str, Any]:
        return {name: check(raw, f"{what} {where}", *limits)}

    return _Param(attrgetter(name), read)


def _specs(name: str, what: str, low: int) -> _Param:
    """Return the place of a field of indices of specs, from `low` on."""

    def read(raw: Any, where: str, specs: int) -> dict[str, Any]:
        return {name: integers(raw, f"{what} {where}", low, specs)}

    return _Param(attrgetter(name), read)


def _flags(what: str, **bits: int) -> _Param:
    """Return the place of a sum, to which each field adds its bit where it is true."""

    def write(node: Any) -> int:
        return sum([bit for name, bit in bits.items() if getattr(node, name)])

    def read(raw: Any, where: str, _: int) -> dict[str, Any]:
        total = integer(raw, f"{what} {where}", 0, sum(bits.values()) + 1)
        return {name: bool(total & bit) for name, bit in bits.items()}

    return _Param(write, read)


def _number_of_arguments(node: FunctionCall) -> int:
    return len(node.requires_grad)


def _check_number(raw: Any, where: str, _: int) -> dict[str, Any]:
    integer(raw, f"number of arguments {where}", 0)
    return {}


def _signature_fields(node: FunctionCall) -> tuple[Any, ...] | None:
    return None if node.expected is None else signature_fields(node.expected)


def _expected_signature(raw: Any, where: str, _: int) -> dict[str, Any]:
    return {"expected": None if raw is None else signature_of(raw, where)}


def _expected_gradients(raw: Any, what: str) -> ObservedGradients | None:
    if raw is None:
        return None
    undefined, differentiable = fields(raw, 2, what)
    return ObservedGradients(integers(undefined, what, 0), integers(differentiable, what))


def _attributes(raw: Any, what: str) -> tuple[tuple[str, int], ...]:
    for pair in sequence(raw, what):
        name, is_tensor = fields(pair, 2, what)
        text(name, what)
        integer(is_tensor, what, 0, 2)
    return raw


_PARAMS: Final[dict[type, tuple[_Param, ...]]] = {
    OpVjp: (
        _field("params", "params of the op", sequence),
        _field("wanted", "wanted operands", integers, 0, 2),
        _specs("operand_specs", "operand specs", -1),
        _specs("result_specs", "result specs", 0),
    ),
    FunctionCall: (
        _Param(_number_of_arguments, _check_number),
        _field("requires_grad", "flags of the arguments", integers, -1, MAX_VALUES + 1),
        _flags("sum of what forward is told", recorded=1, silent=2, pure=4, impure=8),
        _Param(_signature_fields, _expected_signature),
        _field("keywords", "names of keyword arguments", texts),
        _field("shared", "shared memory of the arguments", sequence),
    ),
    FunctionVjp: (
        _field("items", "number of items", integer, 0),
        _field("arguments", "number of arguments", integer, 0),
        _field("results", "number of results", integer, 0),
        _field("wanted", "wanted positions", integers, 0),
        _field("requires_grad", "positions that require grad", integers, 0),
        _flags("mark of what is differentiated", differentiated=1),
        _field("refusal", "refusal", text),
        _field("expected", "expected gradients", _expected_gradients),
        _flags("sum of what a vjp is told", retained=1, spared=2),
        _field("attributes", "attributes", _attributes),
        _flags("mark of what is reported", reports_effects=1),
    ),
    HookCall: (
        _field("kind", "kind of hook", one_of, ("tensor", "pre", "post", "all", "any")),
        _field("gradients", "number of gradients", integer, 0),
        _field("shown", "number of gradients that are shown", integer, 0),
    ),
    CheckNotNan: (_field("message", "message", text),),
    CheckDigest: (_field("function", "name of the Function", text),),
    **dict.fromkeys((GradSum, CheckDefined, ControlDependency, Digest, Emit, Spill, Load), ()),
}
"""Per kind what stands in `params`; those of an op call are its own. In user code two places follow if it meets leaves
of the client, the places of the leaves and their fate, and one for its settings."""

_NAMED: Final[dict[str, dict[str, type]]] = {
    ROLE_SUM: {kind.fn: kind for kind in (GradSum, CheckDefined, CheckNotNan, ControlDependency, Digest, CheckDigest)},
    ROLE_EMIT: {Emit.fn: Emit},
    ROLE_MEMORY: {Spill.fn: Spill, Load.fn: Load},
}
"""Per role whose kinds go by the name of what they run, these kinds."""

_ROLES: Final = frozenset({ROLE_OP, ROLE_FUNCTION, ROLE_HOOK, *_NAMED})


# ---- from nodes to the wire ----------------------------------------------------------------------------------------


def node_fields(nodes: Iterable[Node]) -> list[tuple[Any, ...]]:
    """Return nodes as the wire has them."""
    made: list[tuple[Any, ...]] = []
    written: dict[Any, tuple[Any, ...]] = {}
    for node in nodes:
        if type(node) is OpCall:  # most are of ops: spared the rest
            inputs, outputs, pin, near, fn, params = node
            made.append((ROLE_OP, fn, (), inputs, outputs, params, pin, near))
            continue
        if type(node) is OpVjp:
            inputs, outputs, pin, near, fn, params, wanted, operands, results = node
            made.append((ROLE_OP, fn, _VJP_STACK, inputs, outputs, (params, wanted, operands, results), pin, near))
            continue
        own = (type(node), node[_COMMON:]) if len(node) > _COMMON else type(node)
        head = written.get(own)
        if head is None:
            head = written[own] = (node.role, node.fn, transforms_of(node), _params_of(node))
        role, fn, transforms, params = head
        inputs, outputs, pin, near = node[:_COMMON]
        made.append((role, fn, transforms, inputs, outputs, params, pin, near))
    return made


def _params_of(node: Node) -> tuple[Any, ...]:
    params = tuple([param.write(node) for param in _PARAMS[type(node)]])
    if not isinstance(node, USER_CODE):
        return params
    return (*params, *(node.leaves or ()), node.settings)


# ---- and back ------------------------------------------------------------------------------------------------------


def nodes_of(raw: Any, specs: int) -> tuple[Node, ...]:
    """Return nodes from their fields. Indices of specs are checked against `specs`, their number; value ids are not
    checked.

    Raises:
        ProtocolError: they are none of nodes; names the first that is wrong.
    """
    entries = sequence(raw, "nodes")
    if len(entries) > MAX_NODES:
        raise ProtocolError(f"there are {len(entries)} nodes; at most {MAX_NODES} are allowed")
    try:
        good = _well_formed(entries, specs)
    except (TypeError, ValueError):  # the checks below name the wrong part
        good = False
    if not good:
        for index, entry in enumerate(entries):
            _check(entry, index, specs)
    made: list[Node] = []
    read: dict[Any, Any] = {}
    for role, fn, transforms, inputs, outputs, params, pin, near in entries:
        if role != ROLE_OP:
            alike = (role, fn, transforms, params)
        elif transforms:  # params of the op itself are not compared: 2 equals 2.0, and is another param
            alike = (transforms, _type_of(params[0]) if params else None, params[1:])
        else:
            made.append(_new(OpCall, (inputs, outputs, pin, near, fn, params)))
            continue
        try:
            known = read.get(alike)
        except TypeError as error:
            raise ProtocolError(f"the params of node {len(made)} ({fn}) are not only texts and numbers") from error
        if known is None:
            known = read[alike] = _own_fields(f"node {len(made)} ({fn})", role, fn, len(transforms), params, specs)
        kind, own = known
        if kind is OpVjp:
            own = (fn, params[0], *own)
        made.append(_new(kind, (inputs, outputs, pin, near, *own)))
    return tuple(made)


def _well_formed(entries: tuple[Any, ...], specs: int) -> bool:
    """Tell whether the fields that all nodes have are right: all of one at once."""
    if not entries:
        return True
    roles, names, transforms, inputs, outputs, params, pins, nears = zip(*entries, strict=True)
    return (
        set(map(type, chain(entries, inputs, outputs, params))) == {tuple}
        and set(map(type, names)) == {str}
        and _ROLES.issuperset(roles)
        and all([type(stack) is tuple and {VJP}.issuperset(stack) for stack in set(transforms)])
        and all_ints([*chain.from_iterable(inputs), *pins, *nears], UNDEFINED, MAX_VALUES)
        and all_ints([*chain.from_iterable(outputs)], 0, specs)
    )


def _check(raw: Any, index: int, specs: int) -> None:
    """Check the fields that all nodes have, of one node."""
    where = f"of node {index}"
    row(
        f"node {index}",
        of(one_of, f"role {where}", _ROLES),
        of(text, f"name {where}"),
        many(f"transforms {where}", of(one_of, f"transform {where}", {VJP})),
        of(integers, f"inputs {where}", UNDEFINED, MAX_VALUES),
        of(integers, f"output specs {where}", 0, specs),
        of(sequence, f"params {where}"),
        of(integer, f"pin {where}", -1, MAX_VALUES),
        of(integer, f"colocation {where}", UNDEFINED, MAX_VALUES),
    )(raw)


def _own_fields(
    node: str, role: str, fn: str, depth: int, params: tuple[Any, ...], specs: int
) -> tuple[type, tuple[Any, ...]]:
    """Return the kind of a node and its fields after the common ones, checked; of the vjp of an op, those after the
    params of the op. `node` names it in errors."""
    most = 1 if role == ROLE_OP else 0
    if depth > most and role != ROLE_FUNCTION:
        raise ProtocolError(f"{node} is differentiated {depth} times, its kind at most {most} times")
    kind: Any = {ROLE_OP: OpVjp, ROLE_FUNCTION: FunctionVjp if depth else FunctionCall, ROLE_HOOK: HookCall}.get(
        role
    ) or _NAMED[role].get(fn)
    if kind is None:
        raise ProtocolError(f"{node} is none of the kinds {', '.join(sorted(_NAMED[role]))}")
    where = f"of {node}"
    named: dict[str, Any] = {name: value for name, value in (("fn", fn), ("depth", depth)) if name in kind._fields}
    places = _PARAMS[kind]
    if kind in USER_CODE:
        params, named["leaves"], named["settings"] = _user_code(params, len(places), where)
    for place, param in zip(places, fields(params, len(places), f"params {where}"), strict=True):
        named.update(place.read(param, where, specs))
    if kind is OpVjp and len(named["wanted"]) != len(named["operand_specs"]):
        operands, wanted = len(named["operand_specs"]), len(named["wanted"])
        raise ProtocolError(f"{node} has {operands} operands and says of {wanted} whether they are wanted")
    if kind is FunctionCall and params[0] != len(named["requires_grad"]):
        raise ProtocolError(f"{node} has {params[0]} arguments and flags of {len(named['requires_grad'])}")
    shared_from = _COMMON if kind is not OpVjp else _COMMON + 2  # each vjp has its own name and params of the op
    return kind, kind(*UNPLACED, **named)[shared_from:]


def _user_code(
    params: tuple[Any, ...], count: int, where: str
) -> tuple[tuple[Any, ...], LeafGrads | None, tuple[Any, ...]]:
    """Return the first `count` params of user code, its leaves, and its settings."""
    if len(params) not in (count + 1, count + 3):
        raise ProtocolError(f"the params {where} are neither {count + 1} nor {count + 3} fields but {shown(params)}")
    settings = sequence(params[-1], f"settings {where}")
    for entry in settings:
        if not is_setting(entry):
            raise ProtocolError(f"one of the settings {where} is no such but {shown(entry)}")
    if len(params) == count + 1:
        return params[:count], None, settings
    places, fate = params[count:-1]
    what = f"places of leaves {where}"
    for place in chain.from_iterable([sequence(leaf, what) for leaf in sequence(places, what)]):
        integers(fields(place, 2, what), what, 0)
    return params[:count], LeafGrads(places, integer(fate, f"fate of leaves {where}", 0, 4)), settings
