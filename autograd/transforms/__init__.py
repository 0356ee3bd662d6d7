"""Composable function transforms: the functions of `raygrad.func` (FT-01 to FT-10).

- *reverse*: `grad`, `grad_and_value`, `vjp`: the engine's backward, from aliases of the inputs.
- *forward*: `jvp`, `linearize`: forward mode at a level of their own.
- *jacobian*: `jacrev`, `jacfwd`, `hessian`: one of these along each basis vector.
- *common*: what all of them share about arguments and results.

A transform of reverse mode needs no level: it runs its function on aliases that require grad and lead to the inputs'
own places in the graph. So transforms nest by construction, and a result has a graph only where it leads out of the
transform.
"""

from .forward import jvp, linearize
from .jacobian import hessian, jacfwd, jacrev
from .reverse import grad, grad_and_value, vjp

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
