"""Backward node of a built-in op: its derivative rule, its residuals, and the checks before the rule runs.

Dispatch makes it, the engine runs it. Rules are evaluated in `registry/vjp_rules.py`; `dispatch/save_residuals.py`
decides what is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from raygrad.errors import AutogradError

from ..core.recorder import AbstractNodeRecord, Data, Pending, Recorder
from ..registry.registry import get_op
from ..registry.vjp_rules import Meta, OpContext, vjp_arrays, vjp_tensors
from ..storage.version_counter import exchanged, leaf_requiring_grad, stale_message, was_changed, was_detached
from ..tensor.tensor import Tensor
from .accumulator import AccumulateGrad, describe_saved_value
from .node import FREED, NO_EDGE, Edge, Node, call_node, next_sequence

if TYPE_CHECKING:
    from ..registry.registry import Derivative, Op


class OpNode(Node):
    """A built-in op that was applied to tensors. It is what its rule is given as `ctx` where gradients are arrays.

    Attributes:
        rule: the derivative, None if there is none.
        params: the op's static parameters.
        needs_input_grad: per operand, whether its gradient is wanted.
        inputs: per operand (shape, dtype), None for numbers.
        saved_tensors: the residuals in the order that the rule declares; None once they were freed.
        versions: beside them, the version counter of each and what it showed; None for what is no tensor.
    """

    op: Op
    rule: Derivative | None
    params: tuple[Any, ...]
    needs_input_grad: Sequence[bool]
    inputs: Sequence[Meta | None]
    saved_tensors: tuple[Data, ...] | None
    versions: tuple[tuple[list[int], int] | None, ...]
    _origin: AbstractNodeRecord | None = None
    """The record of the op in its session, if it was recorded."""
    tangents: Sequence[Any] | None = None
    """Per residual, the tangents that it carried, if any did."""
    _converts: bool = False
    """It computed with operands in another dtype than they were given in."""

    @property
    def outputs(self) -> Sequence[Meta | None]:
        """Per output (shape, dtype)."""
        return self._metas

    def name(self) -> str:
        """Return the node's name, in PyTorch's form."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def needs(self) -> Sequence[bool]:
        """Return, per operand, whether its gradient is wanted, and needed by the pass."""
        return self.needs_input_grad if self._needed is None else self._needed

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if not self._ready(grads):
            return [None] * len(self._edges)
        rule, saved = cast("Derivative", self.rule), cast("tuple[Data, ...]", self.saved_tensors)
        if recorder is not None and not create_graph:
            return recorder.op_vjp(self, saved, grads)
        residuals = self._residual_tensors(saved) if create_graph else saved
        context = OpContext(residuals, self.params, self.needs(), self.inputs, self._metas)  # type: ignore[arg-type]
        return (vjp_tensors if create_graph else vjp_arrays)(self.op, rule, context, grads)

    def _run_on_arrays(self, grads: list[Data | None]) -> Sequence[Data | None]:
        rule = self.rule
        if rule is not None and self.saved_tensors is not None and grads[0] is not None:
            for entry in self.versions:
                if entry is not None and entry[0][0] != entry[1]:
                    break
            else:
                return vjp_arrays(self.op, rule, self, grads)
        if not self._ready(grads):
            return [None] * len(self._edges)
        return vjp_arrays(self.op, cast("Derivative", self.rule), self, grads)

    def _run_recorded(self, grads: list[Data | None], recorder: Recorder) -> Sequence[Data | None]:
        saved = self.saved_tensors
        if saved is not None and self.rule is not None:
            for entry in self.versions:
                if entry is not None and entry[0][0] != entry[1]:
                    break  # the check of the version may replace what is saved
            else:
                again = recorder.repeat_op_vjp(self, saved, grads)
                if again is not None:
                    return again
        return self._run(grads, False, recorder)

    def _ready(self, grads: Sequence[Data | None]) -> bool:
        """Tell whether a gradient arrived at any output, after checking that the rule can run.

        Raises:
            MissingDerivative: there is no rule.
            AutogradError: what was saved for it was freed, or changed in place since.
        """
        if self.rule is None:
            meta = self._metas[0]
            raise self.op.missing(self._device(0).type, meta[1] if meta else "?")
        if self.saved_tensors is None:
            raise AutogradError(FREED)
        for entry in self.versions:
            if entry is not None and entry[0][0] != entry[1]:
                self._check_versions()
        for grad in grads:
            if grad is not None:
                break
        else:
            return False
        return True

    def _release(self) -> None:
        for data in self.saved_tensors or ():
            if type(data) is not tuple and data is not None:  # of what keeps no value nothing is freed
                self.saved_tensors = None
                return

    def _holds(self) -> bool:
        return bool(self.saved_tensors)

    def keep_in(self, slot: int, value: Data, version: tuple[list[int], int] | None) -> None:
        """Replace the value of a slot, and the version counter by which it is checked."""
        saved, versions = self.saved_tensors, self.versions
        assert saved is not None
        self.saved_tensors = (*saved[:slot], value, *saved[slot + 1 :])
        self.versions = (*versions[:slot], version, *versions[slot + 1 :])

    def _recorder_of(self) -> Recorder | None:
        return None if self._origin is None else self._origin.recorder

    def __call__(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs, given those of the outputs; nothing is freed and no hook runs.

        Returns:
            One tensor or None per tensor input; not in a tuple if there is one input only.
        """
        return call_node(self, grads)

    def _input_metas(self) -> Sequence[Meta | None]:
        return self.inputs

    def keep_old_value(self, old: Data, counter: list[int], copy: Callable[[Data], Data]) -> None:
        """Keep what `copy` makes of a value that is about to be replaced by this op's result in place (a copy, or a
        pending value itself), where it was saved as what is changed; as another operand (`x.mul_(x)`) it gets stale."""
        if self.saved_tensors is None or self.rule is None:
            return
        for slot, entry in enumerate(self.versions):
            if entry is not None and entry[0] is counter and self.rule.saves[slot] == 0:
                held = self.saved_tensors[slot]
                self.keep_in(slot, copy(old) if held is old else held, None)

    def _check_versions(self) -> None:
        for slot, entry in enumerate(self.versions):
            if entry is not None and entry[0][0] != entry[1]:
                self.check_version(slot, *entry)
                self._exchange(slot, entry)

    def _exchange(self, slot: int, version: tuple[list[int], int]) -> None:
        """Keep in a slot what the operand that was saved there holds now: its data may have been exchanged (CX-14)."""
        assert self.saved_tensors is not None
        assert self.rule is not None
        held, position = self.saved_tensors[slot], self.rule.saves[slot]
        edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
        data = exchanged(version[0], held, edge, output=position < 0)
        if data is not held:
            if type(data) is Pending:
                data.record.retained(data.index)
            self.keep_in(slot, data, version)

    def check_version(self, slot: int, counter: list[int], version: int) -> None:
        """Check that what stands in a slot, saved at a version of a counter, is as it was then.

        Raises:
            AutogradError: it was changed in place (CX-13), or detached in place, being an operand (CX-32).
        """
        assert self.rule is not None
        assert self.saved_tensors is not None
        position, data = self.rule.saves[slot], self.saved_tensors[slot]
        edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
        if was_changed(counter, version):
            raise AutogradError(stale_message(describe_saved_value(data, edge, self), counter[0], version))
        if position < 0:
            return
        if was_detached(counter, *edge) and position not in self._detachable():
            raise AutogradError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): operand "
                f"{position} of {self._title()}, a {data.dtype} tensor of shape {list(data.shape)}. Use the "
                "out-of-place .detach() instead"
            )

    def _detachable(self) -> Sequence[int]:
        """Return the operands that may be detached in place after they were saved."""
        assert self.rule is not None
        of = self.rule.config.detachable
        return () if of is None else of(self.inputs)

    def _residual_tensors(self, saved: Sequence[Data]) -> list[Any]:
        """Return the residuals as tensors with their place in the graph, and their tangents."""
        assert self.rule is not None
        out: list[Any] = []
        for slot, (position, data) in enumerate(zip(self.rule.saves, saved, strict=True)):
            held = self.tangents[slot] if self.tangents is not None else None
            if held and data is not None:
                edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
                edge = edge_through_conversion(data, edge) if self._converts else edge
                tensor = Tensor.made(data, edge[0], edge[1])
                tensor._tangents = held
                out.append(tensor)
                continue
            if data is None:
                out.append(None)
                continue
            if position < 0:
                carries = data.dtype.kind in "fc"
                out.append(Tensor.made(data, self, -1 - position) if carries else Tensor.made(data))
                continue
            edge = self._edges[position]
            if edge is None:
                out.append(data)
                continue
            if isinstance(edge[0], AccumulateGrad):
                out.append(edge[0].variable)
                continue
            version = self.versions[slot]
            leaf = None if edge[0] is not None or version is None else leaf_requiring_grad(version[0], data)
            if leaf is not None:
                out.append(leaf)
                continue
            out.append(Tensor.made(data, *(edge_through_conversion(data, edge) if self._converts else edge)))
            if version is not None:  # what saves it anew is to notice changes, too
                out[-1]._counter = version[0]
        return out


def edge_through_conversion(data: Any, edge: Edge) -> Edge:
    """Return the edge of a saved operand: `edge`, through the conversion from the operand's dtype if there was one."""
    below, number = edge
    if below is None or (meta := below._metas[number]) is None or meta[1] == data.dtype:
        return edge
    op = get_op("to_dtype")
    node = OpNode()
    node.op = op
    node.rule = op.sole_rule or op.derivative("cpu", data.dtype)
    node.params = (data.dtype.name,)
    node._edges = (edge,)
    node.needs_input_grad = (True,)
    node.inputs = ((data.shape, meta[1]),)
    node._metas = ((data.shape, data.dtype),)
    node._sequence = next_sequence()
    node.saved_tensors = node.versions = ()
    return node, 0
