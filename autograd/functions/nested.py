"""`NestedIOFunction`: Functions whose arguments and results are nested containers of tensors (LG-05 to LG-12).

An application is an ordinary one of flat tensors, with the structures as plain data in its first arguments and its last
output; so it is recorded, sent and differentiated as any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, cast

from raygrad.errors import AutogradError

from ..core.pytree import Structure, broadcast_prefix, flatten, unflatten
from ..core.recorder import FixedOutput
from ..nodes.node import FREED
from ..saved.saved_slots import SavedSlot
from ..tensor.tensor import Tensor
from .context import FunctionNode
from .function import Function
from .function_class_api import ContextMember


@dataclass(frozen=True, slots=True)
class Nesting(FixedOutput):
    """The structure of a nested value and which of its leaves are tensors; the other leaves are None."""

    structure: Structure
    present: tuple[bool, ...]

    def rebuilt(self, tensors: Sequence[Any]) -> Any:
        """Return the nested value with `tensors` in their places.

        Raises:
            ValueError: not as many as there are places.
        """
        if len(tensors) != sum(self.present):
            raise ValueError(f"a nesting of {sum(self.present)} tensors cannot be rebuilt from {len(tensors)}")
        given = iter(tensors)
        return unflatten(self.structure, [next(given) if there else None for there in self.present])

    def aligned(self, value: Any) -> list[Any]:
        """Return the entry of `value` for each tensor; None in place of a container stands for None in all of it.

        What is nested otherwise is returned flat, Nones included.
        """
        given, _ = flatten(value)
        found = broadcast_prefix(value if isinstance(value, tuple) else (value,), self.structure)
        if found is None or _defined(found) != _defined(given):
            return given
        kept = [leaf for leaf, there in zip(found, self.present, strict=True) if there]
        strangers = [leaf for leaf, there in zip(found, self.present, strict=True) if not there and leaf is not None]
        return [*kept, *strangers]


def _defined(leaves: Sequence[Any]) -> int:
    return sum(leaf is not None for leaf in leaves)


def flattened_tensors(value: Any) -> tuple[list[Tensor], Nesting]:
    """Return the tensors in a nested value and their nesting.

    Raises:
        ValueError: something in it is neither a tensor nor None nor a list, tuple, named tuple or dictionary.
    """
    leaves, structure = flatten(value)
    for leaf in leaves:
        if leaf is not None and not isinstance(leaf, Tensor):
            raise ValueError(
                f"Auto nesting doesn't know how to process an input object of type {type(leaf).__name__}. Accepted "
                "types: Tensors, None, or lists, tuples, named tuples and dictionaries of them"
            )
    present = tuple([leaf is not None for leaf in leaves])
    return [leaf for leaf in leaves if leaf is not None], Nesting(structure, present)


class NestedNode(FunctionNode):
    """The context of a `NestedIOFunction`: it saves and marks nested values, and has the class's own methods.

    The nestings are kept as attributes, which travel with the context.
    """

    def __getattr__(self, name: str) -> Any:
        """Return a method, property or constant of the Function's class: its code asks `self` for them."""
        found = None if name.startswith("_") else inspect.getattr_static(type(self)._function, name, None)
        if found is None or isinstance(found, ContextMember):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)
        if isinstance(found, property):
            assert found.fget is not None
            return found.fget(self)
        return MethodType(found, self) if isinstance(found, FunctionType) else getattr(type(self)._function, name)

    def save_for_backward(self, *values: Any) -> None:
        """Keep nested values for backward; `to_save` is the flat tuple of their tensors.

        Raises:
            ValueError: something in them is neither a tensor nor None.
        """
        tensors, self._nested_saved = flattened_tensors(values)
        super().save_for_backward(*self._arguments(tensors))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved values, nested as they were given."""
        flat = super().saved_tensors
        nesting: Nesting | None = self.__dict__.get("_nested_saved")
        if nesting is None or len(flat) != sum(nesting.present):  # nothing saved, or forward is still running
            return flat
        return nesting.rebuilt(flat)

    def mark_dirty(self, *values: Any, **named: Any) -> None:
        """Declare the tensors in these nested values as changed in place."""
        super().mark_dirty(*self._arguments(flattened_tensors((values, named))[0]))

    def mark_non_differentiable(self, *values: Any, **named: Any) -> None:
        """Declare the tensors in these nested values as having no derivative."""
        super().mark_non_differentiable(*self._arguments(flattened_tensors((values, named))[0]))

    def _arguments(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return `tensors` with the application's arguments in place of those that forward_extended got."""
        twins: list[tuple[Tensor, Tensor]] = self.__dict__.get("_twins", [])
        return [next((arg for twin, arg in twins if twin is tensor), tensor) for tensor in tensors]

    def _release(self) -> None:
        super()._release()
        _forget(self)

    def freed(self, instead: Sequence[SavedSlot | None] | None = None) -> FunctionNode:
        """Return a copy whose saved tensors and nestings are gone."""
        copy = super().freed(instead)
        _forget(copy)
        return copy


def _forget(node: FunctionNode) -> None:
    for name in ("_nested_inputs", "_nested_output", "_nested_saved"):
        node.__dict__.pop(name, None)


class NestedIOFunction(Function):
    """A Function of nested containers: lists, tuples, named tuples and dictionaries of tensors and None.

    Subclasses write `forward_extended(self, *inputs)` and `backward_extended(self, *grad_outputs)`; `self` is the
    context. Both see values nested as the caller gave, and forward_extended returned, them. Use it as
    `Cls.apply(*inputs)`, or by calling an instance, whose attributes the context is then given.
    """

    _context_type = NestedNode

    def forward_extended(self: Any, *inputs: Any, **named: Any) -> Any:
        """Return the nested outputs, given the nested inputs without history; `self` is the context."""
        raise NotImplementedError("You must implement forward_extended(self, *inputs) for a NestedIOFunction.")

    def backward_extended(self: Any, *grad_outputs: Any, **named: Any) -> Any:
        """Return the gradients of the inputs, nested like them, given those of the outputs; `self` is the context."""
        raise NotImplementedError(
            "You must implement backward_extended(self, *grad_outputs) for a NestedIOFunction to use it with backward."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Apply the Function to nested arguments and return its nested outputs.

        Raises:
            ValueError: something in the arguments is neither a tensor nor None.
            TypeError: arguments that do not fit the signature of forward_extended.
        """
        return cls._applied(args, kwargs, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the Function; the attributes that this instance was given are set on the context first."""
        attributes = {name: value for name, value in vars(self).items() if name != "_context"}
        return self._applied(args, kwargs, attributes or None)

    @classmethod
    def _applied(cls, args: tuple[Any, ...], kwargs: dict[str, Any], attributes: dict[str, Any] | None) -> Any:
        if kwargs:
            bound = inspect.signature(cls.forward_extended).bind(None, *args, **kwargs)
            bound.apply_defaults()
            args = bound.args[1:]
            if bound.kwargs:
                raise TypeError(
                    f"{cls.__name__}: the keyword-only arguments {', '.join(bound.kwargs)} have no place among nested "
                    "inputs; make them positional parameters of forward_extended"
                )
        tensors, nesting = flattened_tensors(args)
        *outputs, produced = super().apply(nesting, attributes, *tensors)
        return cast("Nesting", produced).rebuilt(outputs)

    @staticmethod
    def forward(ctx: Any, nesting: Nesting, attributes: dict[str, Any] | None, *tensors: Tensor) -> tuple[Any, ...]:
        """Run forward_extended on nested inputs and return its tensors, then how they nest."""
        for name, value in (attributes or {}).items():
            setattr(ctx, name, value)
        shown = [tensor.detach() for tensor in tensors]
        ctx._twins = list(zip(shown, tensors, strict=True))
        try:
            result = ctx._function.forward_extended(ctx, *nesting.rebuilt(shown))
            outputs, produced = flattened_tensors(result)
            outputs = ctx._arguments(outputs)
        finally:
            del ctx._twins
        ctx._nested_inputs, ctx._nested_output = nesting, produced
        return (*outputs, produced)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        """Run backward_extended on nested gradients and return those of the flat inputs."""
        if "_nested_output" not in ctx.__dict__:
            raise AutogradError(FREED)
        nested = ctx._nested_output.rebuilt(grad_outputs[:-1])
        result = ctx._function.backward_extended(ctx, *(nested if isinstance(nested, list | tuple) else (nested,)))
        return (None, None, *ctx._nested_inputs.aligned(result))
