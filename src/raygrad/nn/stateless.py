"""Calls of modules with other parameters than their own: `func.functional_call`, `func.stack_module_state`.

A call swaps the tensors in the module's tables, and puts its own ones back.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

from raygrad.autograd.ops import stack
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError
from raygrad.tracebacks import block, public

from .module import Module

Slot = tuple[dict[str, Any], str]
"""Where a module keeps a parameter or buffer: a table of it, and the name there."""


@public
def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its parameters and buffers, which it has again afterwards.

    Args:
        module: the module.
        parameter_and_buffer_dicts: tensors by their dotted names, in one mapping or in several without a name in
            common. What forward assigns to a buffer is put into the one mapping.
        args: a tuple of arguments, or the only one; None for none.
        kwargs: those by keyword.
        tie_weights: a tensor that the module has under several names is replaced under all of them.
        strict: names that are missing are errors, too.

    Raises:
        ValueError: no mappings, or a name in two of them.
        TypeError: a value is no tensor.
        RuntimeError: a name that the module has not, or with `strict` one that is missing.
    """
    given = _merged(parameter_and_buffer_dicts)
    positional = () if args is None else cast("tuple[Any, ...]", args) if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Any]:
    """Return the tensors of one mapping (itself), or of several."""
    if isinstance(dicts, Mapping):
        return cast("dict[str, Any]", dicts)
    if not isinstance(dicts, list | tuple):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts).__name__}"
        )
    several = cast("Sequence[Mapping[str, Any]]", dicts)
    if not all([isinstance(one, Mapping) for one in several]):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for one in several for name in one]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: tensor for one in several for name, tensor in one.items()}


@block
def _replaced(module: Module, given: dict[str, Any], tie_weights: bool, strict: bool) -> Generator[None]:
    """Have a module hold the given tensors in a context manager."""
    slots = _slots_of(module)
    unexpected = [name for name in given if name not in slots]
    missing = [name for name in slots if name not in given]
    wrong = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
    if strict and missing:
        wrong.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if wrong:
        raise AutogradError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(wrong))
    for tensor in given.values():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor!r} is not an instance of raygrad.Tensor")
    own = {name: table[key] for name, (table, key) in slots.items()}
    swapped = dict(given)
    if tie_weights:
        by_tensor = {id(own[name]): tensor for name, tensor in given.items()}
        for name in missing:
            if id(own[name]) in by_tensor:
                swapped[name] = by_tensor[id(own[name])]
    for name, tensor in swapped.items():
        table, key = slots[name]
        table[key] = tensor
    try:
        yield
    finally:
        for name in swapped:
            table, key = slots[name]
            if name in given and table.get(key) is not given[name]:
                given[name] = table.get(key)  # forward has assigned another one
            table[key] = own[name]


def _slots_of(module: Module) -> dict[str, Slot]:
    """Return where the parameters and buffers of a module are, by their dotted names: one that it has twice, twice."""
    return {
        f"{path}.{name}" if path else name: (table, name)
        for path, one in module.named_modules()
        for table in (one._parameters, one._buffers)
        for name, tensor in table.items()
        if tensor is not None
    }


@public
def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of models of one kind by their names, stacked: leaves of their own, which
    `vmap` of a `functional_call` maps over.

    Raises:
        RuntimeError: no models; some of another class or mode, or whose tensors differ in shape or `requires_grad`.
    """
    if not models:
        raise AutogradError("stack_module_state: Expected at least one model, got 0.")
    if any([model.training != models[0].training for model in models]):
        raise AutogradError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any([type(model) is not type(models[0]) for model in models]):
        raise AutogradError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: _stacked(name, [one[name] for one in parameters]) for name in parameters[0]},
        {name: _stacked(name, [one[name] for one in buffers]) for name in buffers[0]},
    )


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors as one leaf."""
    wanted = tensors[0].requires_grad
    if any([tensor.requires_grad != wanted for tensor in tensors]):
        raise AutogradError(f"Expected {name} from each model to have the same .requires_grad")
    made: Tensor = stack([tensor.detach() for tensor in tensors])
    return made.requires_grad_() if wanted else made
