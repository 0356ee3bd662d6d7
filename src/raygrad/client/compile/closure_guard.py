"""Closure guard: the captured state of a compiled function, which must be unchanged for a recording to be replayed.

`compiled` makes one per recording. It adds optimisers and interop nodes to what the workers' guards of user code cover.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from raygrad.interop.node import ForeignCallable
from raygrad.optim.optimizer import Optimizer
from raygrad.workers.code.captured_state import CapturedState
from raygrad.workers.code.guard import frozen_state


def closure_guard(objects: Iterable[Any]) -> CapturedState:
    """Return the tensors that some objects reach and a guard of everything else, optimisers and interop nodes included.

    Raises:
        SessionError: they reach too many objects.
    """
    return CapturedState(objects, (ForeignCallable, Optimizer, SimpleNamespace))


def global_generator_states() -> Any:
    """Return what is another value once somebody has drawn from the generators that Python and NumPy keep."""
    return hash((random.getstate(), frozen_state(np.random.get_state(legacy=False))))
