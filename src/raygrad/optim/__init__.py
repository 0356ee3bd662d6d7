"""Optimisers, with PyTorch's names, defaults and errors.

- *Optimizer*: the base class: parameter groups, `zero_grad`, `state_dict`, `step`.
- *SGD*, *Adam* and its relatives (*AdamW*, *Adamax*, *NAdam*, *RAdam*), *RMSprop*, *Adagrad*, *Adadelta*: update rules.
- *LBFGS*: a quasi-Newton method with a line search.
- *lr_scheduler*: learning rate schedules.

They are written with tensor operations only. So in a session a step records its arithmetic like any other code: the
parameters and the optimiser's state become pending values, stay on the workers, and fall back to the newest step that
did not fail (H8).
"""

from . import lr_scheduler
from .adagrad import Adadelta, Adagrad
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
]
