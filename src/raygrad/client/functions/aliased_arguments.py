"""Aliased arguments: how a Function that may change an argument in place is given others of the same memory (DR-03).

The Function recorder reads the owner of the memory in place of each such argument, which is a view of it: values are
immutable in a graph, and forward must see its own changes. `workers.interpreter.arguments` rebuilds the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.functions.function_traits import may_mark
from raygrad.autograd.mutation.view_replay import is_sure
from raygrad.autograd.storage.storage import owner_of, parent_of
from raygrad.autograd.storage.stride_geometry import geometry_in_owner
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError
from raygrad.proto.ir.signatures import DIRTY

if TYPE_CHECKING:
    from raygrad.autograd.functions.function import Function

    from ..recording.record_inputs import InputRecorder
    from .observed_signature import FunctionSignature
    from .recorded_function_node import RecordedFunction


class AliasedArguments(NamedTuple):
    """Which arguments of an application are of one memory."""

    owners: dict[int, Tensor]
    """By the position of an argument, the owner of its memory, which other arguments look at, too."""
    where: tuple[Any, ...]
    """See `workers.interpreter.arguments.Where`."""

    def read(self, inputs: InputRecorder, arguments: Sequence[Pending | None]) -> list[Pending | None]:
        """Return, per argument, what is read where only `arguments` would be."""
        read = list(arguments)
        for position, owner in self.owners.items():
            read[position] = inputs.leaf(owner)
        return read

    def save(self, inputs: InputRecorder, node: RecordedFunction, args: Sequence[Any]) -> None:
        """Let the node of the application keep of these what they have become: eagerly what is saved is their memory,
        after forward."""
        counters: list[tuple[int, bool, list[int], int]] = []
        for position, is_output, counter, version in node._versions:
            here = not is_output and position in self.owners
            counters.append((position, is_output, counter, counter[0] if here else version))
        node.__dict__["_versions"] = counters
        for position in self.owners:
            if position in node._saved_inputs:
                value = node._saved_inputs[position] = inputs.leaf(args[position])
                value.record.retained(value.index)


def may_change(cls: type[Function], signature: FunctionSignature | None) -> bool:
    """Tell whether a Function may change an argument in place, by what its runs showed, else by its code."""
    if signature is None or signature.expected is None:
        return may_mark(cls)
    return any(origin[:1] == (DIRTY,) for origin in signature.origins)


def check_aliased(cls: type[Function], args: Sequence[Any]) -> None:
    """Check that the arguments of a Function that ran, and showed that it changes one, were not of one memory: that it
    would its code did not say.

    Raises:
        AutogradError: they were.
    """
    if find_aliased(args) is not None:
        raise AutogradError(
            f"{cls.__name__} was given arguments of one memory, of which it changes one: in a session it sees its "
            "changes by the other name only if forward or setup_context itself names ctx.mark_dirty, which here is "
            "called by something else. Call it there, or clone one of the arguments"
        )


def find_aliased(args: Sequence[Any]) -> AliasedArguments | None:
    """Return which arguments are of one memory, None if no two tensors are; waits where only a value tells."""
    groups: dict[int, list[int]] = {}
    for position, arg in enumerate(args):
        if isinstance(arg, Tensor):
            groups.setdefault(id(owner_of(arg)), []).append(position)
    owners: dict[int, Tensor] = {}
    where: list[Any] = [()] * len(args)
    for positions in groups.values():
        first: dict[int, int] = {}
        for position in positions:
            first.setdefault(id(args[position]), position)
        if len(first) < 2:
            continue
        for position in positions:
            arg = args[position]
            place = geometry_in_owner(arg) if _shares(arg) else None
            if place is not None:
                owners[position] = owner_of(arg)
                where[position] = (tuple(place), arg.shape, first[id(arg)])
    return AliasedArguments(owners, tuple(where)) if len(owners) > 1 else None


def _shares(tensor: Tensor) -> bool:
    """Tell whether a tensor shares the memory of its owner for certain, through all views in between."""
    while (parent := parent_of(tensor)) is not None:
        if not is_sure(tensor):
            return False
        tensor = parent
    return True
