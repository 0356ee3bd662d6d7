"""The codec of observed signatures: as tuples in a node, and in a record of a run.

`nodes` writes the signature that a Function is expected to have; workers report the one that a run showed.

In a node: (outputs, saved inputs, saved outputs, 1 if a tuple, 1 if it saves). An output is ("array", shape, dtype, 1
if differentiable, twin, origin, device), ("object",) or ("fixed", pickled). In a record (`FunctionObservation.outputs`)
an output is (kind, body), where the body of an array ends with its layout. The two marks follow, then other facts of
the run, as (name, value)."""

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


class FunctionRun(NamedTuple):
    """A run of a Function, as a record reports it."""

    signature: ObservedSignature
    layouts: tuple[Any, ...]
    """Per output, the layout of an array, or None."""
    facts: Mapping[str, Any]
    """Other facts of the run, by name."""


def told_outputs(
    signature: ObservedSignature, layouts: Sequence[Any], facts: Sequence[tuple[str, Any]]
) -> tuple[tuple[str, Any], ...]:
    """Return `FunctionObservation.outputs` of a run: its signature, the layout of each array, and other facts."""
    reported: list[tuple[str, Any]] = []
    for output, layout in zip(signature.outputs, layouts, strict=True):
        kind, *body = _output_fields(output)
        if kind == ARRAY:
            reported.append((kind, (*body, layout)))
        else:
            reported.append((kind, Blob(body[0]) if body else None))
    return (*reported, (TUPLE, int(signature.as_tuple)), (SAVES, int(signature.saves)), *facts)


def read_function_run(
    reported: Sequence[tuple[str, Any]], saved_inputs: Sequence[int], saved_outputs: Sequence[int]
) -> FunctionRun:
    """Return a run from the fields of its `FunctionObservation`; the inverse of `told_outputs`."""
    outputs: list[ObservedOutput] = []
    layouts: list[Any] = []
    described = [(kind, body) for kind, body in reported if kind in (ARRAY, OBJECT, FIXED)]
    for kind, body in described:
        *own, layout = body if kind == ARRAY else (None,) if body is None else (bytes(body.data), None)
        outputs.append(_output_of((kind, *own), "of a run"))
        layouts.append(layout)
    facts = dict(reported[len(described) :])
    signature = ObservedSignature(
        tuple(outputs), tuple(saved_inputs), tuple(saved_outputs), bool(facts[TUPLE]), bool(facts[SAVES])
    )
    return FunctionRun(signature, tuple(layouts), facts)
