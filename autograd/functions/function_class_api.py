"""Members of the context that are seen on a Function class or its instance, and members of the class seen on the
context (FN-17, FN-24, FN-25).

Mixins without behaviour of their own. A member of the context is looked up on the context's class; an instance, which
nobody should make, has a context that is attached to nothing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from raygrad.errors import AutogradError

if TYPE_CHECKING:
    from .context import FunctionNode

MADE_BY_METACLASS = frozenset({"_backward_cls", "_traits"})
"""Members of a Function that its metaclass makes, and that are no part of its definition."""

LEGACY = (
    "Legacy autograd function with non-static forward method is deprecated. Write forward and backward as static "
    "methods of {name}, and call {name}.apply(...)"
)


def unwritten_jvp(*args: Any, **kwargs: Any) -> Any:
    """Return the tangent of each output: `jvp(ctx, *tangents)`, given those of the inputs; for forward mode."""
    raise NotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
    )


def warn_of_instance(cls: type, stacklevel: int) -> None:
    """Warn that a Function is used through its class."""
    warnings.warn(
        f"{cls!r} should not be instantiated. The methods of a Function are static: call {cls.__name__}.apply(...) on "
        "the class",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


class ContextMember:
    """A member of the context, read on a Function class or on an instance of one.

    On the class it is the context's own function or property: `Cls.save_for_backward(ctx, x)` is
    `ctx.save_for_backward(x)`.
    """

    def __init__(self, name: str, of_node: bool) -> None:
        self._name = name
        self._of_node = of_node
        """Whether only a node of a graph has it, and never an instance."""

    def __get__(self, instance: FunctionClassMembers | None, owner: Any) -> Any:
        if instance is None:
            found: Any = getattr(owner._backward_cls, self._name, None)
            return found if callable(found) or isinstance(found, property) else self
        if not self._of_node:
            return getattr(instance._context, self._name)
        if self._name == "metadata":
            raise AutogradError(
                f"the node behind this {type(instance).__name__} is gone, and its metadata with it: an instance of a "
                "Function has no node; use ctx.metadata, or output.grad_fn.metadata"
            )
        raise AutogradError(
            f"Attribute '{self._name}' is invalid for this instance of {type(instance).__name__}: an instance of a "
            f"Function is no node of a graph; use ctx.{self._name}, or output.grad_fn.{self._name}"
        )

    def __set__(self, instance: FunctionClassMembers, value: Any) -> None:
        setattr(instance._context, self._name, value)


class FunctionMember:
    """A member of the Function class, read on the context; a user may set an attribute of the same name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: FunctionNode | None, owner: Any) -> Any:
        function = getattr(owner, "_function", None)
        return self if function is None else getattr(function, self._name)


class FunctionMembers:
    """Members of a Function class that its context has as well; a mixin of the context."""


for _name in "forward setup_context backward vjp jvp vmap generate_vmap_rule".split():
    setattr(FunctionMembers, _name, FunctionMember(_name))


class FunctionClassMembers:
    """Members of the `Function` class that subclasses need not define, and members of the context; a mixin of
    `Function`."""

    _backward_cls: ClassVar[type[FunctionNode]]

    generate_vmap_rule: bool = False
    """Whether vmap may run forward and backward on whole batches, instead of calling `vmap`."""

    jvp = staticmethod(unwritten_jvp)

    @staticmethod
    def vmap(*args: Any, **kwargs: Any) -> Any:
        """Return (outputs, out_dims): `vmap(info, in_dims, *args)`, for arguments that have a batch at `in_dims`."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_of_instance(type(self), stacklevel=3)
        self._context = self._backward_cls()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AutogradError(LEGACY.format(name=type(self).__name__))


_OF_CONTEXT = """
    save_for_backward save_for_forward mark_dirty mark_non_differentiable mark_shared_storage set_materialize_grads
    dirty_tensors materialize_grads needs_input_grad non_differentiable requires_grad saved_for_forward saved_tensors
    saved_variables to_save
""".split()
_OF_NODE = "name next_functions register_hook register_prehook maybe_clear_saved_tensors metadata".split()

for _name in (*_OF_CONTEXT, *_OF_NODE):
    setattr(FunctionClassMembers, _name, ContextMember(_name, _name in _OF_NODE))
