"""Execution of JAX functions inside a node: compilation, forward and gradients, from arrays to arrays.

It knows no tensors of raygrad. A function is compiled once per way to call it, shapes and dtypes; forward and backward
are two programs, whatever the executor, so that their bits are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, DtypeError
from raygrad.workers.code.shipping import unpickle_value

from .backends import load
from .calls import CallCache, DerivativeKind, ForeignCall, Outcome, flattened_arguments, present_results
from .node import Array, RunResult, Runtime

PROGRAMS_KEPT: Final = 1024
"""Compiled programs kept per function; a program that makes new ones without end (a number that changes among the
arguments, not in a tensor) compiles again."""

_INT32: Final = np.iinfo(np.int32)


class JaxSource(NamedTuple):
    """The pickled form of a JAX function."""

    code: Callable[..., Any]
    name: str
    jit: bool = True


class JaxPullback(NamedTuple):
    """JAX's own vjp function of a run."""

    function: Any
    """JAX's function from cotangents of the inexact outputs to gradients."""
    needs: tuple[int, ...]
    zeros: tuple[tuple[int, tuple[int, ...], Any], ...]
    """Per inexact output, its position among all, shape and dtype."""
    wide: bool


class ReadOnlyArray:
    """An array for DLPack that need not be copied although it is read-only: JAX never writes to its inputs."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = dict(self._array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        return interface


class JaxRuntime(Runtime):
    """A function of JAX arrays, opened in this process."""

    def __init__(self, payload: bytes) -> None:
        self._jax = load("jax")
        self._source: JaxSource = unpickle_value(payload)
        self._programs = CallCache[Callable[..., Any]](PROGRAMS_KEPT)
        self._pull = self._compiled(self._pulled)

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self._jax.jit(function) if self._source.jit else function

    # ---- a node ------------------------------------------------------------------------------------------------------

    def run(self, call: ForeignCall, arrays: Sequence[Array], needs: Sequence[int]) -> RunResult:
        """Run the function, or a derivative of it; keep JAX's own vjp function.

        Raises:
            DtypeError: it returns arrays that NumPy has not; a whole number of 64 bits does not fit into 32.
            TypeError: it returns something that is no array.
        """
        wide = bool(call.options[0])
        with self._jax.enable_x64(wide):
            given = [self._array_in(array, wide) for array in arrays]
            program = self._program(call, tuple(needs))
            if not needs:
                outputs, outcome = self._flat(call, program(given))
                return RunResult([self._array_out(output) for output in outputs], outcome, None)
            chosen = [given[position] for position in needs]
            result, function = program(chosen, given)
            outputs, outcome = self._flat(call, result)
            zeros = tuple(
                [(number, o.shape, o.dtype) for number, o in enumerate(outputs) if np.dtype(o.dtype).kind in "fc"]
            )
            found = [self._array_out(output) for output in outputs]
            size = sum([leaf.nbytes for leaf in self._jax.tree_util.tree_leaves(function)])
            return RunResult(found, outcome, JaxPullback(function, tuple(needs), zeros, wide), size)

    def vjp(
        self, kept: Any, wanted: Sequence[int], cotangents: Sequence[Array | None], retain: bool
    ) -> list[Array | None]:
        """Return the gradients of a run, by JAX's transposed program; all are defined."""
        pull: JaxPullback = kept
        with self._jax.enable_x64(pull.wide):
            given: list[Any] = []
            for number, shape, dtype in pull.zeros:
                cotangent = cotangents[number]
                given.append(
                    self._jax.numpy.zeros(shape, dtype) if cotangent is None else self._array_in(cotangent, pull.wide)
                )
            found = self._pull(pull.function, given)
            by_position = dict(zip(pull.needs, found, strict=True))
            return [self._array_out(by_position[position]) for position in wanted]

    def infer(
        self, call: ForeignCall, specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> tuple[list[Any], Outcome]:
        """Return the specs of a run's results, by tracing on shapes alone."""
        wide = bool(call.options[0])
        with self._jax.enable_x64(wide):
            given = [self._jax.ShapeDtypeStruct(shape, _narrowed(dtype, wide)) for shape, dtype in specs]
            result = self._jax.eval_shape(partial(self._value, call, len(call.levels)), given)
            outputs, outcome = self._flat(call, result)
        return [(tuple(output.shape), np.dtype(output.dtype).name) for output in outputs], outcome

    # ---- programs ----------------------------------------------------------------------------------------------------

    def _program(self, call: ForeignCall, needs: tuple[int, ...]) -> Callable[..., Any]:
        """Return the compiled program of a call, and with `needs` the program of its gradient."""
        return self._programs.get((call, needs), partial(self._made, call, needs))

    def _made(self, call: ForeignCall, needs: tuple[int, ...]) -> Callable[..., Any]:
        depth = len(call.levels)
        if not needs:
            return self._compiled(partial(self._value, call, depth))

        def forward(chosen: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, Any]:
            def of_chosen(these: Sequence[Any]) -> tuple[list[Any], Any]:
                given = list(arrays)
                for position, array in zip(needs, these, strict=True):
                    given[position] = array
                result = self._value(call, depth, given)
                return [leaf for leaf in self._jax.tree_util.tree_leaves(result) if self._is_inexact(leaf)], result

            _, function, result = self._jax.vjp(of_chosen, chosen, has_aux=True)
            return result, function

        return self._compiled(forward)

    def _value(self, call: ForeignCall, depth: int, arrays: Sequence[Any]) -> Any:
        """Return the function's results with the first `depth` derivatives taken: those of the innermost level nested,
        others as lists."""
        jax = self._jax
        if not depth:
            args, named = call.arguments(arrays)
            return jax.tree_util.tree_map(self._checked, self._source.code(*args, **named))
        level = call.levels[depth - 1]
        below, directions = list(arrays[: level.inputs]), list(arrays[level.inputs :])

        def inner(chosen: Sequence[Any]) -> list[Any]:
            given = list(below)
            for position, array in zip(level.chosen, chosen, strict=True):
                given[position] = array
            return jax.tree_util.tree_leaves(self._value(call, depth - 1, given))

        primals = [below[position] for position in level.chosen]
        if level.kind is DerivativeKind.JVP:
            outputs, tangents = jax.jvp(inner, (primals,), (directions,))
            return [t if self._is_inexact(o) else None for o, t in zip(outputs, tangents, strict=True)]

        def flowing(chosen: Sequence[Any]) -> list[Any]:
            return [o for o, there in zip(inner(chosen), level.given, strict=True) if there and self._is_inexact(o)]

        return self._conjugated(jax.vjp(flowing, primals)[1](self._conjugated(directions))[0])

    def _conjugated(self, arrays: Sequence[Any]) -> list[Any]:
        """Return complex arrays conjugated: JAX's gradient is the conjugate of PyTorch's, which is raygrad's."""
        conj = self._jax.numpy.conj
        return [conj(array) if array.dtype.kind == "c" else array for array in arrays]

    def _pulled(self, function: Any, cotangents: Sequence[Any]) -> list[Any]:
        """Return the results of JAX's vjp function."""
        return self._conjugated(function(self._conjugated(cotangents))[0])

    def _is_inexact(self, array: Any) -> bool:
        return bool(self._jax.numpy.issubdtype(array.dtype, self._jax.numpy.inexact))

    def _checked(self, leaf: Any) -> Any:
        try:
            return self._jax.numpy.asarray(leaf)
        except TypeError as error:
            raise TypeError(
                f"{self._source.name} returned a {type(leaf).__name__}; a node returns arrays and numbers, in lists, "
                "tuples, named tuples and dicts"
            ) from error

    def _flat(self, call: ForeignCall, result: Any) -> tuple[list[Any], Outcome]:
        """Return the arrays of a result, and its structure."""
        if call.levels:
            return present_results(result)
        kinds = (self._jax.Array, self._jax.ShapeDtypeStruct)
        outputs, structure, leaves = flattened_arguments(result, lambda leaf: isinstance(leaf, kinds), self._no_result)
        return outputs, Outcome(structure, leaves)

    def _no_result(self, leaf: Any) -> Exception:
        return TypeError(
            f"{self._source.name} returned a {type(leaf).__name__}; a node returns arrays in lists, tuples, named "
            "tuples and dicts: return jax.tree_util.tree_leaves(...) of another container"
        )

    # ---- arrays ------------------------------------------------------------------------------------------------------

    def _array_in(self, array: Array, wide: bool) -> Any:
        if not wide and array.dtype.itemsize == 8 and array.dtype.kind in "iu":
            if array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
                raise DtypeError(
                    f"{self._source.name}: an argument of {array.dtype} holds numbers that do not fit into the 32 bits "
                    "that JAX gives them here: make the node with x64=True"
                )
            array = array.astype(np.int32)
        return self._jax.dlpack.from_dlpack(np.asarray(ReadOnlyArray(array)))

    def _array_out(self, array: Any) -> Array:
        """Return an array's values in memory of their own, since JAX may share its arrays with inputs and residuals."""
        if np.dtype(array.dtype).kind not in "biufc":
            raise DtypeError(
                f"{self._source.name} returned an array of {array.dtype}, which NumPy has not: return it as float32"
            )
        return np.array(array, order="C")


def _narrowed(dtype: np.dtype[Any], wide: bool) -> np.dtype[Any]:
    return np.dtype(np.int32) if not wide and dtype.itemsize == 8 and dtype.kind in "iu" else dtype


def refuse_wide(name: str, dtypes: Sequence[Any]) -> None:
    """Raise if JAX would cut an array to 32 bits."""
    for dtype in dtypes:
        if dtype.name in ("float64", "complex128"):
            raise AutogradError(
                f"{name}: an argument is of {dtype.name}, and the node was made with x64=False, where JAX would cut it "
                "to 32 bits: give a tensor of 32 bits, or make the node without x64"
            )
