"""The update loop of adaptive optimisers: state initialisation and step counts around an optimiser's own rule.

A subclass gives its options, the first values of its state (`initial`), and its update rule (`move`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from raygrad.autograd.tensor.tensor import Tensor

from .direction import direction_of
from .optimizer import Group, Optimizer, ParameterState, zeros_like


class AdaptiveOptimizer(Optimizer):
    """The base of optimisers of real parameters that count steps and keep running values of the gradient."""

    real_only = True

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        if self.begin(kept, param):
            for name, value in self.initial(group, param):
                self.keep(kept, name, value)
        group = self.decayed(group, param)
        direction = direction_of(group, param, grad)
        self.assign(kept["step"], kept["step"] + 1)
        self.move(group, param, direction, kept)

    @abstractmethod
    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the name and first value of each entry of a parameter's state, except the number of steps."""

    @abstractmethod
    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        """Update one parameter along a direction, and its state."""


class MomentOptimizer(AdaptiveOptimizer):
    """The base of optimisers that keep running means of the gradient and of its square."""

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "exp_avg", zeros_like(param)
        yield "exp_avg_sq", zeros_like(param)
