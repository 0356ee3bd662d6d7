"""Random numbers: rand, randn, randint, randperm and the like, and the seed and the generators behind them.

The program draws from one sequential generator, which has the same seed in each process until `manual_seed` sets
another. User code draws by the path of its application, pass or hook (`core.random_streams`), wherever it runs. In a
session each draw of the program is recorded, so that a replay draws anew; under vmap a level's randomness decides
whether examples differ.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from raygrad.errors import AutogradError, MissingKernel
from raygrad.tracebacks import leave

from ..core import dtypes
from ..core.batched_data import BatchedDraw, batched
from ..core.modes import state
from ..core.random_streams import (
    DEFAULT_SEED,
    EXAMPLES,
    PROGRAM,
    REFUSED,
    RESEEDED,
    TANGENTS,
    RandomStream,
    StreamOrigin,
    current_stream,
)
from ..core.session_threads import SEGMENTS, warn_of_draw
from ..devices.serving import factory_device, move_array
from ..registry.define_op import sizes_of
from ..tensor.tensor import Tensor
from .creation import float_dtype, new_leaf
from .device_dispatch import move_recorded
from .out_arguments import fill

_KEY = np.dtype(np.uint64)


class _Random:
    """The generator of the process, made when it is first used: loading `numpy.random` takes as long as a tenth of this
    package."""

    made: np.random.Generator | None = None
    lock = threading.Lock()

    @classmethod
    def generator(cls) -> np.random.Generator:
        if cls.made is None:
            with cls.lock:
                if cls.made is None:
                    cls.made = np.random.Generator(np.random.Philox(DEFAULT_SEED))
        return cls.made


class _ThreadGenerator(threading.local):
    """The generator of one thread that serves the draws of all streams: each sets its state, which takes a twentieth of
    the time of making a generator."""

    made: np.random.Generator | None = None

    def at(self, stream: RandomStream) -> np.random.Generator:
        """Return the generator for the next draw of a stream; it is used before the next call."""
        if self.made is None:
            self.made = np.random.Generator(np.random.Philox(key=0))
        self.made.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": _counter_of(next(stream.draws)), "key": _key_of(stream)},
            "buffer": np.zeros(4, _KEY),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        return self.made


_of_thread = _ThreadGenerator()


def _key_of(stream: RandomStream) -> np.ndarray[Any, Any]:
    return np.array((stream.origin.seed, stream.origin.key), _KEY)


def _counter_of(draw: int) -> np.ndarray[Any, Any]:
    """Return the 256 bits at which a draw of a stream begins: 2^192 blocks before the next one."""
    return np.array((0, 0, 0, draw), _KEY)


def _drawing() -> np.random.Generator:
    """Return the generator for the draw of the moment."""
    stream = _drawn_from()
    return _Random.generator() if stream is PROGRAM else _of_thread.at(stream)


def _drawn_from() -> RandomStream:
    """Return the stream of the code that draws."""
    here = state.here
    if SEGMENTS and here.default_dtype is None and here.recorder is None:
        warn_of_draw()
    return current_stream(here)


def generator() -> np.random.Generator:
    """Return a generator of NumPy that follows from `manual_seed`, for code that draws with NumPy or SciPy.

    In user code (a Function's forward, backward, jvp or vmap, or a hook) each call returns a new one, on the stream of
    that code: it gives the same numbers eagerly and in a session, on any worker, and whenever the code runs again; make
    it where it is used. Elsewhere this is the generator of the program, from which `rand` and its kind draw, too, until
    the next `manual_seed`; a function for `session.compile` that asks for it is recorded at each call.
    """
    _tell(None)
    stream = _drawn_from()
    if stream is PROGRAM:
        return _Random.generator()
    _check_marks(stream)
    return np.random.Generator(np.random.Philox(key=_key_of(stream), counter=_counter_of(next(stream.draws))))


def manual_seed(seed: int) -> None:
    """Start the random numbers of this process afresh, from a seed; in user code, those of this call only."""
    seed = int(seed) % (1 << 64)
    stream = current_stream(state.here)
    if stream is PROGRAM:
        _doing(partial(_seed, seed))
    elif stream.is_marked(EXAMPLES):
        raise BatchedDraw
    else:
        stream.reseed(StreamOrigin(seed, RESEEDED))


def _seed(seed: int) -> None:
    _Random.made = np.random.Generator(np.random.Philox(seed))
    PROGRAM.reseed(StreamOrigin(seed, 0))


def _doing(what: Callable[[], None]) -> None:
    """Do something to the random numbers of the program, and tell it to the session's recorder."""
    what()
    _tell(what)


def program_generator() -> np.random.Generator:
    """Return the sequential generator of the program."""
    return _Random.generator()


def change_of_generator(what: Callable[[], None] | None) -> None:
    """Change the random numbers of the program, or note that its state was read (None), and tell a session's recorder,
    whose compiled calls repeat it."""
    if what is None:
        _tell(None)
    else:
        _doing(what)


def _tell(what: Callable[[], None] | None) -> None:
    recorder = state.here.recorder
    if recorder is not None:
        recorder.drawn(None, what)


class GeneratorState:
    """Where the random numbers of the code that is running stand at this moment, to come back to."""

    def __init__(self) -> None:
        self._stream = current_stream(state.here)
        self._do(self._mark)

    def _mark(self) -> None:
        stream = self._stream
        self._at = stream.origin, stream.positions
        if stream is PROGRAM:
            self._generator = _Random.generator()
            self._was: Any = self._generator.bit_generator.state

    def _return(self) -> None:
        self._stream.reseed(*self._at)
        if self._stream is PROGRAM:
            _Random.made = self._generator
            self._generator.bit_generator.state = self._was

    def back(self) -> None:
        """Go on drawing, and counting applications, passes and hooks, from there."""
        self._do(self._return)

    @contextmanager
    def again(self) -> Generator[None]:
        """Return a block that runs what followed this moment a second time."""
        here = state.here
        outer, here.stream = here.stream, self._stream
        now = GeneratorState()
        self.back()
        try:
            yield
        finally:
            now.back()
            here.stream = outer

    def _do(self, what: Callable[[], None]) -> None:
        what()
        if self._stream is PROGRAM:  # a draw of other code is repeated by its place alone
            _tell(what)


@contextmanager
def drawn_alike(alike: bool) -> Generator[Callable[[], None]]:
    """Yield what makes the generator of the process start again from where it was, if it is to."""
    place = GeneratorState()
    yield place.back if alike else lambda: None


_REFUSED: Final = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)


_OF_TANGENTS: Final = (
    "jacfwd, or vmap over tangents, with randomness 'different': in a session a Function runs once for each tangent, "
    "and eagerly once for all, so that what its forward or jvp draws would differ; use randomness='same', draw before "
    "and pass what was drawn, or call it outside of the session"
)


def _check_marks(stream: RandomStream) -> None:
    """Refuse to draw in code that runs for a batch (VM-12).

    Raises:
        AutogradError: it runs for one example, and random operations are forbidden.
        BatchedDraw: it runs for all examples at once, each of which draws by a path of its own.
    """
    if stream.is_marked(REFUSED):
        raise AutogradError(_REFUSED)
    if stream.is_marked(TANGENTS):
        raise AutogradError(_OF_TANGENTS)
    if stream.is_marked(EXAMPLES):
        if state.batches and state.batches[-1].randomness == "error":
            raise AutogradError(_REFUSED)
        raise BatchedDraw


def _random_leaf(draw: Callable[[tuple[int, ...]], Any], requires_grad: bool, device: Any = None) -> Tensor:
    """Return a leaf of what `draw` gives for some leading dimensions: none, or inside vmap those of the examples that
    are to differ (VM-12). Numbers are drawn on the host, so that they are the same on every device, and moved."""
    place = factory_device(device)
    stream = current_stream(state.here)
    _check_marks(stream)
    if not state.batches:
        return new_leaf(_placed_draw(partial(draw, ()), place), requires_grad)
    open_levels = state.batches
    for level in open_levels:
        if level.randomness == "error":
            raise AutogradError(_REFUSED)
    differing = [level for level in open_levels if level.randomness == "different"]
    leading = tuple([level.size for level in differing])
    made = Tensor.made(_placed_draw(partial(draw, leading), place))
    for level in differing:  # the outermost lies in front, and is wrapped first
        made = batched(made, 0, level)
    if requires_grad:
        made.requires_grad_()
    return made


def _placed_draw(draw: Callable[[], Any], place: Any) -> Any:
    """Return drawn numbers on a device. A session records the draw and moves its result."""
    drawn = np.asarray(draw())
    if state.recorder is None:
        return move_array(drawn, place)
    made = Tensor.made(drawn)
    state.recorder.drawn(made, draw)
    return made._data if place is None else move_recorded(made._data, place)


def _drawn(distribution: str, size: Sequence[Any], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    wanted = float_dtype(dtype)
    if wanted.kind not in "fc":
        raise MissingKernel(f'"normal" not implemented for {wanted}: random numbers of a distribution are floating')
    own = sizes_of(size)

    def drawn(leading: tuple[int, ...]) -> Any:
        draw: Any = getattr(_drawing(), distribution)
        shape = leading + own
        if wanted.kind == "c":
            return ((draw(shape) + 1j * draw(shape)) * math.sqrt(0.5)).astype(wanted)
        return draw(shape, dtype=wanted) if wanted in (dtypes.float32, dtypes.float64) else draw(shape).astype(wanted)

    return _random_leaf(drawn, requires_grad, device)


def randn(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return numbers drawn from the standard normal distribution."""
    try:
        if out is not None:
            return fill(randn, size, out, dtype, device, requires_grad)
        return _drawn("standard_normal", size, dtype, device, requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def rand(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return numbers drawn evenly from [0, 1)."""
    try:
        if out is not None:
            return fill(rand, size, out, dtype, device, requires_grad)
        return _drawn("random", size, dtype, device, requires_grad)
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return integers drawn evenly from [low, high); `low` is 0 when only one bound is given."""
    if out is not None:
        return fill(randint, (low, high, size), out, dtype, device, requires_grad)
    if size is None:
        low, high, size = 0, low, high
    if high is None:
        low, high = 0, low
    low, high = operator.index(low), operator.index(high)
    if low >= high:
        raise AutogradError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    shape = sizes_of((size,))
    return _random_leaf(
        lambda leading: _drawing().integers(low, high, leading + shape).astype(wanted), requires_grad, device
    )


def randint_like(
    input: Tensor, low: int, high: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return integers drawn evenly from [low, high) in a tensor's shape and dtype; `low` is 0 when only one bound is
    given."""
    low, high = (0, low) if high is None else (low, high)
    wanted, place = dtypes.as_dtype(input.dtype if dtype is None else dtype), input.device if device is None else device
    if wanted.kind == "c" or (wanted.kind == "b" and not 0 <= low < high <= 2):
        raise AutogradError(f"randint_like: integers from {low} to {high - 1} are out of bounds for {wanted}")
    return randint(low, high, input.shape, dtype=wanted, device=place, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return normally distributed numbers in a tensor's shape and dtype."""
    place = input.device if device is None else device
    return randn(input.shape, dtype=input.dtype if dtype is None else dtype, device=place, requires_grad=requires_grad)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return evenly distributed numbers in a tensor's shape and dtype."""
    place = input.device if device is None else device
    return rand(input.shape, dtype=input.dtype if dtype is None else dtype, device=place, requires_grad=requires_grad)


def randperm(n: int, *, out: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the integers below `n` in random order."""
    if out is not None:
        return fill(randperm, (n,), out, dtype, device)
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)

    def drawn(leading: tuple[int, ...]) -> Any:
        if not leading:
            return _drawing().permutation(n).astype(wanted)
        return _drawing().permuted(np.broadcast_to(np.arange(n), (*leading, n)), axis=-1).astype(wanted)

    return _random_leaf(drawn, False, device)
