"""Learning rate schedules by step number, `raygrad.optim.lr_scheduler`: StepLR, CosineAnnealingLR, SequentialLR and the
like.

With PyTorch's names, values and errors. Most multiply the rate of the step before, so that several can be combined
(`ChainedScheduler`), and continue from a rate that the program sets itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from .lr_base import LRScheduler as LRScheduler
from .lr_base import per_group
from .lr_cycle import OneCycleLR as OneCycleLR
from .lr_plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _FunctionSchedule(LRScheduler):
    """A schedule whose rates come from a function of the program, one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = per_group("lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`, with the attributes of functions that are objects."""
        kept = super().state_dict()
        kept["lr_lambdas"] = [None if isinstance(f, FunctionType) else dict(f.__dict__) for f in self.lr_lambdas]
        return kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        kept = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, kept.pop("lr_lambdas"), strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)
        super().load_state_dict(kept)


class LambdaLR(_FunctionSchedule):
    """The first rate times `lr_lambda(step)`; one function, or a list with one for each group."""

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_FunctionSchedule):
    """The rate of the step before times `lr_lambda(step)`."""

    def get_lr(self) -> list[float]:
        now = self._now()
        return now if self._begins else [lr * f(self.last_epoch) for lr, f in zip(now, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        stays = self.last_epoch == 0 or self.last_epoch % self.step_size != 0
        return self._now() if stays else [lr * self.gamma for lr in self._now()]

    def closed_form(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at each of `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        passed = self.milestones[self.last_epoch]
        return [lr * self.gamma**passed for lr in self._now()] if passed else self._now()

    def closed_form(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` steps.

    Raises:
        ValueError: `factor` is not between 0 and 1.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._now()]
        if self.last_epoch != self.total_iters:
            return self._now()
        return [lr * (1.0 / self.factor) for lr in self._now()]

    def closed_form(self) -> list[float]:
        begun = self.last_epoch >= self.total_iters
        return [base * (self.factor + begun * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps.

    Raises:
        ValueError: a factor is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got "
                f"{start_factor}."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._now()]
        if self.last_epoch > self.total_iters:
            return self._now()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / before) for lr in self._now()]

    def closed_form(self) -> list[float]:
        rise = (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + rise) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._now() if self._begins else [lr * self.gamma for lr in self._now()]

    def closed_form(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate times `(1 - step / total_iters) ** power`."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._now()
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / left_before) ** self.power for lr in self._now()]

    def closed_form(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the first rate to `eta_min` and back along a cosine, in `T_max` steps each way."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step, turn, least = self.last_epoch, self.T_max, self.eta_min
        if step == 0:
            return self._now()
        if self._step_count == 1:  # the first rates of a training that goes on
            return [least + (base - least) * (1 + math.cos(step * math.pi / turn)) / 2 for base in self.base_lrs]
        if (step - 1 - turn) % (2 * turn) == 0:  # where the quotient below is none
            rise = (1 - math.cos(math.pi / turn)) / 2
            return [lr + (base - least) * rise for base, lr in zip(self.base_lrs, self._now(), strict=True)]
        quotient = (1 + math.cos(math.pi * step / turn)) / (1 + math.cos(math.pi * (step - 1) / turn))
        return [quotient * (lr - least) + least for lr in self._now()]

    def closed_form(self) -> list[float]:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class _CompositeSchedule(LRScheduler):
    """A schedule composed of others: they set the rates, and their state is saved with its own."""

    _schedulers: list[LRScheduler]

    def get_lr(self) -> list[float]:
        return self._now()

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` takes."""
        return {**super().state_dict(), "_schedulers": [one.state_dict() for one in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        for one, kept in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            one.load_state_dict(kept)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})


class SequentialLR(_CompositeSchedule):
    """Several schedules one after the other: at each of `milestones` the next one begins, at its own initial rate.

    Raises:
        ValueError: no schedules, one of another optimiser, or not one milestone less than schedules.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        _check_parts(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and number of milestones "
                f"{len(milestones)}"
            )
        self.optimizer = optimizer
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for one in schedulers:  # each has set its own first rates: undone, but for the first one's
            _undo(one)
        schedulers[0]._begin()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step.

        Raises:
            ValueError: an `epoch` is given: which schedule it belongs to depends on the steps before.
        """
        if epoch is not None:
            raise ValueError("SequentialLR.step() takes no epoch: call it once for each step")
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_CompositeSchedule):
    """Several schedules at once: each changes the rates set by the previous one.

    Raises:
        ValueError: no schedules, or one of another optimiser.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        _check_parts(type(self).__name__, schedulers, optimizer)
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._last_lr = self._now()

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step."""
        for one in self._schedulers:
            one.step(epoch)
        self._last_lr = self._now()


def _check_parts(name: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
    if not schedulers:
        raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
    for number, one in enumerate(schedulers):
        if isinstance(one, ReduceLROnPlateau):
            raise ValueError(f"{name} does not support ReduceLROnPlateau, whose steps take a value (number {number})")
        if one.optimizer is not optimizer:
            raise ValueError(f"{name} expects all schedulers to belong to one optimizer, but number {number} does not")


def _undo(scheduler: LRScheduler) -> None:
    for one in getattr(scheduler, "_schedulers", ()):
        _undo(one)
    if not isinstance(scheduler, ChainedScheduler):
        scheduler.last_epoch -= 1
