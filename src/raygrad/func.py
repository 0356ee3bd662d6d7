"""The public module `raygrad.func`: the function transforms of `torch.func` (grad, vjp, jvp, jacrev, hessian, vmap).

A list of names; the transforms are in `raygrad.autograd.transforms` and `raygrad.autograd.vmap`.
"""

from raygrad.autograd.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from raygrad.autograd.vmap.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
