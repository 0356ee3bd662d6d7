"""Views: which tensors look at the memory of which, and what a change of one means for the others.

Rules of this file: bookkeeping and replay; `inplace.py` decides when. A view remembers how it was made (its *recipe*),
so that after a change it can be made again: in a session, where memory is not shared, for its value; in a graph, for
its gradient.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import AutogradError

if TYPE_CHECKING:
    from .registry import Op
    from .tensor import Tensor

SWEEP_AT = 16
"""Entries of a list of views at which dead ones are dropped from it."""


Recipe = tuple["Op | None", Any, Any, Sequence[Any], tuple[Any, ...], bool]
"""How a tensor that shares another's memory was made; a plain tuple, since each slice makes one:

- the view op; None for a detached alias,
- what it was made from; of a detached alias a weak reference, so that no graph is held for it,
- whose memory it is, through all views in between (the same; weak if there is an alias in between),
- the operands (of which the first is passed over) and the parameters of the op,
- whether the memory is shared for certain: of a pending value nobody here can tell if `reshape` copies it.
"""


def remember(view: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], sure: bool) -> None:
    """Note that `view` is what a view op made of its first operand."""
    parent: Any = operands[0]
    above = parent._recipe
    _enter(view, (op, parent, parent if above is None else above[2], operands, params, sure))


def remember_alias(alias: Tensor, tensor: Tensor) -> None:
    """Note that `alias` is `tensor` without its history: of a view, the same view of an alias of its parent."""
    recipe = tensor._recipe
    if recipe is None or recipe[0] is None:
        _enter(alias, (None, weakref.ref(tensor), weakref.ref(owner_of(tensor)), (), (), True))
    else:
        parent = _found(recipe[1]).detach()
        _enter(alias, (recipe[0], parent, weakref.ref(owner_of(parent)), *recipe[3:]))


def _enter(view: Tensor, recipe: Recipe) -> None:
    view._recipe = recipe
    owner: Any = recipe[2]
    if type(owner) is weakref.ref:
        owner = owner_of(view)
    views: Any = owner._views
    if views is None:
        views = owner._views = []
    elif len(views) >= SWEEP_AT and not len(views) & (len(views) - 1):  # a power of two: linear in all
        views[:] = [entry for entry in views if entry() is not None]
    views.append(weakref.ref(view))


def _found(tensor: Any) -> Any:
    return tensor() if isinstance(tensor, weakref.ref) else tensor  # pyright: ignore[reportUnknownVariableType]


def parent_of(tensor: Tensor) -> Tensor | None:
    """Return what a view was made from; None for what is no view, or an alias of a tensor that is gone."""
    return None if tensor._recipe is None else _found(tensor._recipe[1])


def owner_of(tensor: Tensor) -> Tensor:
    """Return the tensor whose memory `tensor` looks at: itself if it is no view."""
    if tensor._recipe is None:
        return tensor
    owner = _found(tensor._recipe[2])
    if owner is not None:
        return owner
    parent = parent_of(tensor)  # of aliases that outlived the owner
    while parent is not None:
        tensor, parent = parent, parent_of(parent)
    return tensor


def views_of(owner: Tensor) -> Iterator[Tensor]:
    """Yield the living views of an owner, each after the one it was made from."""
    for entry in list(owner._views or ()):
        view = entry()
        if view is not None:
            yield view


def again(view: Tensor, parent: Tensor) -> Tensor:
    """Return what the recipe of `view` makes of its parent as it is now."""
    from .dispatch import call

    assert view._recipe is not None
    op, _, _, operands, params, _ = view._recipe
    return parent.alias() if op is None else call(op, (parent, *operands[1:]), params)


def written_back(view: Tensor, parent: Tensor, value: Tensor) -> Tensor:
    """Return the value that the parent of a view has once the view has `value`.

    Raises:
        RuntimeError: the kind of view cannot be written through.
    """
    assert view._recipe is not None
    op, _, _, operands, params, sure = view._recipe
    if op is None:
        return value
    if not sure:
        raise AutogradError(unsure_message(view))
    writer = _WRITERS.get(op.name)
    if writer is None:
        raise AutogradError(
            f"a view made by '{op.name}' cannot be changed in place here: clone it first, or use the out-of-place "
            "operation"
        )
    return writer(parent, value, operands, params)


def unsure_message(view: Tensor) -> str:
    """Return why an in-place change cannot tell what else it changes."""
    assert view._recipe is not None
    op = view._recipe[0]
    return (
        f"in a session it is not known whether a result of '{'detach' if op is None else op.name}' (shape "
        f"{list(view.shape)}) shares the memory that is being changed in place: clone it, let it go before the change, "
        "or use the out-of-place operation"
    )


# ---- writing through a view, by the op that made it ------------------------------------------------------------------


def _through_reshape(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    from . import ops

    return ops.reshape(value, parent.shape)


def _through_transpose(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    from . import ops

    return ops.transpose(value, *params)


def _through_permute(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    from . import ops

    return ops.permute(value, [int(axis) for axis in np.argsort(params[0])])


def _through_getitem(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    from . import ops

    return ops.put_region(parent, value, operands[1])


def _through_diagonal(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    from . import ops

    return ops.put_diagonal(parent, value, *params)


def _through_real(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return value + parent.imag * 1j


def _through_imag(parent: Any, value: Any, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return parent.real + value * 1j


_WRITERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("reshape", "view", "squeeze", "unsqueeze"), _through_reshape),
    "transpose": _through_transpose,
    "permute": _through_permute,
    "getitem": _through_getitem,
    "diagonal": _through_diagonal,
    "real": _through_real,
    "imag": _through_imag,
}
