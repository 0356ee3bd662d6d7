"""The reader of nodes: from the tuples of a graph or program to one class per kind, with every field checked.

The inverse of `node_writer`, which describes the tuples. Graphs have thousands of nodes: common fields are checked all
at once, and one by one only to name the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NoReturn, cast

from raygrad.errors import ProtocolError

from ..ir.nodes import (
    ROLE_EMIT,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_MEMORY,
    ROLE_OP,
    ROLE_SUM,
    UNDEFINED,
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
    Ids,
    LeafGrads,
    Load,
    Node,
    ObservedGradients,
    OpCall,
    OpVjp,
    Spill,
)
from .checks import all_ints, fields, integer, integers, one_of, sequence, shown, text, texts
from .node_writer import PURE, RECORDED, RETAINED, SILENT, SPARED, VJP_STACK
from .signatures import signature_of

MAX_NODES: Final = 1 << 24
"""Of one graph or program: sixteen times the largest graph that planning has a budget for (10^6 nodes)."""

MAX_VALUES: Final = 1 << 26
"""Value ids of one graph, slots of one program: a worker makes a list of as many places before it runs anything."""

_HOOKS: Final = frozenset({"tensor", "pre", "post", "all", "any"})
_new: Any = cast("Any", tuple).__new__


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
    vjps: list[tuple[Any, ...]] = []
    for role, fn, transforms, inputs, outputs, params, pin, near in entries:
        if role == ROLE_OP and not transforms:
            made.append(_new(OpCall, (inputs, outputs, pin, near, fn, params)))
        elif role == ROLE_OP and transforms == VJP_STACK and len(params) == 4:
            vjps.append(params)
            made.append(_new(OpVjp, (inputs, outputs, pin, near, fn, *params)))
        else:
            entry = _NodeEntry(len(made), specs, fn, transforms, (inputs, outputs, pin, near), params)
            made.append(_READ[role](entry))
    if vjps and not _well_formed_vjps(vjps, specs):
        for index, (role, fn, transforms, *common, params, pin, near) in enumerate(entries):
            if role == ROLE_OP and transforms:
                _read_op_vjp(_NodeEntry(index, specs, fn, transforms, (*common, pin, near), params))
    return tuple(made)


def _well_formed_vjps(params: list[tuple[Any, ...]], specs: int) -> bool:
    """Tell whether the params of vjps of ops are right, all at once: see `_read_op_vjp`."""
    columns = list(zip(*params, strict=True))
    if any([set(map(type, column)) != {tuple} for column in columns]):
        return False
    _, wanted, operands, results = columns
    return (
        list(map(len, wanted)) == list(map(len, operands))
        and all_ints(list(chain.from_iterable(wanted)), 0, 2)
        and all_ints(list(chain.from_iterable(operands)), -1, specs)
        and all_ints(list(chain.from_iterable(results)), 0, specs)
    )


def _well_formed(entries: tuple[Any, ...], specs: int) -> bool:
    """Tell whether the fields that all nodes have are right: all of one at once, since graphs have thousands of
    nodes."""
    roles: set[Any] = set()
    names: set[type] = set()
    tuples: set[type] = set(map(type, entries))
    transforms: set[Any] = set()
    numbers: list[Any] = []
    outputs: list[Any] = []
    kind: Any = type
    for role, fn, stack, inputs, made, params, pin, near in entries:
        roles.add(role)
        names.add(kind(fn))
        tuples.update((kind(stack), kind(inputs), kind(made), kind(params)))
        if stack:
            transforms.update(stack)
        numbers += inputs
        numbers += (pin, near)
        outputs += made
    return (
        tuples <= {tuple}
        and names <= {str}
        and roles <= _READ.keys()
        and transforms <= {VJP}
        and all_ints(numbers, UNDEFINED, MAX_VALUES)
        and all_ints(outputs, 0, specs)
    )


def _check(raw: Any, index: int, specs: int) -> None:
    """Check the fields that all nodes have, of one node."""
    where = f"of node {index}"
    role, fn, transforms, inputs, outputs, params, pin, near = fields(raw, 8, f"node {index}")
    for transform in texts(transforms, f"transforms {where}"):
        one_of(transform, {VJP}, f"transform {where}")
    one_of(role, _READ, f"role {where}")
    text(fn, f"name {where}")
    integers(inputs, f"inputs {where}", UNDEFINED, MAX_VALUES)
    integers(outputs, f"output specs {where}", 0, specs)
    sequence(params, f"params {where}")
    integer(pin, f"pin {where}", -1, MAX_VALUES)
    integer(near, f"colocation {where}", UNDEFINED, MAX_VALUES)


class _NodeEntry:
    """A node being read, its common fields checked: helpers for reading the params of its kind."""

    __slots__ = ("_index", "common", "depth", "fn", "params", "specs")

    def __init__(
        self, index: int, specs: int, fn: str, transforms: tuple[str, ...], common: Any, params: tuple[Any, ...]
    ) -> None:
        self._index = index
        self.specs = specs
        self.fn = fn
        self.depth = len(transforms)
        self.common: tuple[Ids, Ids, int, int] = common
        self.params = params

    @property
    def where(self) -> str:
        """The name of the node, for errors."""
        return f"of node {self._index} ({self.fn})"

    def what(self, part: str) -> str:
        """Return the name of a part of the node, for errors."""
        return f"{part} {self.where}"

    def refuse(self, message: str) -> NoReturn:
        raise ProtocolError(f"node {self._index} ({self.fn}) {message}")

    def check_depth(self, most: int) -> None:
        """Check that the node is differentiated no more often than its kind can be."""
        if self.depth > most:
            self.refuse(f"is differentiated {self.depth} times, its kind at most {most} times")

    def taken(self, count: int) -> tuple[Any, ...]:
        """Return the params, which have to be `count`."""
        return fields(self.params, count, self.what("params"))

    def of_user_code(self, count: int) -> tuple[tuple[Any, ...], LeafGrads | None, tuple[Any, ...]]:
        """Return the first `count` params of user code, its leaves, and its casting state."""
        params = self.params
        if len(params) not in (count + 1, count + 3):
            raise ProtocolError(
                f"the {self.what('params')} are neither {count + 1} nor {count + 3} fields but {shown(params)}"
            )
        casting = sequence(params[-1], self.what("casting state"))
        if len(casting) not in (0, 3, 4):
            raise ProtocolError(f"the {self.what('casting state')} is not 0, 3 or 4 fields but {shown(casting)}")
        return params[:count], None if len(params) == count + 1 else self._leaves(*params[count:-1]), casting

    def _leaves(self, places: Any, fate: Any) -> LeafGrads:
        what = self.what("places of leaves")
        for leaf in sequence(places, what):
            for place in sequence(leaf, what):
                integers(fields(place, 2, what), what, 0)
        return LeafGrads(places, integer(fate, self.what("fate of leaves"), 0, 3))

    def truth(self, value: Any, part: str) -> bool:
        """Return a bool that stands as 0 or 1."""
        return bool(integer(value, self.what(part), 0, 2))


def _read_op_vjp(entry: _NodeEntry) -> OpVjp:
    entry.check_depth(1)
    params, wanted, operands, results = entry.taken(4)
    made = OpVjp(
        *entry.common,
        entry.fn,
        sequence(params, entry.what("params of the op")),
        integers(wanted, entry.what("wanted operands"), 0, 2),
        integers(operands, entry.what("operand specs"), -1, entry.specs),
        integers(results, entry.what("result specs"), 0, entry.specs),
    )
    if len(wanted) != len(operands):
        entry.refuse(f"has {len(operands)} operands and says of {len(wanted)} whether they are wanted")
    return made


def _read_function(entry: _NodeEntry) -> FunctionCall | FunctionVjp:
    return _read_function_vjp(entry) if entry.depth else _read_function_call(entry)


def _read_function_call(entry: _NodeEntry) -> FunctionCall:
    (count, requires_grad, flags, expected, keywords, shared), leaves, casting = entry.of_user_code(6)
    requires_grad = integers(requires_grad, entry.what("flags of the arguments"), -1, 2)
    if integer(count, entry.what("number of arguments"), 0) != len(requires_grad):
        entry.refuse(f"has {count} arguments and flags of {len(requires_grad)}")
    flags = integer(flags, entry.what("sum of what forward is told"), 0, 8)
    return FunctionCall(
        *entry.common,
        entry.fn,
        requires_grad,
        recorded=bool(flags & RECORDED),
        pure=bool(flags & PURE),
        silent=bool(flags & SILENT),
        expected=None if expected is None else signature_of(expected, entry.where),
        keywords=texts(keywords, entry.what("names of keyword arguments")),
        shared=sequence(shared, entry.what("shared memory of the arguments")),
        leaves=leaves,
        casting=casting,
    )


def _read_function_vjp(entry: _NodeEntry) -> FunctionVjp:
    params, leaves, casting = entry.of_user_code(11)
    items, arguments, results, wanted, requires, differentiated, refusal, expected, kept, attributes, reports = params
    kept = integer(kept, entry.what("sum of what a vjp is told"), 0, 4)
    return FunctionVjp(
        *entry.common,
        entry.fn,
        depth=entry.depth,
        items=integer(items, entry.what("number of items"), 0),
        arguments=integer(arguments, entry.what("number of arguments"), 0),
        results=integer(results, entry.what("number of results"), 0),
        wanted=integers(wanted, entry.what("wanted positions"), 0),
        requires_grad=integers(requires, entry.what("positions that require grad"), 0),
        differentiated=entry.truth(differentiated, "mark of what is differentiated"),
        refusal=text(refusal, entry.what("refusal")),
        expected=_observed_gradients(entry, expected),
        retained=bool(kept & RETAINED),
        spared=bool(kept & SPARED),
        attributes=_attributes(entry, attributes),
        reports_effects=entry.truth(reports, "mark of what is reported"),
        leaves=leaves,
        casting=casting,
    )


def _observed_gradients(entry: _NodeEntry, raw: Any) -> ObservedGradients | None:
    if raw is None:
        return None
    what = entry.what("expected gradients")
    undefined, differentiable = fields(raw, 2, what)
    return ObservedGradients(integers(undefined, what, 0), integers(differentiable, what))


def _attributes(entry: _NodeEntry, raw: Any) -> tuple[tuple[str, int], ...]:
    what = entry.what("attributes")
    for pair in sequence(raw, what):
        name, is_tensor = fields(pair, 2, what)
        text(name, what)
        integer(is_tensor, what, 0, 2)
    return raw


def _read_hook(entry: _NodeEntry) -> HookCall:
    entry.check_depth(0)
    (kind, gradients, others), leaves, casting = entry.of_user_code(3)
    return HookCall(
        *entry.common,
        entry.fn,
        one_of(kind, _HOOKS, entry.what("kind of hook")),
        integer(gradients, entry.what("number of gradients"), 0),
        integer(others, entry.what("number of gradients that are shown"), 0),
        leaves,
        casting,
    )


def _read_named(entry: _NodeEntry, kinds: dict[str, Any]) -> Node:
    """Read a node whose kind goes by its name."""
    entry.check_depth(0)
    kind = kinds.get(entry.fn)
    if kind is None:
        entry.refuse(f"is none of the kinds {', '.join(sorted(kinds))}")
    return kind(*entry.common, *[text(param, entry.what(part)) for param, part in _params_of(entry, kind)])


def _params_of(entry: _NodeEntry, kind: Any) -> list[tuple[Any, str]]:
    parts = _TEXTS.get(kind, ())
    return list(zip(entry.taken(len(parts)), parts, strict=True))


_TEXTS: Final[dict[Any, tuple[str, ...]]] = {CheckNotNan: ("message",), CheckDigest: ("name of the Function",)}
"""Per kind whose params are texts only, their names in errors."""


def _by_name(*kinds: Any) -> Callable[[_NodeEntry], Node]:
    named = {kind.fn: kind for kind in kinds}
    return lambda entry: _read_named(entry, named)


_READ: Final[dict[str, Callable[[_NodeEntry], Node]]] = {
    ROLE_OP: _read_op_vjp,  # op calls are read by `nodes_of` itself
    ROLE_FUNCTION: _read_function,
    ROLE_HOOK: _read_hook,
    ROLE_SUM: _by_name(GradSum, CheckDefined, CheckNotNan, ControlDependency, Digest, CheckDigest),
    ROLE_EMIT: _by_name(Emit),
    ROLE_MEMORY: _by_name(Spill, Load),
}
