"""Function signatures: outputs, aliases and saved values of a user Function, read off a run or declared by `infer`
(H3).

The run listener and the Function recorder make them; `call_signature` and `outputs` go by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raygrad.autograd.core.dtypes import is_differentiable
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import aside
from raygrad.autograd.core.recorder import FixedOutput
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.codec.signatures import read_function_run
from raygrad.proto.ir.nodes import ObservedGradients
from raygrad.proto.ir.program import FunctionObservation
from raygrad.proto.ir.signatures import ObservedArray, ObservedFixed, ObservedSignature, array_text
from raygrad.proto.ir.specs import ArraySpec, ObjectSpec
from raygrad.workers.code.shipping import unpickle_value
from raygrad.workers.values.contexts import WRITABLE

from ..recording.records import SpecEntry, spec_of_array
from ..recording.source_locations import user_site

if TYPE_CHECKING:
    from ..recording.spec_table import SpecTable
    from .recorded_function_node import RecordedFunction


class FunctionSignature(NamedTuple):
    """What the first run of a Function showed for a key, or what its `infer` says."""

    expected: ObservedSignature | None
    """What later runs must show, too; None if only `infer` is known."""
    outputs: tuple[SpecEntry, ...]
    differentiable: tuple[bool, ...]
    twins: tuple[int, ...]
    """Per output, an earlier output that is the same tensor, or -1 (OU-08)."""
    saved_inputs: tuple[int, ...] | None
    """None: not known; every input may have been saved."""
    saved_outputs: tuple[int, ...] | None
    as_tuple: bool
    saves: bool
    """Whether it saves tensors at all: else there is nothing to free, and another backward may run (CX-11)."""
    attributes: int = WRITABLE
    """What attributes forward sets on its ctx, for somebody to ask for later (CX-02): 0 none, 1 constants, WRITABLE."""
    bound: int = 0
    """Whether its context can leave its worker (H10): 0, else STAYS or LIVE."""
    origins: tuple[tuple[Any, ...], ...] = ()
    """Per output, () if forward made it, else what it is to which argument (DR-01), and a view's place there (OU-12):
    see `Origin`."""
    bumps: Mapping[int, int] = MappingProxyType({})
    """Per argument that is changed in place, by how much its version moves."""
    unchecked: frozenset[tuple[int, bool]] = frozenset()
    """The saved arguments and (True) outputs that hooks packed as something else: they may change (GR-05)."""
    holds: int = 1
    """Bytes that its context alone holds, beside references to arguments and outputs; at least 1 if it holds anything,
    or if that is not known."""
    on: tuple[tuple[str, int], ...] = ()
    """Per device, how many of these bytes are there."""
    fixed: Mapping[int, Any] = MappingProxyType({})
    """By number, the outputs that are no tensors and the same each time."""

    def declares(self, shown: FunctionSignature) -> bool:
        """Tell whether the outputs that this one declares are those that a run has shown."""
        same = [_output_facts(entry) for entry in self.outputs] == [_output_facts(entry) for entry in shown.outputs]
        return same and self.fixed == shown.fixed

    def is_lasting(self) -> bool:
        """Tell whether later calls may go by it: not if there are objects, which are fetched at each call."""
        return all(entry.dtype is not None or number in self.fixed for number, entry in enumerate(self.outputs))


class PendingObservation:
    """What the record of a run is to show of a Function: filled in by the run listener when the record arrives."""

    __slots__ = ("declared", "fn", "general", "key", "learned", "numbers", "presumes", "undefined")

    def __init__(self, key: Any, declared: FunctionSignature | None = None, fn: str = "") -> None:
        self.key = key
        self.fn = fn
        """The Function, of a vjp."""
        self.declared = declared
        """The signature that the Function's `infer` declared, to be replaced by the one that its run shows."""
        self.general: Any = None
        """The key without the values of numbers."""
        self.numbers: Sequence[Any] = ()
        """These values."""
        self.learned: Any = None
        self.undefined: ObservedGradients | None = None
        self.presumes = False
        """Whether it is an `UnconfirmedSignature`: of a call that was recorded before its run had shown what it
        returns."""

    def returned(self, result: Any, node: RecordedFunction | None) -> None:
        """Take note of what the call returned, and of its node."""

    def waited(self, seconds: float) -> None:
        """Take note that recording waited for the run."""


def declared_signature(specs: SpecTable, cls: Any, args: tuple[Any, ...]) -> FunctionSignature | None:
    """Return what the Function's `infer(*specs)` says: one output or a tuple of them, each as (shape, dtype), as
    (shape, dtype, differentiable), or, if it is no tensor, as the `FixedOutput` that it is. They are on the device of
    the arguments. None: only running tells."""
    devices = [a.device for a in args if isinstance(a, Tensor) and a.device is not CPU]
    device = str(devices[0] if devices else CPU)
    with aside(state.here):
        said = cls.infer(*described(args))
    if said is None:
        return None
    entries: list[SpecEntry] = []
    flows: list[bool] = []
    fixed: dict[int, Any] = {}
    try:
        many = not (len(said) == 2 and not isinstance(said[1], tuple | list | FixedOutput))
        for number, one in enumerate(said if many else [said]):
            if isinstance(one, FixedOutput):
                fixed[number] = one
                entries.append(specs.entry(ObjectSpec()))
                flows.append(False)
                continue
            shape, dtype, *flowing = one
            known = np.dtype(dtype)
            entries.append(specs.entry(spec_of_array(tuple(int(n) for n in shape), known.name, None, device)))
            flows.append(is_differentiable(known) and all(flowing))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{cls.__name__}.infer must return (shape, dtype), or a tuple of such pairs for several outputs; "
            f"for {cls.__name__}.apply at {user_site()} it returned {said!r}"
        ) from error
    outputs, count = tuple(entries), len(entries)
    return FunctionSignature(
        None, outputs, tuple(flows), (-1,) * count, None, None, many, True, origins=((),) * count, fixed=fixed
    )


def described(args: Sequence[Any]) -> list[Any]:
    """Return the arguments of a call as `infer` and `cost` get them: specs in the place of tensors."""
    return [ArraySpec(a.shape, a.dtype.name, str(a.device)) if isinstance(a, Tensor) else a for a in args]


def _output_facts(entry: SpecEntry) -> tuple[Any, ...]:
    """Return what an `infer` says of an output: its shape and dtype, and by its arguments the device."""
    spec = entry.spec
    if not isinstance(spec, ArraySpec):
        return ()
    return (spec.shape, spec.dtype) if entry.device is CPU else (spec.shape, spec.dtype, spec.device)


def outputs_text(known: FunctionSignature) -> str:
    """Return the outputs of a Function in words."""
    texts = [
        repr(known.fixed[number])
        if number in known.fixed
        else "an object"
        if entry.dtype is None
        else array_text(entry.shape, entry.dtype.name)
        for number, entry in enumerate(known.outputs)
    ]
    return ", ".join(texts) or "none"


def signature_of_run(specs: SpecTable, learned: FunctionObservation) -> FunctionSignature:
    """Return what a run of a Function showed, from its record."""
    signature, layouts, facts = read_function_run(learned.outputs, learned.saved_inputs, learned.saved_outputs)
    holds, on = facts["holds"]
    arrays = [output if isinstance(output, ObservedArray) else None for output in signature.outputs]
    return FunctionSignature(
        signature,
        tuple(
            [
                specs.entry(ObjectSpec() if one is None else spec_of_array(one.shape, one.dtype, layout, one.device))
                for one, layout in zip(arrays, layouts, strict=True)
            ]
        ),
        tuple([one is not None and one.differentiable for one in arrays]),
        tuple([-1 if one is None else one.twin for one in arrays]),
        signature.saved_inputs,
        signature.saved_outputs,
        signature.as_tuple,
        signature.saves,
        facts["attributes"],
        facts["bound"],
        tuple([() if one is None else one.origin for one in arrays]),
        dict(facts["bumps"]),
        frozenset([(int(position), bool(is_output)) for position, is_output in facts["unchecked"]]),
        int(holds),
        tuple([(device, int(size)) for device, size in on]),
        {
            number: unpickle_value(output.pickled)
            for number, output in enumerate(signature.outputs)
            if isinstance(output, ObservedFixed)
        },
    )
