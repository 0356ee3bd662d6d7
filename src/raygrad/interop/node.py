"""The Function over code of another framework, its `Runtime` interface and its callable: the same for torch and JAX.

It converts between raygrad's tensors and arrays; a `Runtime` runs the framework's code on arrays. A node is a pure
function of its tensors and its call: parameters, buffers and seeds are among its inputs. What the framework keeps of a
forward (its graph) is a cache that may be gone: then backward runs forward again, on the saved inputs. So a context can
always travel and be rematerialised.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np

from raygrad.autograd.core.batched_data import innermost_vmap_level
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import ResidentMemory
from raygrad.autograd.dispatch.creation import as_tensor
from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError

from .calls import (
    CALLS_KEPT,
    CallCache,
    DerivativeKind,
    ForeignCall,
    Outcome,
    decoded,
    encoded,
    flattened_arguments,
    identity_of,
)

RUNTIMES_KEPT: Final = 256
"""Opened runtimes cached per process."""

Array = np.ndarray[Any, Any]


class RunResult(NamedTuple):
    """The result of a run: arrays, their structure, and the framework's residuals."""

    arrays: list[Array]
    outcome: Outcome
    kept: Any
    nbytes: int = 0
    """Bytes of the residuals."""


class Runtime(ABC):
    """Foreign code, opened in this process."""

    @abstractmethod
    def run(self, call: ForeignCall, arrays: Sequence[Array], needs: Sequence[int]) -> RunResult:
        """Run the code, or the derivative that `call` asks for.

        Args:
            call: what to run, and how the arrays nest.
            arrays: the tensors' values, read-only.
            needs: positions of the arrays whose gradients may be requested; without any, nothing is kept.
        """

    @abstractmethod
    def vjp(
        self, kept: Any, wanted: Sequence[int], cotangents: Sequence[Array | None], retain: bool
    ) -> list[Array | None]:
        """Return the gradients of the `wanted` inputs of the run that kept `kept`; None for an input without influence.

        Args:
            kept: the residuals of a run.
            wanted: positions among the `needs` of that run.
            cotangents: one per array that it gave, None for zero.
            retain: whether `kept` will be used again.
        """

    @abstractmethod
    def infer(
        self, call: ForeignCall, specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> tuple[list[Any], Outcome]:
        """Return the (shape, dtype) of each array that a run would return, and their structure, without running.

        Raises:
            Exception: of any kind, if only a run shows them.
        """


class FrameworkResiduals(ResidentMemory):
    """The residuals that a framework keeps of a run; they are dropped from a context that travels."""

    __slots__ = ("_nbytes", "kept")

    def __init__(self, kept: Any = None, nbytes: int = 0) -> None:
        self.kept = kept
        self._nbytes = nbytes

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The memory that it holds, in bytes."""
        return 0 if self.kept is None else self._nbytes

    def __reduce__(self) -> Any:
        return FrameworkResiduals, ()


class ForeignFunction(Function):
    """The base of the Function classes of interop nodes; each piece of code has a class, which carries it as bytes."""

    payload: ClassVar[bytes] = b""
    """The code, for `open_payload`."""
    key: ClassVar[str] = ""
    """A hash that identifies the payload."""
    recompute: ClassVar[bool] = False

    @staticmethod
    def open_payload(payload: bytes) -> Runtime:
        """Return the runtime of a payload; defined by each framework."""
        raise NotImplementedError("a ForeignFunction is made by raygrad.interop.torch.function or .jax.function")

    @classmethod
    def runtime(cls) -> Runtime:
        """Return the runtime of the code, opened once per process."""
        with _lock:
            return _opened.get(cls.key, lambda: cls.open_payload(cls.payload))

    @classmethod
    def infer(cls, code: bytes, *specs: Any) -> Any:
        """Return the specs of the outputs and their structure, or None if only a run shows them (H3)."""
        call = decoded(code)
        try:
            metas, outcome = cls.runtime().infer(call, [(spec.shape, np.dtype(spec.dtype)) for spec in specs])
        except Exception:  # code that depends on values, or that fails: its run will show which
            return None
        fresh = len(metas) - outcome.state
        output_specs = [(*meta, number < fresh) for number, meta in enumerate(metas)]
        return (*output_specs, outcome)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Apply the code to a call and tensors.

        Raises:
            RuntimeError: inside vmap, which is not built for it.
        """
        if state.here.batches and innermost_vmap_level([arg for arg in args if isinstance(arg, Tensor)]) is not None:
            raise AutogradError(
                f"{cls.__name__}: vmap over code of another framework is not built (nor jacobians and hessians, which "
                "use it): give it the whole batch, and map inside it (torch.func.vmap, jax.vmap)"
            )
        return super().apply(*args, **kwargs)

    @staticmethod
    def forward(ctx: Any, code: bytes, *tensors: Tensor) -> tuple[Any, ...]:
        """Run the code, or a derivative of it, on tensors; the last output is the structure of the others."""
        cls: type[ForeignFunction] = ctx._function
        needs = tuple([i for i, wanted in enumerate(ctx.needs_input_grad[1:]) if wanted and ctx.requires_grad])
        ran = cls.runtime().run(decoded(code), [_array(tensor) for tensor in tensors], needs)
        outputs = [Tensor.made(array) for array in ran.arrays]
        ctx.set_materialize_grads(False)
        ctx.code, ctx.needs = code, needs
        ctx.held = FrameworkResiduals() if cls.recompute else FrameworkResiduals(ran.kept, ran.nbytes)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        if ran.outcome.state:
            ctx.mark_non_differentiable(*outputs[len(outputs) - ran.outcome.state :])
        return (*outputs, ran.outcome)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradients of the tensors: by the framework's residuals, or, under create_graph, by applying this
        Function to the derivative."""
        tensors: tuple[Tensor, ...] = ctx.saved_tensors
        cls: type[ForeignFunction] = ctx._function
        cotangents = grads[:-1]
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        if not wanted or all(grad is None for grad in cotangents):
            return (None,) * (1 + len(tensors))
        if state.here.grad:
            given = [grad is not None for grad in cotangents]
            call = decoded(ctx.code).above(DerivativeKind.VJP, len(tensors), wanted, given)
            found = applied(cls, call, [*tensors, *[grad for grad in cotangents if grad is not None]])
        else:
            arrays = [None if grad is None else _array(grad) for grad in cotangents]
            found = cls._pulled_back(ctx, tensors, wanted, arrays)
        gradients = dict(zip(wanted, found, strict=True))
        return (None, *[gradients.get(position) for position in range(len(tensors))])

    @classmethod
    def _pulled_back(
        cls, ctx: Any, tensors: Sequence[Tensor], wanted: Sequence[int], cotangents: Sequence[Array | None]
    ) -> list[Tensor | None]:
        held: FrameworkResiduals = ctx.held
        task = state.task
        retain = task is None or task.retain
        kept, runtime = held.kept, cls.runtime()
        if kept is None:
            kept = runtime.run(decoded(ctx.code), [_array(tensor) for tensor in tensors], ctx.needs).kept
            retain = False
        elif not retain:
            held.kept = None
        found = runtime.vjp(kept, wanted, cotangents, retain)
        return [None if gradient is None else Tensor.made(gradient) for gradient in found]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangents of the outputs, by applying this Function to the derivative."""
        tensors = ctx.saved_tensors
        carrying = [i for i, tangent in enumerate(tangents[1:]) if tangent is not None]
        call = decoded(ctx.code).above(DerivativeKind.JVP, len(tensors), carrying)
        return (*applied(ctx._function, call, [*tensors, *[tangents[1 + i] for i in carrying]]), None)


_lock = threading.RLock()
_opened: Final = CallCache[Runtime](RUNTIMES_KEPT)


def _array(tensor: Tensor) -> Array:
    found: Any = tensor.read()
    if not isinstance(found, np.ndarray):
        raise AutogradError(
            f"code of another framework runs on the CPU here, and an argument is a {type(found).__name__} of another "
            "device: give it tensor.cpu()"
        )
    array = cast("Array", found)
    return array if all(array.strides) or not array.size else array.copy(order="C")  # frameworks take no expansions


def applied(cls: type[ForeignFunction], call: ForeignCall, tensors: Sequence[Tensor]) -> Any:
    """Apply a node's Function to a call and return the nested results."""
    *outputs, outcome = cls.apply(encoded(call), *tensors)
    return outcome.rebuilt(outputs)


def function_class_of(base: type[ForeignFunction], name: str, payload: bytes, recompute: bool) -> type[ForeignFunction]:
    """Return the Function class of a piece of code."""
    members: dict[str, Any] = {
        "__module__": base.__module__,
        "payload": payload,
        "key": blake2b(base.__name__.encode() + payload, digest_size=16).hexdigest(),
        "recompute": recompute,
        "pinned": not recompute,
    }
    return cast("Any", type(base))(name, (base,), members)


class ForeignCallable(ABC):
    """The callable that users get: foreign code as a node of their graphs."""

    _class: type[ForeignFunction]

    def __init__(self) -> None:
        self._calls = CallCache[bytes](CALLS_KEPT)

    @property
    def function_class(self) -> type[ForeignFunction]:
        """The Function that is applied, for `explain`, `gradcheck` and costs by name."""
        return self._class

    def _own(self) -> list[Tensor]:
        """Return the tensors before the arguments."""
        return []

    def _options(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        return ()

    def _keep_state(self, tensors: Sequence[Tensor]) -> None:
        """Store the new values of buffers; without buffers, do nothing."""
        return

    @abstractmethod
    def _refusal(self, leaf: Any) -> str | None:
        """Return the reason why an argument is refused, None if it is accepted."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the code. Tensors may be anywhere in lists, tuples, named tuples and dicts; arrays become tensors
        without gradient; other leaves are constants of the program."""
        tensors, structure, leaves = flattened_arguments((args, kwargs), _is_array)
        for leaf in (*tensors, *leaves):
            why = self._refusal(leaf)
            if why:
                raise TypeError(f"{self.function_class.__name__}: {why}")
        given = [leaf if isinstance(leaf, Tensor) else as_tensor(leaf) for leaf in tensors]
        own = self._own()
        options = self._options([*own, *given])
        key = (structure, tuple([identity_of(leaf) for leaf in leaves]), len(own), options)
        code = self._calls.get(key, lambda: encoded(ForeignCall(structure, leaves, len(own), options)))
        *outputs, outcome = self.function_class.apply(code, *own, *given)
        if outcome.state:
            self._keep_state(outputs[len(outputs) - outcome.state :])
        return outcome.rebuilt(outputs)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Tensor | np.ndarray) or (hasattr(leaf, "__dlpack__") and not isinstance(leaf, type))
