"""The public module `raygrad.func`: the function transforms of `torch.func` (grad, vjp, jvp, jacrev, hessian, vmap),
and modules as functions of their parameters.

A list of names; the transforms are in `raygrad.autograd.transforms` and `raygrad.autograd.vmap`, calls of modules in
`raygrad.nn.stateless`.
"""

from raygrad.autograd.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from raygrad.autograd.vmap.vmap import vmap
from raygrad.nn.stateless import functional_call, stack_module_state

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
