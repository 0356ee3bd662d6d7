"""`allow_mutation_on_saved_tensors`: in-place changes of saved tensors, allowed in a block by copy-on-write (GR-13).

It is a saved-tensor hook that hears of changes by `PackHooks.about_to_change`: a saved value is copied just before its
memory changes.
"""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any

from raygrad.errors import AutogradError

from ..core.modes import state
from ..core.recorder import Data, Pending
from ..tensor.tensor import Tensor
from .saved_tensor_hooks import PackHooks, saved_tensors_hooks


class _CopyOnChange:
    """One saved value: its memory, until that is about to be changed; its own copy from then on."""

    __slots__ = ("__weakref__", "block", "data")

    def __init__(self, block: allow_mutation_on_saved_tensors, data: Data) -> None:
        self.block = block
        self.data = data


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Clone what graphs have saved before it is changed in place in the block; backward sees the clones.

    Changes through a raw array are not seen. Backward must run in the block.

    Raises:
        RuntimeError: it is entered inside another one.
        AssertionError: what was saved is read outside of the block.
    """

    def __init__(self) -> None:
        super().__init__(self._keep, self._given)
        self._hooks = PackHooks(self._keep, self._given, self._about_to_change)
        self._kept: dict[int, tuple[list[int], list[weakref.ref[_CopyOnChange]]]] = {}
        """By the identity of a version counter, which all that share memory share: it, and what was saved of them."""
        self._entered = False

    def __enter__(self) -> Any:
        if any(hooks.about_to_change is not None for hooks in state.saving):
            raise AutogradError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        super().__exit__(kind, error, tb)
        self._entered = False
        self.clear()

    def clear(self) -> None:
        """Forget what was saved: later changes clone nothing of it."""
        self._kept.clear()

    def _keep(self, tensor: Tensor) -> _CopyOnChange:
        kept = _CopyOnChange(self, tensor._data)
        counter = tensor.counter()
        self._kept.setdefault(id(counter), (counter, []))[1].append(weakref.ref(kept))
        return kept

    def _given(self, kept: _CopyOnChange) -> Tensor:
        if not self._entered:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return Tensor.made(kept.data)

    def _about_to_change(self, tensor: Tensor) -> None:
        for reference in self._kept.pop(id(tensor.counter()), (None, ()))[1]:
            kept = reference()
            if kept is not None and type(kept.data) is not Pending:
                kept.data = kept.data.copy(order="K")
