"""Numerical and analytical Jacobians for `gradcheck`: by central differences, and by backward.

They are computed here and compared in `backward_checks` and `mode_checks`. In a session everything is recorded before
anything is read, so that a Jacobian costs a few submissions and not one for each of its entries.

A Jacobian has a row for each element of the input and a column for each of the output. Complex outputs have two, of
their real and of their imaginary part; complex inputs give entries `by the real part + 1j * by the imaginary part`,
which is the gradient that PyTorch defines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import dtypes
from ..devices.serving import to_host
from ..dispatch.device_dispatch import move_recorded
from ..engine.engine import grad
from ..tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]

SEEDS = {"": 1.0, "real": 1.0, "imaginary": 1j}
"""The seed gradient by part of an output: "" for a real output, real or imaginary part of a complex one."""


def parts_of(dtype: Any) -> tuple[str, ...]:
    """Return the parts of an output of `dtype` that have a Jacobian each."""
    return ("real", "imaginary") if dtype.kind == "c" else ("",)


def part(values: Array, name: str) -> Array:
    """Return the real or imaginary part of an output's values or of their differences."""
    return values.imag if name == "imaginary" else values.real


def directions_of(dtype: Any) -> tuple[complex, ...]:
    """Return the directions in which an element of an input is moved: 1, and for complex inputs 1j."""
    return (1.0, 1j) if dtype.kind == "c" else (1.0,)


def as_tensors(result: Any) -> tuple[Tensor, ...]:
    """Return the tensors among what a function returned."""
    items: tuple[Any, ...] = (result,) if isinstance(result, Tensor) else tuple(result)
    return tuple([item for item in items if isinstance(item, Tensor)])


def differentiable(tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return the tensors that require grad."""
    return tuple([t for t in tensors if isinstance(t, Tensor) and t.requires_grad])


@dataclass(frozen=True)
class CheckedOutputs:
    """The outputs of a function at the point of the check: positions, shapes and dtypes."""

    positions: tuple[int, ...]
    specs: tuple[tuple[tuple[int, ...], Any], ...]

    @classmethod
    def of(cls, result: Any, *, every: bool = False) -> CheckedOutputs:
        """Describe the outputs that require grad, or every floating one."""
        tensors = as_tensors(result)
        positions = tuple(
            [i for i, t in enumerate(tensors) if t.requires_grad or (every and dtypes.is_differentiable(t.dtype))]
        )
        return cls(positions, tuple([(t.shape, t.dtype) for t in tensors]))

    def picked(self, result: Any) -> list[Tensor]:
        """Return those outputs from another run.

        Raises:
            AssertionError: that run gave other shapes or dtypes.
        """
        tensors = as_tensors(result)
        specs = tuple([(t.shape, t.dtype) for t in tensors])
        for name, place in (("shape", 0), ("dtype", 1)):
            before, now = [s[place] for s in self.specs], [s[place] for s in specs]
            if before != now:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {name} when inputs are perturbed by eps, but it "
                    f"returned {before} at the inputs given and {now} beside them"
                )
        return [tensors[position] for position in self.positions]


def as_tensor_like(values: Array, tensor: Tensor) -> Tensor:
    """Return an array, or an element of one as NumPy gives it, as a tensor on another tensor's device."""
    return Tensor.made(move_recorded(np.asarray(values), tensor.device))


# ---- differences of values -------------------------------------------------------------------------------------------


@contextmanager
def holding_values(tensor: Tensor, values: Array) -> Generator[None]:
    """Set a tensor's values for a while, seen by all who hold it, also by closures."""
    data, snapshot = tensor._data, tensor._snapshot
    tensor._data, tensor._snapshot = move_recorded(np.asarray(values), tensor.device), None
    try:
        yield
    finally:
        tensor._data, tensor._snapshot = data, snapshot


def unit_vectors(tensor: Tensor, factors: Sequence[complex]) -> list[Array]:
    """Return, for each element of a tensor, arrays with each factor in its place and zeros elsewhere."""
    vectors: list[Array] = []
    for element in range(tensor.numel()):
        for factor in factors:
            vector = np.zeros(tensor.numel(), tensor.dtype)
            vector[element] = factor
            vectors.append(vector.reshape(tensor.shape))
    return vectors


def unit_steps(tensor: Tensor) -> list[Array]:
    """Return the directions that each move one element of an input."""
    return unit_vectors(tensor, directions_of(tensor.dtype))


def differences(
    func: Run, inputs: Sequence[Any], outputs: CheckedOutputs, index: int, directions: Sequence[Array], eps: float
) -> list[list[Array]]:
    """Return, for each direction, the derivative of each output when an input moves along it: central differences."""
    tensor = inputs[index]
    values = to_host(tensor._read())
    runs: list[list[Tensor]] = []
    for direction in directions:
        for sign in (1, -1):
            moved = np.asarray(values + (sign * eps) * direction, values.dtype)
            with holding_values(tensor, moved):
                runs.append([Tensor.made(o._data) for o in outputs.picked(func(*inputs))])  # it may be an input itself
    read = [[np.array(to_host(output._read())) for output in run] for run in runs]
    return [
        [(up - down) / (2 * eps) for up, down in zip(read[i], read[i + 1], strict=True)] for i in range(0, len(read), 2)
    ]


def numerical(
    func: Run, inputs: Sequence[Any], outputs: CheckedOutputs, index: int, eps: float
) -> list[dict[str, Array]]:
    """Return, for each output, the Jacobians of its parts by one input, by central differences."""
    tensor = inputs[index]
    moves = directions_of(tensor.dtype)
    found = differences(func, inputs, outputs, index, unit_steps(tensor), eps)
    out: list[dict[str, Array]] = []
    for place, position in enumerate(outputs.positions):
        shape, dtype = outputs.specs[position]
        size = int(np.prod(shape))
        jacobians = {
            name: np.zeros((tensor.numel(), size), np.complex128 if len(moves) == 2 else np.float64)
            for name in parts_of(dtype)
        }
        for number, slopes in enumerate(found):
            element, move = divmod(number, len(moves))
            for name, jacobian in jacobians.items():
                jacobian[element] += moves[move] * part(slopes[place], name).reshape(-1)
        out.append(jacobians)
    return out


# ---- backward --------------------------------------------------------------------------------------------------------


def products(output: Tensor, wanted: Sequence[Tensor], seeds: Sequence[Array]) -> list[list[Array]]:
    """Return, for each requested input, the gradients of a backward for each seed, with zeros for undefined ones."""
    passes = [
        grad(output, wanted, as_tensor_like(seed, output), retain_graph=True, allow_unused=True) for seed in seeds
    ]
    return [
        [np.zeros(tensor.shape, tensor.dtype) if g[i] is None else np.array(to_host(g[i]._read())) for g in passes]
        for i, tensor in enumerate(wanted)
    ]


def analytical(output: Tensor, wanted: Sequence[Tensor], name: str) -> list[Array]:
    """Return, for each requested input, the Jacobian of one part of an output, by backward."""
    rows = products(output, wanted, unit_vectors(output, (SEEDS[name],)))
    return [
        np.stack([g.reshape(-1) for g in gradients], 1) if gradients else np.zeros((tensor.numel(), 0))
        for tensor, gradients in zip(wanted, rows, strict=True)
    ]
