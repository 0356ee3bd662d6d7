"""Layers, containers, activations and losses as modules: Linear, Sequential, ReLU, MSELoss and their kind.

Each calls the function of `raygrad.nn.functional` that does its work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raygrad.autograd import ops
from raygrad.autograd.core.modes import no_grad
from raygrad.autograd.dispatch.creation import empty
from raygrad.autograd.tensor.tensor import Tensor

from .module import Module, Parameter

_functions: Any = ops.FUNCTIONAL


class Linear(Module):
    """`input @ weight.T + bias`; both are drawn evenly from within `1 / sqrt(in_features)` of zero."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight: Any = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias: Any = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def forward(self, input: Any) -> Any:
        """Return `input @ weight.T + bias`."""
        return _functions["linear"](input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the extents."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Sequential(Module):
    """Modules that are called one after the other, each with the result of the one before."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        whole: Any = modules[0] if len(modules) == 1 else None
        given: dict[Any, Any] = dict(whole) if isinstance(whole, Mapping) else dict(enumerate(modules))  # pyright: ignore
        for name, module in given.items():
            self.register_module(str(name), module)

    def forward(self, input: Any) -> Any:
        """Return what the last module makes of it."""
        for module in self:
            input = module(input)
        return input

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[index]

    def append(self, module: Module) -> Sequential:
        """Add a module at the end, and return the container."""
        self.register_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list of modules, all of which are submodules."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end, and return the list."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end, and return the list."""
        for module in modules:
            self.append(module)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self._modules.values())
        return ModuleList(found[index]) if isinstance(index, slice) else found[index]


class Identity(Module):
    """Returns its argument."""

    def forward(self, input: Any) -> Any:
        """Return `input`."""
        return input


class Flatten(Module):
    """The dimensions from `start_dim` to `end_dim` made one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """Return `input` flattened."""
        return input.flatten(self.start_dim, self.end_dim)


class Dropout(Module):
    """Zeros with probability `p` while the module is training, the rest scaled up."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p

    def forward(self, input: Any) -> Any:
        """Return `input` with elements dropped."""
        return _functions["dropout"](input, self.p, self.training)


class ReLU(Module):
    """`max(input, 0)`."""

    def forward(self, input: Any) -> Any:
        """Return `max(input, 0)`."""
        return _functions["relu"](input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """Return `tanh(input)`."""
        return _functions["tanh"](input)


class Sigmoid(Module):
    """`1 / (1 + exp(-input))`."""

    def forward(self, input: Any) -> Any:
        """Return `sigmoid(input)`."""
        return _functions["sigmoid"](input)


class GELU(Module):
    """The Gaussian error linear unit."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Return `gelu(input)`."""
        return _functions["gelu"](input, self.approximate)


class Softmax(Module):
    """`softmax` along a dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Return `softmax(input, dim)`."""
        return _functions["softmax"](input, self.dim)


class _Loss(Module):
    """A loss of predictions and targets: the function of its name, with a `reduction`."""

    function: str

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Any, target: Tensor) -> Any:
        """Return the loss."""
        return _functions[self.function](input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean squared error."""

    function = "mse_loss"


class L1Loss(_Loss):
    """The mean absolute error."""

    function = "l1_loss"


class CrossEntropyLoss(_Loss):
    """The cross entropy of logits and classes."""

    function = "cross_entropy"


class NLLLoss(_Loss):
    """The negative log likelihood of log-probabilities and classes."""

    function = "nll_loss"


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of logits and targets."""

    function = "binary_cross_entropy_with_logits"
