"""The base classes of optimisers: parameter groups, state per parameter, the update loop, saving and loading.

They do not know whether values are arrays or pending. Numbers such as the learning rate are operands of the update,
never parameters of an op: a decayed learning rate makes no new plan (H9). A subclass gives its options and update rule.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from raygrad.autograd.core.collector_pause import collector_paused
from raygrad.autograd.core.modes import enable_grad, no_grad, state
from raygrad.autograd.core.recorder import Pending, Recorder
from raygrad.autograd.devices.serving import writable
from raygrad.autograd.dispatch.creation import zeros, zeros_like
from raygrad.autograd.mutation.inplace import in_place
from raygrad.autograd.storage.version_counter import bump
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.tracebacks import PublicMethods, users_level

Group = dict[str, Any]
"""A parameter group: "params", a list of tensors, and one entry per option."""

_COUNTERS = frozenset(("step", "mu_product"))
"""The entries of states that follow from the number of steps alone."""


class ParameterState(dict[str, Any]):
    """The optimiser's state of one parameter, by name; its entries are variables, which a failed run rolls back (H8).

    A variable is rolled back as an attribute, so every entry is an attribute, too; None means that there is no such
    entry.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if value is None:
            self.pop(name, None)
        else:
            self[name] = value


class Optimizer(PublicMethods, ABC):
    """The base class of optimisers, which update parameters from their gradients.

    Subclasses define `update`, which updates one parameter.

    Attributes:
        param_groups: the groups, open to changes between steps: `group["lr"] *= 0.5`.
        state: a `ParameterState` per parameter.
        defaults: the options of groups that do not set their own.

    Raises:
        TypeError: `params` is one tensor, or holds something that is not a tensor.
        ValueError: no parameters, one that is not a leaf, or one in two groups.
    """

    _called_within = frozenset(("initial", "move", "update"))
    real_only: ClassVar[bool] = False
    """Whether complex parameters are refused, since the state keeps squares of gradients."""

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got one Tensor"
            )
        self.defaults = dict(defaults)
        self.state: dict[Tensor, ParameterState] = {}
        self.param_groups: list[Group] = []
        self._stepped = False
        """Whether it has made a step: schedules warn if theirs comes first."""
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: "params" and options that differ from the defaults.

        Raises:
            TypeError: not a dict; parameters in a set, whose order changes from run to run; something not a tensor.
            ValueError: a parameter that is not a leaf, or is in another group already; or a complex one, where only
                real ones are moved.
        """
        if not isinstance(param_group, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        params: list[Tensor] = [given] if isinstance(given, Tensor) else list(given)
        for param in params:
            if not isinstance(param, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len(set(params)) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=users_level())
        if not {known for group in self.param_groups for known in group["params"]}.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append({**self.defaults, **param_group, "params": params})
        if self.real_only and any(param.dtype.kind == "c" for param in params):
            raise ValueError(
                f"{type(self).__name__} moves real parameters; hold the real and imaginary parts of a complex one apart"
            )

    # ---- a step ------------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for _, param in self._parameters():
            if set_to_none:
                param.grad = None
            elif param._grad is not None:
                param.grad = zeros_like(param)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. In a session this submits the step and does not wait for it.

        Args:
            closure: evaluates the model again and returns the loss, which `step` returns.
        """
        loss = None
        self._stepped = True
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group, param in self._parameters():
                grad = param.grad_for_update()
                if grad is not None:
                    self.update(group, param, grad, self.state.setdefault(param, ParameterState()))
        recorder = self._recorder()
        if recorder is not None:
            with collector_paused():
                recorder.submit()
        return loss

    @abstractmethod
    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        """Update one parameter in place, with its state `kept`; called with recording of gradients off."""

    def keep(self, kept: ParameterState, name: str, value: Tensor) -> Tensor:
        """Set an entry of a parameter's state, and return its value."""
        recorder = self._recorder()
        if recorder is None:
            kept[name] = value
        else:
            recorder.write(kept, name, value)
        return value

    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Set the next value of a parameter, or of an entry of its state, in place: in a session, a new version of the
        variable.

        Read-only memory, as of a value fetched from a session, is replaced and not written to.
        """
        data = tensor._data
        if type(data) is Pending or writable(data) or self._recorder() is not None:
            in_place(tensor, lambda _: value)
        else:
            tensor.data = value if value.dtype == tensor.dtype else value.to(tensor.dtype)
            bump(tensor.counter())

    def _parameters(self) -> Iterator[tuple[Group, Tensor]]:
        for group in self.param_groups:
            for param in group["params"]:
                yield group, param

    def _recorder(self) -> Recorder | None:
        """Return the recorder of this step's session, the ambient one or the parameters', or None."""
        if state.recorder is not None:
            return state.recorder
        for _, param in self._parameters():
            for tensor in (param, param._grad):
                data = None if tensor is None else tensor._data
                if type(data) is Pending and not data.record.recorder.closed:
                    return data.record.recorder
        return None

    # ---- saving and loading ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options for `load_state_dict`, with parameters numbered."""
        numbers = {param: number for number, (_, param) in enumerate(self._parameters())}
        return {
            "state": {numbers[param]: dict(kept) for param, kept in self.state.items() if param in numbers},
            "param_groups": [{**g, "params": [numbers[param] for param in g["params"]]} for g in self.param_groups],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state of this optimiser, or of one over like parameters in the same order, also from other
        devices.

        Raises:
            ValueError: the groups do not correspond.
        """
        groups: list[Group] = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        by_number: dict[int, Tensor] = {}
        for saved, group in zip(groups, self.param_groups, strict=True):
            by_number.update(zip(saved["params"], group["params"], strict=True))
            group.update({name: copy.deepcopy(value) for name, value in saved.items() if name != "params"})
        self.state.clear()
        with no_grad():
            for number, entries in state_dict["state"].items():
                param = by_number[number]
                kept = self.state[param] = ParameterState()
                for name, value in entries.items():
                    if not isinstance(value, Tensor):
                        kept[name] = copy.deepcopy(value)
                        continue
                    # what counts steps keeps its own precision; what follows the parameter takes its dtype
                    dtype = value.dtype if name in _COUNTERS and not value.ndim else param.dtype
                    self.keep(kept, name, value.detach().to(param.device, dtype, copy=True))

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines.extend(f"    {name}: {group[name]}" for name in sorted(group) if name != "params")
        return "\n".join([*lines, ")"])


class AdaptiveOptimizer(Optimizer):
    """The base of optimisers of real parameters that count steps and keep running values of the gradient.

    The number of steps is a tensor, as the running values are: in a session it falls back with them when a step fails.
    """

    real_only = True

    def update(self, group: Group, param: Tensor, grad: Tensor, kept: ParameterState) -> None:
        if "step" not in kept:
            self.keep(kept, "step", zeros((), dtype=np.float64, device=param.device))
            for name, value in self.initial(group, param).items():
                self.keep(kept, name, value)
        if "decoupled_weight_decay" in self.defaults and group["decoupled_weight_decay"] and group["weight_decay"] != 0:
            self.assign(param, param * (1 - group["lr"] * group["weight_decay"]))
            group = {**group, "weight_decay": 0}
        direction = direction_of(group, param, grad)
        self.assign(kept["step"], kept["step"] + 1)
        self.move(group, param, direction, kept)

    @abstractmethod
    def initial(self, group: Group, param: Tensor) -> dict[str, Tensor]:
        """Return the first value of each entry of a parameter's state, by name, except the number of steps."""

    @abstractmethod
    def move(self, group: Group, param: Tensor, direction: Tensor, kept: ParameterState) -> None:
        """Update one parameter along a direction, and its state."""


def direction_of(group: Group, param: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient as an update uses it: negated for `maximize`, with `weight_decay * param` added."""
    direction = -grad if group["maximize"] else grad
    if group["weight_decay"] != 0:
        direction = direction.add(param, alpha=group["weight_decay"])
    return direction


def check_rates(options: Mapping[str, float]) -> None:
    """Raise ValueError for the first option that is not a number of at least zero, with its name."""
    for what, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {what}: {value}")


def check_moments(lr: float, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    """Check the options that Adam and its relatives share.

    Raises:
        ValueError: a negative rate, or a beta outside [0, 1).
    """
    check_rates({"learning rate": lr, "epsilon value": eps})
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
    check_rates({"weight_decay value": weight_decay})
