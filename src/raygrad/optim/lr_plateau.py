"""The schedule `ReduceLROnPlateau`: a learning rate that falls when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from .lr_base import LRScheduler, checked, per_group
from .optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a metric has not improved for more than `patience` steps.

    `step(value)` reads the value: in a session, it waits for a loss that is pending.

    Args:
        optimizer: whose rates are set.
        mode: "min" if less is better, or "max".
        factor: by what the rate is multiplied, less than 1.
        patience: tolerated steps without improvement.
        threshold: the least improvement that counts.
        threshold_mode: "rel", to the best so far, or "abs".
        cooldown: steps after a change that are not counted.
        min_lr: the least rate; one, or a list with one for each group.
        eps: changes of the rate by less than this are not made.

    Raises:
        ValueError: a factor of 1 or more, or an unknown mode.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, got {factor}.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! Use 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! Use 'rel' or 'abs'.")
        self.optimizer = checked(optimizer)
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = per_group("min_lr", min_lr, optimizer)
        self.last_epoch = 0
        self._last_lr = self._now()
        self.reset()

    def reset(self) -> None:
        """Forget the best value, and the number of steps without improvement."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def get_lr(self) -> list[float]:
        return self._now()

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Record a metric, and reduce the rates when it is time."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._now()

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(float(group["lr"]) * self.factor, least)
            if float(group["lr"]) - rate > self.eps:
                group["lr"] = rate

    @property
    def in_cooldown(self) -> bool:
        """Whether steps are not counted yet after a change."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float) -> bool:
        if self.mode == "min":
            bound = self.best * (1.0 - self.threshold) if self.threshold_mode == "rel" else self.best - self.threshold
            return value < bound
        bound = self.best * (self.threshold + 1.0) if self.threshold_mode == "rel" else self.best + self.threshold
        return value > bound
