"""Observed signatures as tuples, and back: among the params of a node, and among what a record tells of a run.

In a node: (outputs, saved inputs, saved outputs, 1 if a tuple, 1 if it saves), an output being ("array", shape, dtype,
1 if differentiable, twin, origin, device), ("object",) or ("fixed", pickled). In a record (`Learned.outputs`) an output
is (kind, what follows, and of an array its layout); the two marks follow, and other facts of the run, as (name, value).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from raygrad.errors import ProtocolError

from ..ir.signatures import (
    CAPTURED,
    DIRTY,
    SAME,
    VIEW,
    ObservedArray,
    ObservedFixed,
    ObservedObject,
    ObservedOutput,
    ObservedSignature,
    Origin,
)
from .checks import fields, integer, integers, octets, sequence, shown, text
from .value_writer import Blob

ARRAY, OBJECT, FIXED = "array", "object", "fixed"
TUPLE, SAVES = "tuple", "saves"

_RELATIONS: Final = frozenset({SAME, DIRTY, VIEW, CAPTURED})


# ---- in a node -----------------------------------------------------------------------------------------------------


def signature_fields(signature: ObservedSignature) -> tuple[Any, ...]:
    """Return a signature as a node has it on the wire."""
    outputs, saved_inputs, saved_outputs, as_tuple, saves = signature
    return tuple([_output_fields(one) for one in outputs]), saved_inputs, saved_outputs, int(as_tuple), int(saves)


def _output_fields(output: ObservedOutput) -> tuple[Any, ...]:
    if isinstance(output, ObservedArray):
        shape, dtype, differentiable, twin, origin, device = output
        return (ARRAY, shape, dtype, int(differentiable), twin, origin, device)
    return (FIXED, output.pickled) if isinstance(output, ObservedFixed) else (OBJECT,)


def signature_of(raw: Any, where: str) -> ObservedSignature:
    """Return a signature from its fields; `where` says in errors what it belongs to.

    Raises:
        ProtocolError: they are none of a signature.
    """
    outputs, saved_inputs, saved_outputs, as_tuple, saves = fields(raw, 5, f"expected signature {where}")
    return ObservedSignature(
        tuple([_output_of(one, where) for one in sequence(outputs, f"expected outputs {where}")]),
        integers(saved_inputs, f"expected saved inputs {where}", 0),
        integers(saved_outputs, f"expected saved outputs {where}", 0),
        bool(integer(as_tuple, f"mark of a tuple {where}", 0, 2)),
        bool(integer(saves, f"mark of what saves {where}", 0, 2)),
    )


def _output_of(raw: Any, where: str) -> ObservedOutput:
    what = f"expected output {where}"
    kind, *body = sequence(raw, what) or (None,)
    if kind == OBJECT and not body:
        return ObservedObject()
    if kind == FIXED and len(body) == 1:
        return ObservedFixed(octets(body[0], what))
    if kind != ARRAY:
        raise ProtocolError(f"the {what} is neither an array nor an object but {shown(raw)}")
    shape, dtype, differentiable, twin, origin, device = fields(tuple(body), 6, what)
    return ObservedArray(
        integers(shape, f"shape of an {what}", 0),
        text(dtype, f"dtype of an {what}"),
        bool(integer(differentiable, f"mark of differentiability of an {what}", 0, 2)),
        integer(twin, f"twin of an {what}", -1),
        _checked_origin(origin, f"origin of an {what}"),
        text(device, f"device of an {what}"),
    )


def _checked_origin(raw: Any, what: str) -> Origin:
    if not sequence(raw, what):
        return ()
    relation, argument, *place = raw
    if relation not in _RELATIONS or len(place) > 1:
        raise ProtocolError(f"the {what} is none of {', '.join(sorted(_RELATIONS))} but {shown(raw)}")
    integer(argument, what, -1)
    for part in place:
        if sequence(part, what):
            order, parts, offset, strides = fields(part, 4, what)
            integers(order, what, 0)
            integer(parts, what)
            integer(offset, what)
            integers(strides, what)
    return raw


# ---- in a record ---------------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What a record tells of a run of a Function."""

    signature: ObservedSignature
    layouts: tuple[Any, ...]
    """Per output, the layout of an array, if there is one."""
    facts: Mapping[str, Any]
    """What else it tells, by name."""


def told_outputs(
    signature: ObservedSignature, layouts: Sequence[Any], facts: Sequence[tuple[str, Any]]
) -> tuple[tuple[str, Any], ...]:
    """Return what `Learned.outputs` has of a run: its signature, the layout of each array, and other facts."""
    told: list[tuple[str, Any]] = []
    for output, layout in zip(signature.outputs, layouts, strict=True):
        kind, *body = _output_fields(output)
        if kind == ARRAY:
            told.append((kind, (*body, layout)))
        else:
            told.append((kind, Blob(body[0]) if body else None))
    return (*told, (TUPLE, int(signature.as_tuple)), (SAVES, int(signature.saves)), *facts)


def shown_by(told: Sequence[tuple[str, Any]], saved_inputs: Sequence[int], saved_outputs: Sequence[int]) -> Shown:
    """Return what a run showed from what `Learned` has of it; see `told_outputs`."""
    outputs: list[ObservedOutput] = []
    layouts: list[Any] = []
    described = [(kind, body) for kind, body in told if kind in (ARRAY, OBJECT, FIXED)]
    for kind, body in described:
        layout = None
        if kind == OBJECT:
            outputs.append(ObservedObject())
        elif kind == FIXED:
            outputs.append(ObservedFixed(bytes(body.data)))
        else:
            shape, dtype, differentiable, twin, origin, device, layout = body
            made = ObservedArray(tuple(shape), dtype, bool(differentiable), int(twin), _origin(origin), device)
            outputs.append(made)
        layouts.append(None if layout is None else (tuple(layout[0]), tuple(layout[1])))
    facts = dict(told[len(described) :])
    signature = ObservedSignature(
        tuple(outputs), tuple(saved_inputs), tuple(saved_outputs), bool(facts[TUPLE]), bool(facts[SAVES])
    )
    return Shown(signature, tuple(layouts), facts)


def _origin(told: Sequence[Any]) -> Origin:
    """Return where an output comes from, as a worker tells it, of tuples only."""
    if len(told) < 3 or not told[2]:
        return (*told[:2], ()) if len(told) == 3 else tuple(told)
    order, parts, offset, strides = told[2]
    return (*told[:2], (tuple(order), int(parts), int(offset), tuple(strides)))
