"""The public module `raygrad.func`: the function transforms of `torch.func` (grad, vjp, jvp, jacrev, hessian, vmap).

A list of names; the transforms are in `raygrad.autograd.transforms` and `raygrad.autograd.vmap`.
"""

from raygrad.autograd.transforms import grad as grad
from raygrad.autograd.transforms import grad_and_value as grad_and_value
from raygrad.autograd.transforms import hessian as hessian
from raygrad.autograd.transforms import jacfwd as jacfwd
from raygrad.autograd.transforms import jacrev as jacrev
from raygrad.autograd.transforms import jvp as jvp
from raygrad.autograd.transforms import linearize as linearize
from raygrad.autograd.transforms import vjp as vjp
from raygrad.autograd.vmap.vmap import vmap as vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
