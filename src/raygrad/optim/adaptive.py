"""The update that adaptive optimisers share: the state begins, the steps are counted, and a rule moves the parameter.

An optimiser of this kind is its options, what it keeps for each parameter (`initial`), and its rule (`move`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from raygrad.autograd.tensor.tensor import Tensor

from .direction import direction_of
from .optimizer import Group, Optimizer, ParameterState, zeros_like


class AdaptiveOptimizer(Optimizer):
    """An optimiser of real parameters that counts the steps of each, and keeps running values of its gradient."""

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
        """Yield the name and the first value of each entry of a parameter's state, but for the number of steps."""

    @abstractmethod
    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        """Move one parameter along a direction, and bring what is kept for it up to date."""


class MomentOptimizer(AdaptiveOptimizer):
    """An optimiser that keeps running means of the gradient and of its square."""

    def initial(self, group: Group, param: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "exp_avg", zeros_like(param)
        yield "exp_avg_sq", zeros_like(param)
