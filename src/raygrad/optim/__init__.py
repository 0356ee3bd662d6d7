"""Optimisers, with PyTorch's names, defaults and errors.

- *Optimizer*: the base class: parameter groups, `zero_grad`, `state_dict`, `step`.
- *SGD*, *Adam* and its relatives (*AdamW*, *Adamax*, *NAdam*, *RAdam*), *RMSprop*, *Adagrad*, *Adadelta*: update rules.
- *lr_scheduler*: learning rate schedules.

They are written with tensor operations only. So in a session a step records its arithmetic like any other code: the
parameters and the optimiser's state become pending values, stay on the workers, and fall back to the newest step that
did not fail (H8).
"""

from . import lr_scheduler as lr_scheduler
from .adagrad import Adadelta as Adadelta
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import Adamax as Adamax
from .adam import AdamW as AdamW
from .adam import NAdam as NAdam
from .adam import RAdam as RAdam
from .optimizer import Optimizer as Optimizer
from .rmsprop import RMSprop as RMSprop
from .sgd import SGD as SGD

__all__ = "SGD Adadelta Adagrad Adam AdamW Adamax NAdam Optimizer RAdam RMSprop lr_scheduler".split()  # pyright: ignore[reportUnsupportedDunderAll]
