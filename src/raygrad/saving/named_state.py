"""Named state: what is saved of named tensors, optimisers, schedules and modules, and its restoring in place.

`Session.save` and `Session.load` are made of it. Restoring checks all tensors before it changes the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from raygrad.autograd.core.modes import no_grad, state
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices.serving import writable
from raygrad.autograd.mutation.inplace import in_place
from raygrad.autograd.storage.version_counter import bump
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import LoadError, SaveError

from .structure import Path, shown_path

VALUE, GRAD = "raygrad.value", "raygrad.grad"
"""The entries of a saved tensor; the second, if it is a leaf that has a gradient."""

MOST_NAMED: Final = 5
"""Names that an error lists."""

Steps: TypeAlias = list[partial[Any]]
"""What restoring does, once all of it is known to fit."""


@runtime_checkable
class Stateful(Protocol):
    """An object that returns its state as nested values, and takes it over again: optimisers and schedules."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@runtime_checkable
class Parametrised(Protocol):
    """An object that names its parameters and buffers: `interop.torch.function(module)`."""

    def named_parameters(self) -> Sequence[tuple[str, Tensor]]: ...

    def named_buffers(self) -> Sequence[tuple[str, Tensor]]: ...


def state_of(value: Any, path: Path) -> Any:
    """Return what is saved of a named value: nested values for `Encoder`.

    Raises:
        SaveError: a container that contains itself.
    """
    if len(path) > 100:
        raise SaveError(f"{shown_path(path[:5])} is nested too deeply, or contains itself", path)
    if isinstance(value, Tensor):
        grad = value.grad if value.is_leaf and value.requires_grad else None
        return {VALUE: value} if grad is None else {VALUE: value, GRAD: grad}
    if isinstance(value, Stateful):
        return value.state_dict()
    if isinstance(value, Parametrised):
        return {name: state_of(one, (*path, name)) for name, one in tensors_of(value).items()}
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        return {key: state_of(one, (*path, key)) for key, one in items.items()}
    kind = cast("Any", type(value))
    if kind is list or kind is tuple:
        inside = [state_of(one, (*path, index)) for index, one in enumerate(cast("list[Any]", value))]
        return inside if kind is list else tuple(inside)
    return value


def tensors_of(value: Parametrised) -> dict[str, Tensor]:
    """Return the parameters and buffers of an object by name."""
    return {**dict(value.named_parameters()), **dict(value.named_buffers())}


def restore(named: Mapping[str, Any], saved: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """Restore named values from what `state_of` returned, and return them by name: what cannot be changed, such as a
    number, as it was saved.

    Args:
        strict: whether all of the names have to be saved, and all that are saved to be named.

    Raises:
        LoadError: what is saved does not fit. No tensor was changed then.
    """
    if strict:
        _check_names(named, saved, ())
    steps: Steps = []
    found = dict(named)
    for name in named:
        if name in saved:
            found[name] = _plan(named[name], saved[name], (name,), strict, steps)
    with no_grad():
        for step in sorted(steps, key=lambda step: step.func is not _load_state):  # what may refuse its state is first
            step()
    return found


def _check_names(here: Any, saved: Any, path: Path) -> None:
    _refuse_names([key for key in here if key not in saved], [key for key in saved if key not in here], path)


def _refuse_names(missing: Sequence[Any], unexpected: Sequence[Any], path: Path) -> None:
    """Raise LoadError if there are such names."""
    if missing or unexpected:
        where = f" in {shown_path(path)}" if path else ""
        kinds = (("missing", missing), ("unexpected", unexpected))
        lines = [f"{what} name(s){where}: {_listed(names)}" for what, names in kinds if names]
        raise LoadError(
            f"what was saved has other names than what it is to be loaded into: {'; '.join(lines)}. strict=False loads "
            "those that both have"
        )


def _listed(names: Sequence[Any]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(repr(name) for name in names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _plan(value: Any, saved: Any, path: Path, strict: bool, steps: Steps) -> Any:
    """Check that a saved state fits a value, add the steps that restore it, and return the value."""
    kind = cast("Any", type(value))
    if isinstance(value, Tensor):
        _plan_tensor(value, saved, path, steps)
    elif isinstance(value, Stateful):
        if not isinstance(saved, dict):
            raise _misfit(path, f"a {kind.__name__}", saved)
        steps.append(partial(_load_state, value, cast("dict[str, Any]", saved), path))
    elif isinstance(value, Parametrised) or issubclass(kind, dict):
        if not isinstance(saved, dict):
            raise _misfit(path, f"a {kind.__name__}", saved)
        inside = tensors_of(value) if isinstance(value, Parametrised) else value
        _plan_entries(inside, cast("dict[Any, Any]", saved), path, strict, steps)
    elif kind is list or kind is tuple:
        return _plan_items(value, saved, path, strict, steps)
    else:
        return plain(saved)
    return value


def _plan_entries(inside: Any, saved: Mapping[Any, Any], path: Path, strict: bool, steps: Steps) -> None:
    """Plan the restoring of a dict. Plain values that came or went since, as results do, come and go again; so does
    anything of a dict that is empty now."""
    missing = [key for key in inside if key not in saved]
    unexpected = [key for key in saved if key not in inside]
    removed = [key for key in missing if not _is_restored(inside[key])]
    added = [key for key in unexpected if not inside or not _has_tensors(saved[key])]
    if strict:
        _refuse_names(
            [key for key in missing if key not in removed], [key for key in unexpected if key not in added], path
        )
    for key in inside:
        if key in saved:
            found = _plan(inside[key], saved[key], (*path, key), strict, steps)
            if found is not inside[key]:
                steps.append(partial(inside.__setitem__, key, found))
    steps += [partial(inside.__delitem__, key) for key in removed]
    steps += [partial(inside.__setitem__, key, plain(saved[key])) for key in added]


def _plan_items(items: Any, saved: Any, path: Path, strict: bool, steps: Steps) -> Any:
    """Return a list, whose steps change it, or a tuple, as it is to be. A list of plain values, or one that is empty
    now, takes over the length that it was saved with."""
    kind = cast("Any", type(items))
    grows = kind is list and not (any(map(_is_restored, items)) or (items and _has_tensors(saved)))
    if type(saved) is not kind or (len(saved) != len(items) and not grows):
        raise _misfit(path, f"a {kind.__name__} of {len(items)} values", saved)
    if grows:
        found = plain(saved)
    else:
        found = [_plan(one, saved[index], (*path, index), strict, steps) for index, one in enumerate(items)]
        if all(one is before for one, before in zip(found, items, strict=True)):
            return items
    if kind is tuple:
        return tuple(found)
    steps.append(partial(items.__setitem__, slice(None), found))
    return items


def _is_restored(value: Any) -> bool:
    """Tell whether a value, or one inside it, is restored in place, and so has to be there."""
    if isinstance(value, dict):
        return any(map(_is_restored, cast("dict[Any, Any]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(_is_restored, cast("list[Any]", value)))
    return isinstance(value, Tensor | Stateful | Parametrised)


def _has_tensors(saved: Any) -> bool:
    if isinstance(saved, dict):
        return any(map(_has_tensors, cast("dict[Any, Any]", saved).values()))
    if isinstance(saved, list | tuple):
        return any(map(_has_tensors, cast("list[Any]", saved)))
    return isinstance(saved, Tensor)


def plain(saved: Any) -> Any:
    """Return what `state_of` was given, of values that had no place to be restored in."""
    kind = cast("Any", type(saved))
    if kind is dict and VALUE in saved:
        if saved.get(GRAD) is not None:
            saved[VALUE].grad = saved[GRAD]
        return saved[VALUE]
    if kind is dict:
        return {key: plain(one) for key, one in saved.items()}
    if kind is not list and kind is not tuple:
        return saved
    make: Any = kind
    return make(map(plain, saved))


def _plan_tensor(tensor: Tensor, saved: Any, path: Path, steps: Steps) -> None:
    parts = cast("dict[str, Any]", saved) if isinstance(saved, dict) else {VALUE: saved}
    kept, grad = parts.get(VALUE), parts.get(GRAD)
    if not isinstance(kept, Tensor):
        raise _misfit(path, "a tensor", saved)
    if kept.shape != tensor.shape:
        raise LoadError(
            f"size mismatch for {shown_path(path)}: a tensor of shape {list(kept.shape)} was saved, and the one that "
            f"it is to be loaded into has shape {list(tensor.shape)}"
        )
    if not np.can_cast(kept.dtype, tensor.dtype, "same_kind"):
        raise LoadError(
            f"dtype mismatch for {shown_path(path)}: a tensor of {kept.dtype} was saved, and the one that it is to be "
            f"loaded into is of {tensor.dtype}"
        )
    steps.append(partial(_assign, tensor, kept))
    if tensor.is_leaf and tensor.requires_grad:
        steps.append(partial(_assign_grad, tensor, grad))


def _assign(tensor: Tensor, value: Tensor) -> None:
    """Set the value of a tensor in place: in a session, the next version of the variable. Read-only memory, as of a
    value fetched from a session, is replaced and not written to."""
    data: Any = tensor._data
    value = value.detach().to(tensor.device, tensor.dtype)
    if type(data) is Pending or state.recorder is not None or writable(data):
        in_place(tensor, lambda _: value)  # with its order of axes, which a recorded `copy_` would not take over
    else:
        tensor.data = value.clone()
        bump(tensor.counter())


def _assign_grad(tensor: Tensor, grad: Any) -> None:
    tensor.grad = grad.detach().to(tensor.device, tensor.dtype) if isinstance(grad, Tensor) else None


def _load_state(value: Stateful, saved: dict[str, Any], path: Path) -> None:
    try:
        value.load_state_dict(saved)
    except BaseException as error:  # of any kind: it goes on as it is
        error.add_note(f"raygrad: while loading the state of {shown_path(path)}")
        raise


def _misfit(path: Path, expected: str, saved: Any) -> LoadError:
    return LoadError(f"{shown_path(path)} is {expected}, and a {type(saved).__name__} was saved under its name")
