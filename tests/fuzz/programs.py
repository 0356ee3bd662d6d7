"""What a random program is: plain data, so that it can be printed, shrunk, kept as a test, and run by any library.

The data and its vocabulary, no library and no chance. `strategies` makes programs, `interpreter`
runs them.

A step is a tuple: its kind, then its arguments. Tensors are named by number: the leaves first, then what the steps
made, in order; a number too large is taken modulo how many there are, so that a program stays one when steps are taken
out.

    ("unary", name, t)                             exp(t)
    ("binary", name, t, u)                         t * u; u may be ("number", x)
    ("reduce", name, t, dim, keepdim)              sum(t, dim, keepdim); values and indices where there are two
    ("along", name, t, dim)                        cumsum, softmax, flip: as many elements come out as went in
    ("matmul", t, u)
    ("join", name, ts, dim)                        cat, stack
    ("where", t, limit, u, v)                      where(t > limit, u, v)
    ("getitem", t, index)                          see `Index`
    ("view", name, t, args)                        one view
    ("views", name, t, args)                       several: unbind, chunk, split
    ("inplace", name, t, args)                     t.name(*args); an argument ("tensor", u) is a tensor
    ("masked_fill_", t, limit, x)                  t.masked_fill_(t > limit, x)
    ("setitem", t, index, u)                       u may be ("number", x)
    ("apply", name, ts)                            a custom Function of `functions`
    ("hook", kind, t)                              a tensor hook; kinds: log, double, clone
    ("node_hook", kind, t)                         a hook of t.grad_fn; kinds: pre, post, pre_double, post_double
    ("post_accumulate", t)
    ("retain_grad", t)
    ("requires_grad_", t, flag)
    ("detach_", t)
    ("data", t, u)                                 t.data = u.data
    ("no_grad" | "enable_grad", steps)
    ("set_grad_enabled", flag)                     as a function: from here on
    ("backward", ts, options)                      options: a dict out of retain_graph, create_graph, inputs
    ("grad", ts, us, options)                      its gradients become tensors of the program, zeros for None
    ("clear", t)                                   t.grad = None
    ("zero_grad", t)                               t.grad.zero_(), if there is one
    ("take_grad", t)                               t.grad becomes a tensor of the program, zeros for None
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Step = tuple[Any, ...]

Index = tuple[Any, ...]
"""An index as plain data: a number, None, "...", ("slice", start, stop, step), ("list", numbers), ("mask", limit)."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor that a program starts from.

    Attributes:
        seed: of its values, which are few and round, so that ties and zeros occur.
    """

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool
    seed: int

    def values(self) -> np.ndarray[Any, Any]:
        return values(self.shape, self.dtype, self.seed)


@dataclass(frozen=True, slots=True)
class Program:
    """Leaves, and steps over them.

    Attributes:
        begin: the number of the first step inside the session, where there is one: those before it are eager.
    """

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    begin: int = 0


_VALUES = np.array([0.5, -1.5, 2.0, 0.75, -0.25, 1.25, 0.0, -2.0, 3.0, 1.0])


def values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Return an array of few and round values, the same at each call."""
    chance = np.random.default_rng(seed)
    array = chance.choice(_VALUES, shape)
    if dtype.startswith("complex"):
        array = array + 1j * chance.choice(_VALUES, shape)
    return np.asarray(array).astype(dtype)
