"""Packing of nodes' saved tensors by hooks, and the handles and attributes by which users see them (GR-14, CX-29).

Dispatch and Functions call it for new nodes while hooks are in force. The hooks and a packed value are in
`saved_tensor_hooks.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.modes import state
from ..core.recorder import Data, Recorder
from ..nodes.device_nodes import OnDevice
from ..nodes.node import FREED, Edge
from ..nodes.op_node import OpNode
from ..tensor.tensor import Tensor
from .saved_slots import INPUT, OUTPUT, PACKED, SavedSlot
from .saved_tensor_hooks import PackedSavedTensor, PackHooks

if TYPE_CHECKING:
    from ..functions.context import FunctionNode
    from ..registry.registry import Op


class PackedOpNode(OpNode):
    """The node of a built-in op some of whose saved values are packed."""

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self.saved_tensors is None:
            raise AutogradError(FREED)
        self._check_stale()
        if all(grad is None for grad in grads):
            return [None] * len(self._edges)
        if (task := state.here.task) is not None:
            task.arrived = grads
        plain = _Unpacked.__new__(_Unpacked)
        plain.__dict__.update(self.__dict__)
        plain.tensors = [
            held.tensor(edge_of(self, slot)) if isinstance(held, PackedSavedTensor) else None
            for slot, held in enumerate(self.saved_tensors)
        ]
        plain.saved_tensors = tuple(
            [
                held if tensor is None else tensor._data
                for held, tensor in zip(self.saved_tensors, plain.tensors, strict=True)
            ]
        )
        plain.node = self
        return plain._run(grads, create_graph, recorder)

    def _run_on_arrays(self, grads: list[Data | None]) -> Sequence[Data | None]:
        return self._run(grads, False, None)

    def _run_recorded(self, grads: list[Data | None], recorder: Recorder) -> Sequence[Data | None]:
        return self._run(grads, False, recorder)

    def keep_old_value(self, old: Data, counter: list[int], copy: Callable[[Data], Data]) -> None:
        super().keep_old_value(old, counter, copy)
        for held in self.saved_tensors or ():
            if isinstance(held, PackedSavedTensor):
                held.keep_old(old, copy)

    def _check_stale(self) -> None:
        if any(entry is not None and entry[0][0] != entry[1] for entry in self.versions):
            self._check_versions()


class DevicePackedOpNode(OnDevice, PackedOpNode):
    """The same on a device."""

    _repeats = False


class _Unpacked(OpNode):
    """The same node with the tensors that were made of what it keeps, while it runs."""

    tensors: list[Tensor | None]
    node: PackedOpNode

    def _residual_tensors(self, saved: Sequence[Data]) -> list[Any]:
        others = OpNode._residual_tensors(self.node, saved)  # whose outputs are that node's
        for slot, tensor in enumerate(self.tensors):
            if tensor is not None and self.tangents is not None:
                tensor._tangents = self.tangents[slot]
        return [other if tensor is None else tensor for tensor, other in zip(self.tensors, others, strict=True)]


def edge_of(node: OpNode, slot: int) -> Edge | None:
    """Return where the gradient of what stands in a slot goes."""
    assert node.rule is not None
    position = node.rule.saves[slot]
    return node._edges[position] if position >= 0 else (node, -1 - position)


def pack_op(node: OpNode, hooks: PackHooks) -> None:
    """Pack each tensor that the node of a built-in op has saved."""
    for slot, version in enumerate(node.versions):
        if version is not None:
            pack_op_slot(node, slot, hooks)


def pack_op_slot(node: OpNode, slot: int, hooks: PackHooks) -> None:
    """Pack what stands in one slot."""
    entry = node.versions[slot]
    assert node.saved_tensors is not None
    assert entry is not None
    edge = edge_of(node, slot)
    own = edge is not None and edge[0] is node
    packed = PackedSavedTensor(hooks, node.saved_tensors[slot], None if own else edge, entry[0])
    node.keep_in(slot, packed, None)
    kind: Any = DevicePackedOpNode if isinstance(node, OnDevice) else PackedOpNode
    node.__class__ = kind


def pack_function(node: FunctionNode, hooks: PackHooks) -> None:
    """Pack each tensor that a Function has saved."""
    for index, slot in enumerate(node._saved or ()):
        if slot is not None:
            pack_function_slot(node, index, hooks)


def pack_function_slot(node: FunctionNode, index: int, hooks: PackHooks) -> None:
    """Pack what stands in one slot."""
    slots: Any = node._saved
    slot: SavedSlot = slots[index]
    data = slot.value if slot.kind is OUTPUT else slot.value._data
    packed = PackedSavedTensor(hooks, data, node._edges[slot.position] if slot.kind is INPUT else None, slot.counter)
    if slot.kind is not OUTPUT:
        packed.tangents = slot.value._tangents
    slots[index] = SavedSlot(PACKED, slot.position, (slot.kind, packed), slot.counter, slot.version)


# ---- handles ---------------------------------------------------------------------------------------------------------


class SavedTensor:
    """One slot of a node, on which hooks of its own can be set."""

    def __init__(self) -> None:
        raise AutogradError("Trying to create a SavedTensor object from Python is forbidden: a node makes its own")

    _node: Any
    _index: int

    @classmethod
    def of(cls, node: FunctionNode | OpNode, index: int) -> SavedTensor:
        """Return the handle of a slot."""
        self = object.__new__(cls)
        self._node, self._index = node, index
        return self

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Replace what the slot holds by what `pack_hook` makes of it, now.

        Raises:
            TypeError: one of the hooks cannot be called.
            RuntimeError: the slot holds None, has hooks already, or was freed.
        """
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved-tensor hooks must be callable, got {type(hook).__name__}")
        node, index = self._node, self._index
        of_op = isinstance(node, OpNode)
        slots: Any = node.saved_tensors if of_op else node._saved
        if slots is None:
            raise AutogradError(FREED)
        held = slots[index]
        if held is None:
            raise AutogradError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(held, PackedSavedTensor) or (not of_op and held.kind is PACKED):
            raise AutogradError("register_hooks: hooks have already been set on this saved tensor")
        hooks = PackHooks(pack_hook, unpack_hook)
        if of_op:
            pack_op_slot(node, index, hooks)
        else:
            pack_function_slot(node, index, hooks)


def raw_saved_tensors(node: FunctionNode) -> tuple[SavedTensor, ...]:
    """Return a handle for each slot of a Function's node.

    Raises:
        RuntimeError: they were freed.
    """
    if node._saved is None:
        raise AutogradError(FREED)
    return tuple([SavedTensor.of(node, index) for index, _ in enumerate(node._saved)])


_PYTORCH_NAMES = {"self": 0, "other": 1, "result": -1}


def saved_attribute(node: OpNode, name: str) -> Any:
    """Return `_saved_<operand>` (the tensor) or `_raw_saved_<operand>` (its handle) of a built-in op's node; operands
    also by PyTorch's names: self, other, and result for the output.

    Raises:
        AttributeError: nothing of that name is saved.
        RuntimeError: it was freed.
    """
    raw = name.startswith("_raw_saved_")
    operand = name.removeprefix("_raw_saved_" if raw else "_saved_")
    names = node.op.operands
    position = names.index(operand) if operand in names else _PYTORCH_NAMES.get(operand)
    saves = () if node.rule is None else node.rule.saves
    if position is None or position not in saves:
        raise AttributeError(f"'{node._title()}' object has no attribute '{name}'")
    slot = tuple(saves).index(position)
    if node.saved_tensors is None:
        raise AutogradError(FREED)
    if raw:
        return SavedTensor.of(node, slot)
    held, entry = node.saved_tensors[slot], node.versions[slot]
    if isinstance(held, PackedSavedTensor):
        return held.tensor(edge_of(node, slot))
    if entry is not None and entry[0][0] != entry[1]:
        node.check_version(slot, *entry)
    return node._residual_tensors(node.saved_tensors)[slot]


def offer_saved_attributes(ops: Iterable[Op]) -> None:
    """Give nodes of built-in ops an attribute for each name under which one of them saves something. They are
    properties: a `__getattr__` would slow down every read of every attribute of a node."""
    names = {operand.lstrip("*") for op in ops for operand in op.operands} | set(_PYTORCH_NAMES)
    for operand in sorted(names):
        for name in (f"_saved_{operand}", f"_raw_saved_{operand}"):
            setattr(OpNode, name, property(functools.partial(saved_attribute, name=name)))
