"""The wiring of autograd's layers: the slots that lower layers declare, filled with what upper layers provide.

Modules import only what lies below them. Where a lower layer has to call an upper one, it declares a slot, and
`assemble` fills it when the package is loaded: the tensor methods that are ops, the ops that dispatch and derivatives
call, and the handlers for batched tensors, forward mode and kernels registered by users.
"""

from __future__ import annotations

from types import FunctionType

from . import ops
from .core.catalogue import fill
from .core.transform_handlers import handlers
from .derived.custom_op import applied
from .derived.function_vmap import apply_batched
from .derived.fused_jvp import apply_with_jvp
from .forward_mode.tangents import propagate
from .methods.surface import Surface
from .registry.codegen import has_boundary, with_boundary
from .registry.registry import get_op, list_ops
from .saved.saved_tensors import offer_saved_attributes
from .tensor.tensor import Tensor
from .vmap import batched_call

_OF_CLASSES = frozenset(("__module__", "__dict__", "__weakref__", "__doc__", "__annotations__"))
_INNER = frozenset(("edge",))
"""Methods that only raygrad calls, within functions that cut tracebacks."""


def assemble() -> None:
    """Fill the slots of the lower layers."""
    fill(vars(ops))
    handlers.batched_op = batched_call
    handlers.forward_op = propagate
    handlers.registered_op = applied
    handlers.batched_function = apply_batched
    handlers.forward_function = apply_with_jvp
    _give_methods()
    offer_saved_attributes(get_op(name) for name in list_ops())


def _give_methods() -> None:
    """Add the methods of `Surface` to `Tensor`, except those that it defines itself. Errors of those that do not see to
    that themselves show the user's frames."""
    own = frozenset(vars(Tensor)) | _OF_CLASSES
    for layer in reversed(Surface.__mro__[:-1]):
        for name, value in vars(layer).items():
            if name not in own:
                setattr(Tensor, name, with_boundary(value, __name__) if _is_bare(value) else value)


def _is_bare(value: object) -> bool:
    """Tell whether a member of a class is a method that users call, or Python for them, and has no boundary yet, at
    which tracebacks are cut."""
    if type(value) is not FunctionType or has_boundary(value) or value.__name__ in _INNER:
        return False
    return value.__name__[0] != "_" or value.__name__[-2:] == "__"
