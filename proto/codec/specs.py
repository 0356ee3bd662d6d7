"""The codec of specs: tuples of five fields, (kind, shape, dtype, device, layout), and back.

Graphs, programs and values write specs with it. A context's shape is (), or (bytes, stays) followed by its bytes per
device, the devices being named in its device field, separated by spaces. A constant's shape is () or (bytes,). Fields
that a kind does not have are blank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from raygrad.errors import ProtocolError

from ..ir.array_layout import check_layout
from ..ir.specs import LIVE, UNSEEN, ArraySpec, ConstSpec, ContextSpec, ObjectSpec, Spec, UnknownSpec
from .checks import fields, integer, integers, one_of, sequence, shown, text

_FIELDS: Final = 5
_BLANK: Final = ("", "cpu", None)


def spec_fields(spec: Spec) -> tuple[Any, ...]:
    """Return a spec as the wire has it."""
    if isinstance(spec, ArraySpec):
        return (spec.kind, spec.shape, spec.dtype, spec.device, spec.layout)
    if isinstance(spec, ContextSpec):
        if spec.nbytes is None:
            return (spec.kind, (), *_BLANK)
        devices = " ".join([device for device, _ in spec.per_device]) if spec.per_device else "cpu"
        return (spec.kind, (spec.nbytes, spec.stays, *[held for _, held in spec.per_device]), "", devices, None)
    if isinstance(spec, ConstSpec):
        return (spec.kind, () if spec.nbytes is None else (spec.nbytes,), *_BLANK)
    return (spec.kind, (), *_BLANK)


def spec_of(raw: Any) -> Spec:
    """Return a spec from its fields.

    Raises:
        ProtocolError: they are none of a spec.
    """
    kind, shape, dtype, device, layout = fields(raw, _FIELDS, "spec")
    return _READ[one_of(kind, "kind of a spec", _READ)](
        integers(shape, "shape of a spec", -1), text(dtype, "dtype of a spec"), text(device, "device of a spec"), layout
    )


def specs_of(raw: Any) -> tuple[Spec, ...]:
    """Return the specs of a graph or program; see `spec_of`."""
    return tuple([spec_of(spec) for spec in sequence(raw, "specs")])


def _array(shape: tuple[int, ...], dtype: str, device: str, layout: Any) -> ArraySpec:
    if layout is not None:
        order, expanded = fields(layout, 2, "layout of a spec")
        layout = (
            integers(order, "axis order of a spec", 0, len(shape)),
            integers(expanded, "expanded axes of a spec", 0),
        )
        check_layout(shape, *layout)
    return ArraySpec(shape, dtype, device, layout)


def _context(shape: tuple[int, ...], dtype: str, device: str, layout: Any) -> ContextSpec:
    if len(shape) < 3:
        _check_blank("context", dtype, device, layout)
    if not shape:
        return ContextSpec()
    nbytes, stays, *held = shape if len(shape) > 1 else fields(shape, 2, "bytes of a context and where it stays")
    devices = device.split() if held else []
    if len(devices) != len(held):
        raise ProtocolError(f"a context holds bytes on {len(held)} devices, which are {shown(device)}")
    integer(nbytes, "bytes of a context", UNSEEN)
    return ContextSpec(nbytes, integer(stays, "stay of a context", 0, LIVE + 1), tuple(zip(devices, held, strict=True)))


def _const(shape: tuple[int, ...], dtype: str, device: str, layout: Any) -> ConstSpec:
    _check_blank("const", dtype, device, layout)
    return ConstSpec(*fields(shape, 1, "bytes of a constant")) if shape else ConstSpec()


def _object(shape: tuple[int, ...], dtype: str, device: str, layout: Any) -> ObjectSpec:
    _check_blank("object", dtype, device, layout, shape)
    return ObjectSpec()


def _unknown(shape: tuple[int, ...], dtype: str, device: str, layout: Any) -> UnknownSpec:
    _check_blank("unknown", dtype, device, layout, shape)
    return UnknownSpec()


def _check_blank(kind: str, dtype: str, device: str, layout: Any, shape: Sequence[int] = ()) -> None:
    """Check that a spec has nothing that values of its kind do not have."""
    if (dtype, device, layout) != _BLANK or shape:
        said = shown((shape, dtype, device, layout))
        raise ProtocolError(f"a spec of kind {kind} has no such shape, dtype, device and layout: {said}")


_READ: Final[dict[str, Callable[[tuple[int, ...], str, str, Any], Spec]]] = {
    ArraySpec.kind: _array,
    ContextSpec.kind: _context,
    ConstSpec.kind: _const,
    ObjectSpec.kind: _object,
    UnknownSpec.kind: _unknown,
}
