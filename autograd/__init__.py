"""The autograd room: tensors, Functions, the dynamic engine and the registry of ops.

- *Tensor*: an array, or a value pending in a session, with its place in the backward graph.
- *Function*: a user-written differentiable operation; its *node* is also the `ctx` that forward and backward get.
- *Op*: a built-in operation: a kernel per (op, device, dtype), a shape rule, and a derivative in the public registry.
- *Engine*: the one traversal that eager, recorded and differentiated passes share.
- *Recorder*: the interface to a session, which records an operation instead of running it.
"""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `autograd`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.autograd`", name=__name__
    )

from . import ops as ops  # first: what of it lower layers use are single modules of it

# isort: split
from . import forward_ad, function as function, functional, grad_mode, graph
from .assembly import assemble as _assemble
from .core.modes import enable_grad, no_grad, set_grad_enabled
from .derived.custom_op import declare_op
from .dispatch.dispatch import apply_op
from .engine.engine import backward, grad
from .functions.function import Function
from .functions.legacy import variable
from .functions.nested import NestedIOFunction
from .gradcheck import (
    gradcheck,  # the function hides the module of its name, as in PyTorch
    gradgradcheck,
)
from .graph import Node
from .nodes.anomaly import detect_anomaly, set_detect_anomaly
from .nodes.current_pass import ExecutionEngine, is_multithreading_enabled, set_multithreading_enabled
from .registry.registry import AutogradConfig, list_ops, list_undeclared, register_autograd, register_kernel
from .tensor.inference import inference_mode
from .tensor.tensor import Tensor as Variable  # the old name (LG-13)

_assemble()

__all__ = [
    "AutogradConfig",
    "Function",
    "NestedIOFunction",
    "Node",
    "Variable",
    "apply_op",
    "backward",
    "declare_op",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "list_ops",
    "list_undeclared",
    "no_grad",
    "register_autograd",
    "register_kernel",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

Variable._execution_engine = ExecutionEngine()


def __dir__() -> list[str]:
    """Return what is public: the names in `__all__`, and the submodule of the names around Functions."""
    return sorted([*__all__, "function"])
