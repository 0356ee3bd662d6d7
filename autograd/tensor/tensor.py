"""The `Tensor` class: data (an array, or a value pending in a session), version counter, gradient and hooks.

It has what needs no ops. `methods/` holds the other methods (graph, conversions and `print`, ops), which `assembly`
attaches.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import leave, public

from ..core import dtypes
from ..core.array_layout import axis_order_of
from ..core.batched_data import Batched, innermost_data
from ..core.hooks import HookDict, RemovableHandle
from ..core.modes import state
from ..core.recorder import Data, Pending, Recorder
from ..core.size import Size
from ..core.transform_scopes import SCOPES
from ..devices import Device, device_of
from ..devices.defined_sums import add_gradient_in_place
from ..devices.serving import is_device_array
from ..registry.vjp_rules import quiet
from ..storage.version_counter import bump, new_counter
from ..storage.view import has_node, record_alias
from .inference import refuse_saving

if TYPE_CHECKING:
    from ..core.transform_scopes import TransformScope
    from ..methods.surface import Surface
    from ..nodes.accumulator import AccumulateGrad
    from ..nodes.current_pass import ExecutionEngine
    from ..nodes.node import Node
    from ..storage.storage import Storage
    from ..storage.view import View
    from .tangent_levels import Tangents
else:
    Surface = object

_new: Any = object.__new__
_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_add = quiet(np.add)


def strides_of_pending(data: Any) -> tuple[int, ...] | None:
    """Return the strides of a pending value, None if only its kernel knows them, or for anything else."""
    return data.record.recorder.strides(data) if type(data) is Pending else None


@quiet
def _add_to(data: Any, grad: Any) -> None:
    np.add(data, grad, out=data)


class Tensor(Surface):
    """An array with gradient: `raygrad.tensor(data, requires_grad=True)` makes one.

    Attributes:
        grad_fn: the node that made it, None for leaves.
        output_nr: which output of that node it is.
    """

    _data: Data
    _requires_grad: bool = False
    _grad: Tensor | None = None
    _grad_fn: Node | None = None
    """What made it; of a view None, too, once that has ended by a change of its memory: `grad_fn` makes the next."""
    output_nr: int = 0
    _counter: list[int] | None = None
    _made_in: TransformScope | None = None
    """The innermost transform, but vmap, that ran when it was made (FT-07)."""
    _inference: list[int] | None = None
    """The counter of a tensor made in inference mode; the other one is then None."""
    _storage: Storage | None = None
    """The memory that it shares with others; None as long as it was never shared."""
    _view: View | None = None
    """How it shows that memory, if it is no owner of it; of a view with history, its place in the graph, too."""
    _frozen: bool = False
    """A gradient that user code is shown: not to be written to (BW-15)."""
    _tangents: Tangents | None = None
    """Its tangents in forward mode, by level."""
    _hooks: HookDict | None = None
    _after_accumulation: HookDict | None = None
    """What runs after a gradient was added to this leaf's."""
    _accumulator: Callable[[], AccumulateGrad | None] | None = None
    """A weak reference to it, so that leaf and accumulator are no cycle."""
    _retains_grad: bool = False
    _shares_memory: bool = False
    """The array may be written through another name: sessions must not remember what they were sent of it."""
    _converted: Sequence[weakref.ref[Any]] | None = None
    """What nodes may have saved of it in another dtype."""
    _order: tuple[int, ...] | None = None
    _snapshot: tuple[Recorder, int, Pending] | None = None
    """What a session was sent of this leaf, and at which version."""
    __array_priority__ = 1000
    _execution_engine: ClassVar[ExecutionEngine]
    """Where code that runs in a pass leaves what is to be called after it (EN-24)."""

    def __new__(cls, data: Any = (), *, requires_grad: bool = False) -> Tensor:
        if isinstance(data, Tensor):
            return data.detach()
        made = object.__new__(cls)
        if SCOPES:
            made._made_in = state.here.scope
        return made

    def __init__(self, data: Any = (), *, requires_grad: bool = False) -> None:
        """Make a tensor of the default dtype from numbers or lists, or of an array as it is, copied; of a tensor, one
        of the same memory without its history."""
        if isinstance(data, Tensor):
            self.requires_grad = requires_grad
            return
        self._data = np.array(data, dtype=None if isinstance(data, np.ndarray) else dtypes.get_default_dtype())
        if requires_grad:
            self.requires_grad = True

    @classmethod
    def made(cls, data: Data, grad_fn: Node | None = None, output_nr: int = 0) -> Tensor:
        """Return a tensor around `data` as it is; with a producer it requires grad."""
        self = _new(Tensor)
        self._data = data
        if SCOPES:
            self._made_in = state.here.scope
        if grad_fn is not None:
            self._grad_fn = grad_fn
            self.output_nr = output_nr
            self._requires_grad = True
        else:
            self._requires_grad = False
        return self

    def alias(self, *, apart: bool = False) -> Tensor:
        """Return a new tensor of the same memory and version, without history.

        Args:
            apart: of an array of its own, by which nodes tell which of the two they have saved (CX-14).
        """
        other = object.__new__(Tensor)
        if SCOPES:
            other._made_in = state.here.scope
        data = self._data
        other._data = data.view() if apart and type(data) is np.ndarray else data
        if self._inference is None:
            other._counter = self._counter or self.counter()
        else:
            other._inference = self._inference
        if self._shares_memory:
            other._shares_memory = True
        if self._frozen:
            other._frozen = True
        return other

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The extent of each dimension: a tuple, with `numel()`."""
        return Size(self._data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def device(self) -> Device:
        """The device that holds the data."""
        return device_of(innermost_data(self._data))

    @property
    def is_leaf(self) -> bool:
        """Whether no node made it."""
        return self.grad_fn is None

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def counter(self) -> list[int]:
        """Return the version counter, shared by all tensors over this memory."""
        if self._counter is None:
            if self._inference is not None:
                return self._inference
            self._counter = new_counter()
        return self._counter

    def share_counter(self, other: Tensor) -> None:
        """Count changes together with another tensor, of whose memory this is a part."""
        if other._inference is None:
            self._counter = other.counter()
        else:
            self._inference = other._inference

    def counter_to_save(self) -> list[int]:
        """Return the version counter for a graph that saves this tensor.

        Raises:
            RuntimeError: an inference tensor.
        """
        if self._inference is not None:
            raise refuse_saving()
        return self.counter()

    def is_inference(self) -> bool:
        """Tell whether the tensor was made in inference mode."""
        return self._inference is not None

    @property
    def _version(self) -> int:
        if self._inference is not None:
            raise AutogradError("Inference tensors do not track version counter.")
        return int(self.counter()[0])

    def axis_order(self) -> tuple[int, ...] | None:
        """Return the axes from outermost to innermost, as the leaf had them when first asked (EN-32); None for a
        pending value of which only its kernel knows that."""
        if self._order is None:
            data = self._data
            if type(data) is Pending:
                strides = strides_of_pending(data)
                if strides is None:
                    return None
                natural = range(data.ndim)
                expanded = any([not stride and n > 1 for stride, n in zip(strides, data.shape, strict=True)])
                self._order = tuple(natural if expanded else sorted(natural, key=lambda axis: -strides[axis]))
            elif type(data) is _ARRAY or isinstance(data, np.ndarray) or is_device_array(data):
                self._order = axis_order_of(data)
            else:
                self._order = tuple(range(data.ndim))
        return self._order

    def axis_order_at_hand(self) -> tuple[int, ...]:
        """Return `axis_order()`; a value of which only its kernel knows that is waited for."""
        order = self.axis_order()
        return axis_order_of(self._read()) if order is None else order

    # ---- its gradient ---------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None. In a session, finding out whether there is one may wait (H5).

        Raises (on setting):
            TypeError: neither a tensor nor None.
            RuntimeError: another shape or dtype, or the tensor itself.
        """
        grad = self._grad
        if grad is not None and type(grad._data) is Pending and grad._data.defined is None:
            recorder = grad._data.record.recorder
            try:
                defined = recorder.is_defined(grad._data)
            except BaseException as error:  # of any kind: it goes on as it is
                leave(error)
                raise
            if defined:
                grad._data.defined = True
            else:
                grad._data.defined = False
                self._grad = grad = None
        if grad is None and not self._retains_grad and has_node(self):
            warnings.warn(
                "the .grad attribute of a tensor that is not a leaf is read; it is not populated during backward(). "
                "Use .retain_grad() on the tensor to have it populated, or read the .grad of the leaf that was meant",
                UserWarning,
                stacklevel=2,
            )
        return grad

    def grad_for_update(self) -> Tensor | None:
        """Return `.grad` for an optimiser: without waiting where earlier runs showed that it is defined (H5); the run
        fails, and every parameter stays as it was, where it then is not."""
        grad = self._grad
        if grad is not None and type(grad._data) is Pending and grad._data.defined is None and grad._data.assumed:
            return Tensor.made(grad._data.record.recorder.require(grad._data))
        return self.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"assigned grad must be a Tensor or None, got {type(value).__name__}")
            if value is self:
                raise AutogradError("can't assign Variable as its own grad")
            if value.shape != self.shape:
                raise AutogradError(
                    f"assigned grad has data of a different size: got {list(value.shape)}, expected {list(self.shape)}"
                )
            if value.dtype != self.dtype:
                raise AutogradError(
                    f"assigned grad has data of a different type: got {value.dtype}, expected {self.dtype}"
                )
            if value.device != self.device:
                raise AutogradError(
                    f"assigned grad has data located on a different device: got {value.device}, expected {self.device}"
                )
        if state.here.recorder is not None:
            state.here.recorder.write(self, "_grad", value)
        else:
            self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def hooks_of_gradient(self) -> HookDict:
        """Return what runs when this tensor's gradient is summed: of a non-leaf it belongs to its node's output."""
        if self.grad_fn is not None:
            node = self.grad_fn
            if node._tensor_hooks is None:
                node._tensor_hooks = {}
                node._hooked = True
            return node._tensor_hooks.setdefault(self.output_nr, HookDict())
        if self._hooks is None:
            self._hooks = HookDict()
        accumulator = None if self._accumulator is None else self._accumulator()
        if accumulator is not None:
            accumulator._tensor_hooks = {0: self._hooks}
            accumulator._hooked = True
        return self._hooks

    @public
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(tensor)` after each pass's gradient was added to this leaf's `.grad`.

        The hook may change the tensor, or assign to its `.grad`. `grad()` accumulates nothing and does not run it. In
        a session it is called in this process while the pass is recorded; what it does to tensors runs on the workers.

        Raises:
            RuntimeError: the tensor is no leaf, or does not require grad.
        """
        if not self._requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise AutogradError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors: nothing is accumulated there; "
                "use register_hook"
            )
        if not callable(hook):
            raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
        if self._after_accumulation is None:
            self._after_accumulation = HookDict()
        return RemovableHandle(self._after_accumulation, hook)

    @public
    def retain_grad(self) -> None:
        """Keep this non-leaf's gradient in `.grad` too.

        Raises:
            RuntimeError: the tensor does not require grad, or this is inside a function that is being transformed.
        """
        self._refuse_in_transform("retain_grad")
        if not self._requires_grad:
            raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
        if self.grad_fn is None or self._retains_grad:
            return
        self._retains_grad = True
        if self.grad_fn._retained is None:
            self.grad_fn._retained = {}
            self.grad_fn._hooked = True
        self.grad_fn._retained[self.output_nr] = weakref.ref(self)

    def _refuse_in_transform(self, method: str) -> None:
        if state.here.transforms:
            raise AutogradError(
                f"You are attempting to call Tensor.{method}() inside of a function being transformed by "
                f"{state.here.transforms[-1]}. This is unsupported: use the transforms (e.g. grad, vjp, jacrev, "
                f"jacfwd, hessian), or call {method}() outside of the function"
            )

    @property
    def retains_grad(self) -> bool:
        """Whether this is a non-leaf that keeps its gradient."""
        return self._retains_grad

    def detach(self) -> Tensor:
        """Return a tensor of the same memory and version that requires no grad."""
        other = self.alias(apart=True)
        if type(self._data) is Batched:
            batched = self._data
            other._data = Batched(batched.value.detach(), batched.dim, batched.level)
        else:
            record_alias(other, self)
        return other

    # ---- in place -------------------------------------------------------------------------------------------------

    def add_in_place(self, grad: np.ndarray[Any, Any]) -> None:
        """Add to the data in place and bump the version: how `.grad` accumulates."""
        data = self.read()
        if type(data) is not _ARRAY and is_device_array(data):
            self._data = add_gradient_in_place(data, grad)
        elif data.flags.writeable:
            _add_to(data, grad)
        else:  # what a session handed out, or an expansion: not ours to write to
            self._data = np.asarray(_add(data, grad))
        bump(self.counter())
