"""The base class of learning rate schedules, `LRScheduler`: step counting, setting rates, saving and loading.

It works on Python numbers alone. A rate is an operand of the update, so that a schedule makes no new plan (H9).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from raygrad.tracebacks import PublicMethods, users_level

from .optimizer import Optimizer


def checked(optimizer: object) -> Optimizer:
    """Return the optimiser given to a schedule, checked.

    Raises:
        TypeError: it is not an `Optimizer`.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


class LRScheduler(PublicMethods, ABC):
    """Sets the learning rates of an optimiser's groups, one step after the other.

    Subclasses give `get_lr`. The first rates are set when it is made; `step` belongs after the optimiser's.

    Attributes:
        optimizer: the optimiser.
        last_epoch: the number of the current step.
        base_lrs: the initial rate of each group.

    Raises:
        TypeError: not an optimiser.
        KeyError: `last_epoch` says that training goes on, and a group does not know what rate it began with.
    """

    _called_within = frozenset(("closed_form", "get_lr"))

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming the scheduler with "
                    f"last_epoch >= 0. This usually happens when resuming a scheduler with an optimizer that was made "
                    "anew: load the optimizer's state_dict first"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._begin()

    def _begin(self) -> None:
        """Set the first rates."""
        self._step_count = 0
        self._begins = True
        try:
            self.step()
        finally:
            self._begins = False

    # ---- a step ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def get_lr(self) -> list[float]:
        """Return the rate of each group at `last_epoch`, from those of the step before."""

    def closed_form(self) -> list[float]:
        """Return the rates of `last_epoch` independent of earlier steps; where no such formula is defined, those of
        `get_lr`."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step, or of a step by its number."""
        if self._step_count == 1 and not self.optimizer._stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call `optimizer.step()` first: "
                "otherwise the first value of the learning rate schedule is skipped",
                UserWarning,
                stacklevel=users_level(),
            )
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr() if epoch is None else self.closed_form())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def get_last_lr(self) -> list[float]:
        """Return the current rates, one for each group."""
        return self._last_lr

    def _now(self) -> list[float]:
        """Return the current rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    # ---- saving and loading ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`: everything but the optimiser."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a schedule of the same kind."""
        vars(self).update(state_dict)


def per_group(what: str, value: Any, optimizer: Optimizer) -> list[Any]:
    """Return one value for each group.

    Raises:
        ValueError: it is a list of another length.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    values: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    if len(values) != groups:
        raise ValueError(f"Expected {groups} values for {what}, one for each parameter group, but got {len(values)}")
    return values
