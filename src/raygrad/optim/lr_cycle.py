"""The one-cycle schedule, `OneCycleLR`: a rise and fall of the learning rate, and of the momentum against it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .lr_base import LRScheduler, per_group
from .optimizer import Optimizer


class _Phase(NamedTuple):
    """A phase of the cycle: its last step, and the start and end of rate and momentum."""

    end: float
    rate: tuple[str, str]
    momentum: tuple[str, str]


class OneCycleLR(LRScheduler):
    """The one-cycle schedule: from a low rate to `max_lr`, and down to a lower one, in `total_steps` steps.

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate; one, or a list with one for each group.
        total_steps: the number of steps; or else `epochs` and `steps_per_epoch`.
        epochs: of the training.
        steps_per_epoch: of the training.
        pct_start: the part of the cycle in which the rate rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether momentum (or the first of betas) goes the other way.
        base_momentum: the least momentum.
        max_momentum: the greatest.
        div_factor: by how much the first rate is less than the highest.
        final_div_factor: by how much the last is less than the first.
        three_phase: whether the rate falls as it rose, before it falls further.
        last_epoch: the number of the last step of a training that goes on.

    Raises:
        ValueError: numbers out of range, or an optimiser without momentum where that is to be cycled.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        end_of_rise = float(pct_start * self.total_steps) - 1
        up, down = ("initial_lr", "max_lr"), ("max_lr", "initial_lr")
        rising, falling = ("base_momentum", "max_momentum"), ("max_momentum", "base_momentum")
        self._schedule_phases = [_Phase(end_of_rise, up, falling)]
        if three_phase:
            self._schedule_phases += [
                _Phase(float(2 * pct_start * self.total_steps) - 2, down, rising),
                _Phase(self.total_steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
            ]
        else:
            self._schedule_phases.append(_Phase(self.total_steps - 1, ("max_lr", "min_lr"), rising))
        highest = per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                first = rate / div_factor
                group.update(initial_lr=first, max_lr=rate, min_lr=first / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.use_beta1 = "betas" in optimizer.defaults
            least, most = (per_group("momentum", value, optimizer) for value in (base_momentum, max_momentum))
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, least, most, strict=True):
                    self._set_momentum(group, high)
                    group.update(max_momentum=high, base_momentum=low)
        super().__init__(optimizer, last_epoch)

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        phases = self._schedule_phases
        begins = (0.0, *[end for end, _, _ in phases[:-1]])
        left = ((begin, phase) for begin, phase in zip(begins, phases, strict=True) if step <= phase[0])
        begin, (end, rate, momentum) = next(left, (begins[-1], phases[-1]))
        part = (step - begin) / (end - begin)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, self._between(group[momentum[0]], group[momentum[1]], part))
        return [self._between(group[rate[0]], group[rate[1]], part) for group in self.optimizer.param_groups]

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start


def _steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """Return the number of steps of the cycle, checked.

    Raises:
        ValueError: it is not given, or not positive.
    """
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch
