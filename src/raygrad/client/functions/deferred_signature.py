"""Deferred signatures: calls of a Function that has run before, but with other specs or options, recorded before their
own run has shown what they return (H3).

How many tensors the Function returns is taken from its earlier runs and its backward. All else is filled in when the
run listener reports the run; who looks at an output before waits for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.tensor.presumed_tensor import DeferredTensor
from raygrad.errors import GraphError
from raygrad.proto.ir.signatures import DIRTY
from raygrad.proto.ir.specs import STAYS

from ..recording.records import SpecEntry
from .numeric_arguments import exact_numbers
from .observed_signature import FunctionSignature
from .unconfirmed_signature import UnconfirmedSignature, difference

if TYPE_CHECKING:
    from raygrad.autograd.functions.function import Function

    from ..recording.records import NodeRecord
    from .functions import FunctionCallInProgress


class DeferredSignature(UnconfirmedSignature):
    """The signature of one call of which no more is known than how many tensors it returns."""

    __slots__ = ("_key", "_structure")

    tensor_class = DeferredTensor

    def __init__(self, call: FunctionCallInProgress, structure: FunctionSignature, key: Any) -> None:
        super().__init__(call)
        self.general, self.numbers = call.general, call.numbers
        self._structure, self._key = structure, key

    def waited(self, seconds: float) -> None:
        self._observed.waited(self._applied.__name__, seconds)

    def rely(self) -> None:
        """Nothing goes by an output before its facts are there."""

    def prepare(self, record: NodeRecord, read: bool) -> None:
        """The run shows what it is, whoever reads it."""

    def confirm(self, record: NodeRecord, found: FunctionSignature, *, failed: bool) -> bool:
        call, structure = self._call, self._structure
        self._call = None
        if call is not None:
            call.recorder.log.calls.discard(record)
        if found.is_lasting():
            self._observed.enter(self.key, found, self.general, self.numbers, self._key)
        same = not failed and is_structure(found, like=structure)
        if same and call is not None and self._take_on(call, record, found):
            return True
        self._observed.structures[self._key] = None
        name = self._applied.__name__
        self.wrong = GraphError(
            f"{name} behaved differently from earlier runs with other arguments: {difference(structure, found)}. What "
            f"it returned was recorded as that number of tensors. Give {name} an infer, which says what it returns, or "
            "read an output (.numpy(), .tolist()) before arguments are changed. With such arguments it is known from "
            "now on"
        )
        return False


def structure_key(function: type[Function], general: Sequence[Any], numbers: Sequence[Any]) -> Any:
    """Return the key of what the number of a call's outputs is taken to depend on.

    The parameters of backward tell how many there are: then it is the code alone. Otherwise options and numbers may
    decide as well, but not the specs of arguments.

    Args:
        function: the Function.
        general: the key of the call without the values of its numbers.
        numbers: these values.
    """
    if outputs_of_backward(function) is not None:
        return general[0]
    return (*[item for item in general if not isinstance(item, SpecEntry)], exact_numbers(numbers))


def outputs_of_backward(function: type[Function]) -> int | None:
    """Return for how many outputs a Function's backward takes gradients; None if its parameters do not tell."""
    traits = function._traits
    if traits.boxed is not False:
        return None
    try:
        _, *gradients = inspect.signature(traits.backward).parameters.values()
    except (TypeError, ValueError):
        return None
    plain = [one for one in gradients if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty]
    return len(gradients) if gradients and len(plain) == len(gradients) else None


def is_structure(signature: FunctionSignature, like: FunctionSignature | None = None) -> bool:
    """Tell whether a signature is of tensors on the host alone, none of which is another one or a changed argument;
    with `like`, of as many as there."""
    if signature.expected is None or signature.fixed or max(signature.twins, default=-1) >= 0:
        return False
    if any(origin[:1] == (DIRTY,) for origin in signature.origins):
        return False
    if any(entry.dtype is None or entry.device is not CPU for entry in signature.outputs):
        return False
    same = like is None or (len(like.outputs), like.as_tuple) == (len(signature.outputs), signature.as_tuple)
    return same and bool(signature.outputs)


def deferred_like(structure: FunctionSignature, unknown: SpecEntry) -> FunctionSignature:
    """Return what is known of a call that returns as many tensors as `structure`."""
    count = len(structure.outputs)
    return FunctionSignature(
        None,
        (unknown,) * count,
        (True,) * count,
        (-1,) * count,
        None,
        (),
        structure.as_tuple,
        saves=True,
        bound=STAYS,
        origins=((),) * count,
    )
