"""Optimisers, with PyTorch's names, defaults and errors.

- *Optimizer*: what all have in common: parameter groups, `zero_grad`, `state_dict`, `step`.
- *SGD*, *Adam*: how a parameter moves along its gradient.

They are written with tensor operations only. So in a session a step records its arithmetic like any other code: the
parameters and the optimiser's state become pending values, stay on the workers, and fall back to the newest step that
did not fail (H8).
"""

from .adam import Adam as Adam
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD

__all__ = ["SGD", "Adam", "Optimizer"]
