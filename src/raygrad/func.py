"""Function transforms, under PyTorch's names: `raygrad.func` is what `torch.func` is.

Rules of this file: names only; the transforms are in the autograd room.
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
