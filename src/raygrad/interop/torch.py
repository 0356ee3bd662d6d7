"""torch modules and functions as Function nodes: the public function `raygrad.interop.torch.function`, and its callable
at the client.

Parameters and buffers become tensors of raygrad; the module itself stays as it was. `torch_runtime` runs the code.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raygrad.autograd.core.modes import no_grad
from raygrad.autograd.dispatch.creation import from_numpy
from raygrad.autograd.dispatch.random_numbers import randint
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DtypeError
from raygrad.tracebacks import public
from raygrad.workers.code.shipping import pickle_value
from raygrad.workers.code.visitor import named_parts

from .backends import load
from .node import ForeignCallable, ForeignFunction, Runtime, function_class_of
from .torch_runtime import TorchRuntime, TorchSource

SEEDS = 1 << 62
"""The exclusive upper bound of seeds."""


@public
def function(module: Any, *, recompute: bool = False, random: bool = False) -> TorchFunction:
    """Return a torch module, or a function of torch tensors, as something that is called with raygrad's.

    It is taken as it is now: its parameters become leaves (`parameters()`), its buffers and training mode stay with
    what is returned, and the module is not touched again. `module.load_state_dict(returned.state_dict())` brings
    trained values back.

    Args:
        module: an `nn.Module`, or a function that returns tensors for tensors. A function's derivative is taken by its
            tensor arguments only.
        recompute: keep nothing of a forward but its inputs, and run it again in backward, anywhere. Otherwise torch's
            graph stays on the worker that ran forward, and backward runs there.
        random: it draws random numbers (dropout): each call starts from a seed that raygrad draws.

    Raises:
        BackendUnavailable: torch is not installed.
        TypeError: neither a module nor a function; one that captures a module or a tensor that requires grad;
            something that cannot be copied to a worker; parameters that NumPy cannot hold.
    """
    torch = load("torch")
    if isinstance(module, type) or not callable(module):
        raise TypeError(
            f"raygrad.interop.torch.function takes a torch module or a function of tensors, got "
            f"{f'the class {module.__name__}: give it an instance' if isinstance(module, type) else repr(module)}"
        )
    if not isinstance(module, torch.nn.Module):
        _check_captures(torch, module)
        name = str(getattr(module, "__name__", None) or type(module).__name__)
        return TorchFunction(TorchSource(module, False, _name(name), random=random), {}, recompute)
    return _of_module(torch, module, recompute, random)


def _of_module(torch: Any, module: Any, recompute: bool, random: bool) -> TorchFunction:
    """Return a module as a node, with copies of its parameters and buffers."""
    values: dict[str, Tensor] = {}
    stands_for: dict[int, Any] = {}
    for key, parameter in module.named_parameters():
        values[key] = _leaf(torch, type(module).__name__, "parameter", key, parameter)
        stands_for[id(parameter)] = torch.nn.Parameter(
            torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad
        )
    for key, buffer in module.named_buffers():
        values[key] = _leaf(torch, type(module).__name__, "buffer", key, buffer)
        stands_for[id(buffer)] = torch.empty_like(buffer, device="meta")
    skeleton = copy.deepcopy(module, stands_for)
    return TorchFunction(_source(skeleton, random), values, recompute)


class TorchFunction(ForeignCallable):
    """A torch module or function that is called with raygrad's tensors; made by `function`.

    Attributes:
        training: whether the module is in training mode; `train()` and `eval()` switch.
    """

    def __init__(self, source: TorchSource, values: dict[str, Tensor], recompute: bool) -> None:
        super().__init__()
        self._recompute = recompute
        self._values = values
        self._take(source)

    def _take(self, source: TorchSource) -> None:
        self._source = source
        self._class = function_class_of(_TorchNode, source.name, pickle_value(source), self._recompute)

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """Return the parameters with their names, in the module's order; those that it froze do not require grad."""
        return [(name, self._values[name]) for name in self._source.parameters]

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the module's order: what an optimiser is given."""
        return [tensor for _, tensor in self.named_parameters()]

    def named_buffers(self) -> list[tuple[str, Tensor]]:
        """Return the buffers with their names. Those of modules in training mode change with each call."""
        return [(name, self._values[name]) for name in (*self._source.constants, *self._source.state)]

    def state_dict(self) -> dict[str, Any]:
        """Return copies of parameters and buffers as torch tensors, for the module's `load_state_dict`. It waits."""
        torch = load("torch")
        if not self._source.is_module:
            return {}
        return {
            name: torch.from_numpy(np.array(self._values[first].read()))
            for name, first in _first_names(self._source.code).items()
        }

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._source.is_module and bool(self._source.code.training)

    def train(self, mode: bool = True) -> TorchFunction:
        """Put the module and all its parts in training mode, or in evaluation mode; return self."""
        if self._source.is_module:
            skeleton = copy.deepcopy(self._source.code).train(mode)
            self._take(_source(skeleton, self._source.random))
        return self

    def eval(self) -> TorchFunction:
        """Put the module and all its parts in evaluation mode; return self."""
        return self.train(False)

    # ---- a call ------------------------------------------------------------------------------------------------------

    def _own(self) -> list[Tensor]:
        source, values = self._source, self._values
        own = [values[name] for name in (*source.parameters, *source.constants)]
        with no_grad():
            own += [values[name].clone() for name in source.state]  # which the call below moves on
        if source.random:
            own.append(randint(0, SEEDS, ()))
        return own

    def _options(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        return (str(load("torch").get_default_dtype()).removeprefix("torch."),)

    def _keep_state(self, tensors: Sequence[Tensor]) -> None:
        with no_grad():
            for name, value in zip(self._source.state, tensors, strict=True):
                self._values[name].copy_(value.detach())

    def _refusal(self, leaf: Any) -> str | None:
        torch = load("torch")
        if isinstance(leaf, torch.Tensor):
            if leaf.requires_grad:
                return (
                    "an argument is a torch tensor that requires grad, and torch's graph ends here: give a tensor of "
                    "raygrad, or tensor.detach()"
                )
        elif isinstance(leaf, torch.nn.Module):
            return "an argument is a torch module: its parameters would have no gradient; make it part of the module"
        return None


class _TorchNode(ForeignFunction):
    @staticmethod
    def open_payload(payload: bytes) -> Runtime:
        return TorchRuntime(payload)


def _source(skeleton: Any, random: bool) -> TorchSource:
    """Return the pickled form of a module without values."""
    state: list[str] = []
    constants: list[str] = []
    for name, _ in skeleton.named_buffers():
        owner = skeleton.get_submodule(name.rpartition(".")[0])
        (state if owner.training else constants).append(name)
    return TorchSource(
        skeleton,
        True,
        _name(type(skeleton).__name__),
        tuple([name for name, _ in skeleton.named_parameters()]),
        tuple(constants),
        tuple(state),
        random,
        _is_tied(skeleton),
    )


def _is_tied(module: Any) -> bool:
    """Tell whether a parameter or a buffer of a module has several names."""
    ways = (module.named_parameters, module.named_buffers)
    return any(len(list(way())) != len(list(way(remove_duplicate=False))) for way in ways)


def _first_names(module: Any) -> dict[str, str]:
    """Return the names in a module's state_dict, each with the first name of its tensor: tied ones have several."""
    first: dict[int, str] = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        first[id(tensor)] = name
    return {
        name: first[id(tensor)] for name, tensor in module.state_dict(keep_vars=True).items() if id(tensor) in first
    }


def _name(name: str) -> str:
    return name if name.isidentifier() else "torch_function"


def _leaf(torch: Any, module: str, kind: str, name: str, tensor: Any) -> Tensor:
    """Return a tensor of raygrad with a copy of a parameter's or buffer's values.

    Raises:
        TypeError: NumPy has no such array; names it.
    """
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise TypeError(f"{module}: {kind} '{name}' has no shape yet; run the lazy module once before making a node")
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise TypeError(
            f"{module}: {kind} '{name}' is of layout {tensor.layout} on {tensor.device}; nodes take dense ones in the "
            "computer's memory: module.cpu()"
        )
    try:
        array = np.array(tensor.detach().resolve_conj().resolve_neg().numpy(), order="C")
    except TypeError as error:
        raise DtypeError(
            f"{module}: {kind} '{name}' is of {tensor.dtype}, which NumPy has not: module.float()"
        ) from error
    leaf = from_numpy(array)
    if kind == "parameter" and tensor.requires_grad:
        leaf.requires_grad = True
    return leaf


def _check_captures(torch: Any, code: Callable[..., Any]) -> None:
    """Raise if a function captures what should have a gradient, which it would silently not get."""
    pending: list[tuple[str, Any]] = [("", code)]
    if inspect.ismethod(code):
        pending = [("", code.__func__), ("'self'", code.__self__)]
    for _ in range(3):
        found = pending
        pending = []
        for name, value in found:
            if isinstance(value, torch.nn.Module):
                why = "a module, whose parameters would have no gradient: give the module itself to function()"
                raise TypeError(f"the function captures {name}, {why}, or its parameters as arguments")
            if isinstance(value, torch.Tensor) and value.requires_grad:
                raise TypeError(
                    f"the function captures {name}, a torch tensor that requires grad and would have no gradient: make "
                    "it an argument, and call with a tensor of raygrad"
                )
            if value is code or inspect.isfunction(value) or inspect.ismethod(value):
                pending.extend(named_parts(value))
