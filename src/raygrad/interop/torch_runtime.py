"""Execution of torch modules and functions inside a node: forward, gradients and random numbers, from arrays to arrays.

It knows no tensors of raygrad. The module that runs is a skeleton without values, which gets them for each call and
keeps none. What code changes in place is a private copy; buffers of modules in training are returned as new values;
random numbers start from a seed that is an input.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np

from raygrad.errors import AutogradError, DtypeError
from raygrad.workers.code.shipping import unpickle_value
from raygrad.workers.process.blas_threads import limit_in_force

from .backends import load
from .calls import (
    CALLS_KEPT,
    CallCache,
    DerivativeKind,
    DerivativeLevel,
    ForeignCall,
    Outcome,
    flattened_arguments,
    present_results,
)
from .node import Array, RunResult, Runtime

SIZES_KEPT: Final = 1024
"""Graph sizes cached per module, by call and shapes."""


class TorchSource(NamedTuple):
    """The pickled form of a module or function, and the roles of the tensors before its arguments."""

    code: Any
    """A module without values, or a function."""
    is_module: bool
    name: str
    parameters: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    """Buffers of modules in evaluation."""
    state: tuple[str, ...] = ()
    """Buffers of modules in training."""
    random: bool = False
    tied: bool = False
    """A parameter or buffer has several names."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors before the arguments."""
        return (*self.parameters, *self.constants, *self.state)


class TorchResiduals(NamedTuple):
    """The inputs and outputs of torch's own graph."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]


class _ThreadCopy(threading.local):
    """The code as one thread has it."""

    source: TorchSource | None = None


class TorchRuntime(Runtime):
    """A module or function, opened in this process; a copy for each thread, since torch swaps values in place."""

    def __init__(self, payload: bytes) -> None:
        self._torch = load("torch")
        self._payload = payload
        self._mine = _ThreadCopy()
        self._changed = CallCache[frozenset[int] | None](CALLS_KEPT)
        """Per call, the tensors that the code changes in place: they are copied first. None before its first run."""
        self._sizes = CallCache[int](SIZES_KEPT)
        """Per call and shapes, the bytes that torch's graph keeps alive besides the inputs."""

    @property
    def source(self) -> TorchSource:
        """The code as this thread has it."""
        found = self._mine.source
        if found is None:
            self._mine.source = found = cast("TorchSource", unpickle_value(self._payload))
        return found

    # ---- a node ------------------------------------------------------------------------------------------------------

    def run(self, call: ForeignCall, arrays: Sequence[Array], needs: Sequence[int]) -> RunResult:
        """Run the code, or a derivative of it; keep torch's graph.

        Raises:
            AutogradError: it draws random numbers without a seed, or changes parameters in place.
            TypeError: it returns something that is no dense tensor in memory, or of a dtype that NumPy has not.
        """
        torch = self._torch
        ran_before = self._changed.get(call_of(call), lambda: None) is not None
        with framework_settings(torch, *call.options), torch.set_grad_enabled(bool(needs)):
            tensors = [torch.from_dlpack(array) for array in arrays]
            for position in needs:
                tensors[position].requires_grad_()
            outputs, outcome = self._value(call, len(call.levels), tensors, True)
            held = [*tensors, *(outputs if needs else ())]  # what torch saved must not change with what is handed out
            taken = places_of(held)
            found = [self._array_of(output, taken) for output in outputs]
            if not needs:
                return RunResult(found, outcome, None)
            shapes = tuple([tensor.shape for tensor in tensors])
            count = partial(graph_bytes, outputs, tensors)
            size = self._sizes.get((call, shapes), count) if ran_before else count()
            return RunResult(found, outcome, TorchResiduals(tensors, outputs), size)

    def vjp(
        self, kept: Any, wanted: Sequence[int], cotangents: Sequence[Array | None], retain: bool
    ) -> list[Array | None]:
        """Return the gradients of a run, by torch's own engine."""
        torch = self._torch
        with framework_settings(torch):
            pairs = [
                (output, torch.from_dlpack(cotangent))
                for output, cotangent in zip(kept.outputs, cotangents, strict=True)
                if cotangent is not None and output.requires_grad
            ]
            if not pairs:
                return [None] * len(wanted)
            found = torch.autograd.grad(
                [output for output, _ in pairs],
                [kept.inputs[position] for position in wanted],
                [cotangent for _, cotangent in pairs],
                retain_graph=retain,
                allow_unused=True,
            )
            taken = places_of([cotangent for _, cotangent in pairs])
            return [None if gradient is None else self._array_of(gradient, taken) for gradient in found]

    def infer(
        self, call: ForeignCall, specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> tuple[list[Any], Outcome]:
        """Return the specs of a run's results, by running on tensors without data."""
        torch = self._torch
        with framework_settings(torch, *call.options), torch.device("meta"), torch.no_grad():
            tensors = [torch.empty(shape, dtype=getattr(torch, dtype.name)) for shape, dtype in specs]
            outputs, outcome = self._value(call, len(call.levels), tensors, False)
        return [(tuple(output.shape), str(output.dtype).removeprefix("torch.")) for output in outputs], outcome

    # ---- derivatives -------------------------------------------------------------------------------------------------

    def _value(self, call: ForeignCall, depth: int, tensors: Sequence[Any], real: bool) -> tuple[list[Any], Outcome]:
        """Return the code's results with the first `depth` derivatives taken, as flat tensors."""
        if not depth:
            return self._forward(call, tensors, real)
        level = call.levels[depth - 1]
        below, directions = list(tensors[: level.inputs]), tensors[level.inputs :]
        if level.kind is DerivativeKind.JVP:
            return self._pushed_forward(call, depth, level, below, directions, real)
        torch = self._torch
        differentiated = depth < len(call.levels) or torch.is_grad_enabled()
        with torch.enable_grad():
            for position in level.chosen:
                if not below[position].requires_grad:
                    below[position] = below[position].detach().requires_grad_()
            outputs, _ = self._value(call, depth - 1, below, real)
            cotangents = iter(directions)
            pairs = [(output, next(cotangents)) for output, there in zip(outputs, level.given, strict=True) if there]
            pairs = [(output, cotangent) for output, cotangent in pairs if output.requires_grad]
            found: list[Any] = [None] * len(level.chosen)
            if pairs:
                found = torch.autograd.grad(
                    [output for output, _ in pairs],
                    [below[position] for position in level.chosen],
                    [cotangent for _, cotangent in pairs],
                    create_graph=differentiated,
                    allow_unused=True,
                )
        return present_results(found)

    def _pushed_forward(
        self,
        call: ForeignCall,
        depth: int,
        level: DerivativeLevel,
        below: list[Any],
        tangents: Sequence[Any],
        real: bool,
    ) -> tuple[list[Any], Outcome]:
        forward_ad = self._torch.autograd.forward_ad
        with forward_ad.dual_level():
            for position, tangent in zip(level.chosen, tangents, strict=True):
                below[position] = forward_ad.make_dual(below[position], tangent)
            outputs, outcome = self._value(call, depth - 1, below, real)
            found = [forward_ad.unpack_dual(output).tangent for output in outputs]
        moving = [
            None
            if number >= len(outputs) - outcome.state or not (output.is_floating_point() or output.is_complex())
            else self._torch.zeros_like(output)
            if tangent is None
            else tangent
            for number, (output, tangent) in enumerate(zip(outputs, found, strict=True))
        ]
        return present_results(moving)

    # ---- the code itself ---------------------------------------------------------------------------------------------

    def _forward(self, call: ForeignCall, tensors: Sequence[Any], real: bool) -> tuple[list[Any], Outcome]:
        source = self.source
        given = list(tensors)
        known = self._changed.get(call_of(call), lambda: None)
        copied = range(len(given)) if known is None or not real else known
        for position in copied:
            given[position] = given[position].clone()
        versions = [tensor._version for tensor in given]
        seed = given[call.own - 1] if source.random else None
        args, named = call.arguments(given)
        with self._chance(seed) if real else nullcontext():
            if source.is_module:
                values = dict(zip(source.names, given, strict=False))
                call_with = self._torch.func.functional_call
                result = call_with(source.code, values, args, named, tie_weights=source.tied)
                for position, name in enumerate(source.names):
                    given[position] = values[name]
            else:
                result = source.code(*args, **named)
        if real:
            self._note_changes(call, tensors, given, versions, known)
        outputs, structure, leaves = flattened_arguments(
            result, lambda leaf: isinstance(leaf, self._torch.Tensor), self._no_result
        )
        first = len(source.parameters) + len(source.constants)
        fresh = [given[first + number].detach() for number in range(len(source.state))]
        return [*outputs, *fresh], Outcome(structure, leaves, len(fresh))

    def _note_changes(
        self, call: ForeignCall, before: Sequence[Any], after: Sequence[Any], versions: Sequence[int], known: Any
    ) -> None:
        """Check which tensors the code changed in place; the first time, remember them."""
        source = self.source
        first = len(source.parameters) + len(source.constants)
        state = frozenset(range(first, first + len(source.state)))
        changed: set[int] = set(state)
        for position, (tensor, version) in enumerate(zip(after, versions, strict=True)):
            if position in state or (known is not None and position in known):
                continue
            if tensor._version != version or (known is None and not self._same_bits(before[position], tensor)):
                if position < first:
                    raise AutogradError(self._fixed_value(source.names[position], position < len(source.parameters)))
                if known is not None:
                    raise AutogradError(
                        f"{source.name} changed argument tensor {position - call.own} in place, and had not in its "
                        "first run: let it work on a copy (x.clone()), always"
                    )
                changed.add(position)
        if known is None:
            self._changed.get(call_of(call), lambda: frozenset(changed))

    def _fixed_value(self, name: str, is_parameter: bool) -> str:
        if is_parameter:
            return (
                f"{self.source.name} changed its parameter '{name}' in place: a node gets parameters as inputs, and an "
                "optimiser of raygrad moves them; keep what forward changes in a buffer"
            )
        return (
            f"{self.source.name} changed its buffer '{name}' in place, though the module that owns it is in evaluation "
            "mode: put that module in training mode (.train()), in which buffers come out with new values"
        )

    def _same_bits(self, one: Any, other: Any) -> bool:
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        torch = self._torch
        pair = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
        return bool(torch.equal(*pair))

    @contextmanager
    def _chance(self, seed: Any) -> Generator[None]:
        """Run with torch's generator seeded, and restore it; without a seed, check that nothing was drawn.

        Raises:
            AutogradError: something was.
        """
        generator = self._torch.default_generator
        with _generator_lock.exclusive() if seed is not None else _generator_lock.shared():
            before = generator.get_state()
            try:
                if seed is not None:
                    generator.manual_seed(int(seed))
                yield
            finally:
                drawn = seed is None and not self._torch.equal(before, generator.get_state())
                if seed is not None or drawn:
                    generator.set_state(before)
        if drawn:
            raise AutogradError(
                f"{self.source.name} draws random numbers (dropout in training mode, say), and no seed is given: make "
                "the node with random=True, and they follow from raygrad's own (rg.manual_seed), the same on every "
                "worker; or put the module in evaluation mode (.eval())"
            )

    # ---- arrays ------------------------------------------------------------------------------------------------------

    def _array_of(self, tensor: Any, taken: set[int]) -> Array:
        """Return a tensor as an array that shares memory with no input and no other output."""
        if tensor.layout is not self._torch.strided or tensor.device.type != "cpu":
            raise TypeError(
                f"{self.source.name} returned a tensor of layout {tensor.layout} on {tensor.device}; a node's results "
                "are dense tensors in the computer's memory: return tensor.to_dense(), or tensor.cpu()"
            )
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain._is_zerotensor():  # torch's zeros without memory
            plain = self._torch.zeros(plain.shape, dtype=plain.dtype)
        try:
            array: Array = plain.numpy()
        except TypeError as error:
            raise DtypeError(
                f"{self.source.name} returned a tensor of {tensor.dtype}, which NumPy has not: return tensor.float()"
            ) from error
        place = plain.untyped_storage().data_ptr()
        if array.size and (place in taken or not array.flags.c_contiguous):
            return array.copy(order="C")
        taken.add(place)
        return array

    def _no_result(self, leaf: Any) -> Exception:
        return TypeError(
            f"{self.source.name} returned a {type(leaf).__name__}; a node returns tensors and plain constants, in "
            "lists, tuples, named tuples and dicts"
        )


class GeneratorLock:
    """The lock of torch's generator, which belongs to the process: one thread that seeds it, or any number that do
    not."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._seeding = False
        self._others = 0

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Wait until no other thread is inside, and keep others waiting."""
        with self._turn:
            self._turn.wait_for(lambda: not self._seeding and not self._others)
            self._seeding = True
        try:
            yield
        finally:
            with self._turn:
                self._seeding = False
                self._turn.notify_all()

    @contextmanager
    def shared(self) -> Generator[None]:
        """Wait until no thread seeds the generator."""
        with self._turn:
            self._turn.wait_for(lambda: not self._seeding)
            self._others += 1
        try:
            yield
        finally:
            with self._turn:
                self._others -= 1
                self._turn.notify_all()


_generator_lock: Final = GeneratorLock()


def places_of(tensors: Sequence[Any]) -> set[int]:
    """Return the addresses of tensors' memory."""
    return {
        tensor.untyped_storage().data_ptr()
        for tensor in tensors
        if tensor.numel() and str(tensor.layout) == "torch.strided" and not tensor._is_zerotensor()
    }


def storage_of(saved: Any) -> Any:
    """Return the storage of a tensor that torch saved; None for other values."""
    untyped = getattr(saved, "untyped_storage", None)
    return None if untyped is None else untyped()


def graph_bytes(outputs: Sequence[Any], inputs: Sequence[Any]) -> int:
    """Return the bytes that the nodes of torch's graph behind `outputs` have saved, without those of `inputs`."""
    counted = places_of(inputs)
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen = set(waiting)
    total = 0
    while waiting:
        node = waiting.pop()
        for name in dir(node):
            if not name.startswith("_saved_"):
                continue
            try:
                value: Any = getattr(node, name)
                found: Any = value if type(value) in (list, tuple) else (value,)
                stores = [(store.data_ptr(), store.nbytes()) for store in map(storage_of, found) if store is not None]
            except RuntimeError:  # changed in place since, which torch itself will refuse; or zeros without memory
                continue
            for place, size in stores:
                if place not in counted:
                    counted.add(place)
                    total += size
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
    return total


def call_of(call: ForeignCall) -> ForeignCall:
    """Return the call of the code itself, without derivatives."""
    return call if not call.levels else ForeignCall(call.structure, call.leaves, call.own, call.options)


class _NestingDepth(threading.local):
    """The number of nodes that this thread is inside of."""

    depth: int = 0


_threads: Final = _NestingDepth()


@contextmanager
def framework_settings(torch: Any, default_dtype: str = "") -> Generator[None]:
    """Set torch's process-wide modes for a node: no autocast, the client's default dtype, and as many threads as the
    session gives its workers (H12)."""
    limit = limit_in_force()
    before = torch.get_num_threads()
    floats = torch.get_default_dtype()
    wanted = getattr(torch, default_dtype) if default_dtype else floats
    outer = _threads.depth == 0 and limit is not None and before != limit
    if outer:
        torch.set_num_threads(limit)
    _threads.depth += 1
    try:
        if wanted is not floats:
            torch.set_default_dtype(wanted)
        if torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                yield
        else:
            yield
    finally:
        _threads.depth -= 1
        if wanted is not floats:
            torch.set_default_dtype(floats)
        if outer:
            torch.set_num_threads(before)
