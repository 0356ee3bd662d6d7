"""Making tensors: from data, filled, counted, and at random.

Rules of this file: what is made is a leaf holding an array; nothing here is recorded. The random numbers of a process
come from one generator, which starts from the same seed in each process until `manual_seed` gives another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError

from . import dtypes
from .inference import marked
from .modes import state
from .ops.define import sizes_of, xp
from .tensor import Tensor

# ---- from data -------------------------------------------------------------------------------------------------------


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_FLOAT64 = np.dtype(np.float64)


def _checked_device(device: Any) -> None:
    if device is not None and str(device) != "cpu":
        raise AutogradError(f"device '{device}' is not available here; known: cpu")


def _leaf(array: np.ndarray[Any, Any], requires_grad: bool) -> Tensor:
    made = marked(Tensor.made(array))
    if requires_grad:
        made.requires_grad = True
    return made


def _checked_dtype(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not dtypes.is_known(array.dtype):
        raise DtypeError(
            f"can't convert an array of dtype {array.dtype}; the supported dtypes are: {', '.join(dtypes.known())}"
        )
    return array


def _array_of(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return data as an array: numbers and nested lists in PyTorch's default dtypes, arrays in theirs."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array: np.ndarray[Any, Any]
    if isinstance(data, Tensor):
        array = data.read()
    elif hasattr(data, "__array__"):
        array = np.asarray(data)
    elif hasattr(data, "__dlpack__"):
        array = np.from_dlpack(data)
    else:
        try:
            array = np.array(_plain(data))
        except ValueError:
            raise ValueError(f"expected sequences of equal length at each level, got {_shortened(data)}") from None
        if array.dtype.kind not in "biufc":
            raise TypeError(f"could not make a tensor of {_shortened(data)}: expected numbers, or sequences of them")
        if wanted is None:
            wanted = _default_for(array, data)
    if wanted is not None:
        return array.astype(wanted, copy=False)
    return _checked_dtype(array)


def _plain(data: Any) -> Any:
    """Return nested sequences with the tensors in them as arrays."""
    if isinstance(data, Tensor):
        return data.read()
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]  # pyright: ignore[reportUnknownVariableType]
    return data


def _shortened(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 80 else text[:77] + "..."


def _default_for(array: np.ndarray[Any, Any], data: Any) -> Any:
    """Return the dtype of a tensor made from Python numbers: that of arrays and tensors among them, if there are."""
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(first, Tensor | np.ndarray | np.generic):
        return array.dtype
    if not array.size and array.dtype.kind == "f":
        return dtypes.get_default_dtype()
    if array.dtype.kind == "f":
        return dtypes.get_default_dtype()
    return dtypes.of_number(1j) if array.dtype.kind == "c" else array.dtype if array.dtype.kind == "b" else dtypes.int64


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor holding a copy of data: numbers, nested sequences, an array, another tensor.

    Raises:
        RuntimeError: `requires_grad` for integers or bools.
        TypeError: something that is no number, or an array of an unknown dtype.
        ValueError: rows of unequal length.
    """
    _checked_device(device)
    return _leaf(np.array(_array_of(data, dtype), copy=True, order="K", subok=False), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return data as a tensor, sharing memory where no conversion is needed; a tensor comes back as it is."""
    _checked_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None or data.dtype == dtypes.as_dtype(dtype) else data.to(dtype)
    array = np.asarray(_array_of(data, dtype))
    made = marked(Tensor.made(array))
    made._shares_memory = isinstance(data, np.ndarray) or hasattr(data, "__dlpack__")
    return made


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the array's memory."""
    if not isinstance(ndarray, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if ndarray.dtype is not _FLOAT64:
        _checked_dtype(ndarray)
    made = Tensor.made(ndarray if type(ndarray) is _ARRAY else np.asarray(ndarray))
    made._shares_memory = True
    return marked(made) if state.here.inference else made


# ---- filled ----------------------------------------------------------------------------------------------------------


def _float_dtype(dtype: Any) -> Any:
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of zeros."""
    _checked_device(device)
    return _leaf(np.zeros(sizes_of(size), _float_dtype(dtype)), requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of ones."""
    _checked_device(device)
    return _leaf(np.ones(sizes_of(size), _float_dtype(dtype)), requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor whose elements are yet to be written."""
    _checked_device(device)
    return _leaf(np.empty(sizes_of(size), _float_dtype(dtype)), requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor filled with one number, of the dtype that the number has."""
    _checked_device(device)
    wanted = dtypes.of_number(fill_value) if dtype is None else dtypes.as_dtype(dtype)
    return _leaf(np.full(sizes_of((size,)), fill_value, wanted), requires_grad)


def _like(input: Tensor, value: Any, dtype: Any, requires_grad: bool) -> Tensor:
    wanted = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    return _leaf(np.full(input.shape, value, wanted), requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""
    _checked_device(device)
    return _like(input, 0, dtype, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones of a tensor's shape and dtype."""
    _checked_device(device)
    return _like(input, 1, dtype, requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of a tensor's shape and dtype whose elements are yet to be written."""
    _checked_device(device)
    return _leaf(np.empty(input.shape, input.dtype if dtype is None else dtypes.as_dtype(dtype)), requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of a tensor's shape and dtype filled with one number."""
    _checked_device(device)
    return _like(input, fill_value, dtype, requires_grad)


# ---- counted ---------------------------------------------------------------------------------------------------------


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the numbers from `start` (0 by default) up to but without `end`, `step` apart.

    Raises:
        RuntimeError: a step of zero, or one that leads away from `end`.
    """
    _checked_device(device)
    if end is None:
        start, end = 0, start
    start, end, step = (x.item() if hasattr(x, "item") else x for x in (start, end, step))
    if step == 0:
        raise AutogradError("step must be nonzero")
    if (end - start) * step < 0:
        raise AutogradError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        whole = all(isinstance(x, int) for x in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    count = math.ceil((end - start) / step)
    values: Any = xp.arange(count) * step + start
    return _leaf(values.astype(dtypes.as_dtype(dtype)), requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return `steps` numbers evenly spaced from `start` to `end`, both included."""
    _checked_device(device)
    return _leaf(xp.linspace(start, end, steps, dtype=_float_dtype(dtype)), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the matrix with ones on its diagonal."""
    _checked_device(device)
    return _leaf(np.eye(n, m, dtype=_float_dtype(dtype)), requires_grad)


# ---- at random -------------------------------------------------------------------------------------------------------

DEFAULT_SEED = 0


class _Random:
    """The generator of the process."""

    generator: np.random.Generator = np.random.Generator(np.random.Philox(DEFAULT_SEED))


def manual_seed(seed: int) -> None:
    """Start the random numbers of this process afresh, from a seed."""
    _doing(partial(_seed, int(seed) % (1 << 64)))


def _seed(seed: int) -> None:
    _Random.generator = np.random.Generator(np.random.Philox(seed))


def _doing(what: Callable[[], None]) -> None:
    """Do something to the generator, and tell it to the session's recorder."""
    what()
    if state.recorder is not None:
        state.recorder.drawn(None, what)


@contextmanager
def drawn_alike(alike: bool) -> Generator[Callable[[], None]]:
    """Yield what makes the generator of the process start again from where it was, if it is to."""
    before: list[tuple[np.random.Generator, Any]] = []

    def mark() -> None:
        before[:] = [(_Random.generator, _Random.generator.bit_generator.state)]

    def back() -> None:
        generator, was = before[0]
        generator.bit_generator.state = was

    def again() -> None:
        if alike:
            _doing(back)

    _doing(mark)
    yield again


def _random_leaf(draw: Callable[[tuple[int, ...]], Any], requires_grad: bool) -> Tensor:
    """Return a leaf of what `draw` gives for some leading dimensions: none, or inside vmap those of the examples that
    are to differ (VM-12)."""
    if not state.batches:
        made = _leaf(np.asarray(draw(())), requires_grad)
        if state.recorder is not None:
            state.recorder.drawn(made, partial(draw, ()))
        return made
    from .batching import batched

    open_levels = state.batches
    for level in open_levels:
        if level.randomness == "error":
            raise AutogradError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
    differing = [level for level in open_levels if level.randomness == "different"]
    leading = tuple([level.size for level in differing])
    made = Tensor.made(np.asarray(draw(leading)))
    if state.recorder is not None:
        state.recorder.drawn(made, partial(draw, leading))
    for level in differing:  # the outermost lies in front, and is wrapped first
        made = batched(made, 0, level)
    if requires_grad:
        made.requires_grad_()
    return made


def _drawn(distribution: str, size: Sequence[Any], dtype: Any, requires_grad: bool) -> Tensor:
    wanted = _float_dtype(dtype)
    if wanted.kind not in "fc":
        raise AutogradError(f"random numbers of a distribution are floating, not {wanted}")
    own = sizes_of(size)

    def drawn(leading: tuple[int, ...]) -> Any:
        draw: Any = getattr(_Random.generator, distribution)
        shape = leading + own
        if wanted.kind == "c":
            return ((draw(shape) + 1j * draw(shape)) * math.sqrt(0.5)).astype(wanted)
        return draw(shape, dtype=wanted) if wanted in (dtypes.float32, dtypes.float64) else draw(shape).astype(wanted)

    return _random_leaf(drawn, requires_grad)


def randn(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return numbers drawn from the standard normal distribution."""
    _checked_device(device)
    return _drawn("standard_normal", size, dtype, requires_grad)


def rand(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return numbers drawn evenly from [0, 1)."""
    _checked_device(device)
    return _drawn("random", size, dtype, requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return integers drawn evenly from [low, high); `low` is 0 when only one bound is given."""
    _checked_device(device)
    if size is None:
        low, high, size = 0, low, high
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    shape = sizes_of((size,))
    return _random_leaf(
        lambda leading: _Random.generator.integers(low, high, leading + shape).astype(wanted), requires_grad
    )


def randn_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return normally distributed numbers in a tensor's shape and dtype."""
    return randn(input.shape, dtype=input.dtype if dtype is None else dtype, requires_grad=requires_grad)


def rand_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return evenly distributed numbers in a tensor's shape and dtype."""
    return rand(input.shape, dtype=input.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randperm(n: int, *, dtype: Any = None) -> Tensor:
    """Return the integers below `n` in random order."""
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)

    def drawn(leading: tuple[int, ...]) -> Any:
        if not leading:
            return _Random.generator.permutation(n).astype(wanted)
        return _Random.generator.permuted(np.broadcast_to(np.arange(n), (*leading, n)), axis=-1).astype(wanted)

    return _random_leaf(drawn, False)
