"""Thread-local modes of autograd: gradient mode, ambient session, state of forward mode, vmap, hooks and autocast.

Dispatch and the engine read them at each call. `no_grad`, `enable_grad` and `set_grad_enabled` are here; other modes
are set by the modules that define them. A new thread records gradients and has no ambient session.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from raygrad.errors import AutogradError

from .random_streams import ALL_ALIKE, PROGRAM
from .session_threads import OPEN_SESSIONS, OpenSession, warn_of_thread
from .transform_scopes import SCOPES, TransformScope

if TYPE_CHECKING:
    from ..engine.traversal import BackwardPass
    from .random_streams import Path, StreamHolder
    from .recorder import Recorder

F = TypeVar("F", bound=Callable[..., Any])


class EvictFromDevice(Protocol):
    """Callback that evicts values from a device; it returns whether it freed anything.

    `what` describes the allocation that failed.
    """

    def __call__(self, device: str, what: str, /) -> bool: ...


PROTECTED: list[tuple[Any, ...]] = []
"""The arguments of the forwards that are running, on whatever thread, and must not write to them: `Modes.arguments` of
all threads, empty nearly always."""


class Modes:
    """What one thread is doing.

    Attributes:
        grad: the gradient mode.
        arguments: those of the forward that is running, if it must not write to them, else None.
        recorder: the ambient session's recorder, or None.
        only_recorder: the same while none of the rare modes below is on, else None.
        passes: how many backward passes are under way, one inside the other.
        task: the innermost of them, None outside.
        engine_threads: whether passes deep inside one another may go on on a thread of their own (EN-26).
        special: whether there is a recorder, or any of the rare modes below is on: what runs at each operation asks
            for this alone. Who changes one of them calls `changed` afterwards.
        forward: the open levels of forward mode, outermost first.
        batches: the open levels of vmap, outermost first.
        saving: the (pack, unpack) pairs of saved-tensor hooks, outermost first.
        saving_refused: why no saved-tensor hooks may be set now, None if they may.
        anomaly: what anomaly detection is to do, None while it is off.
        paths: on a worker, by node of the program the paths by which user code draws random numbers.
        stream: the random stream of the code that is running, or what opens it (`random_streams`); no rare mode.
        inference: whether inference mode is on.
        transforms: the names of the function transforms that are running, outermost first; no rare mode.
        scope: the scope of the innermost of them but vmap (`transform_scopes`); no rare mode.
        replaying: whether user code runs a second time, as a silent replay: its emits were sent the first time.
        local: what the worker whose code runs here keeps for `worker_local`, by handle; None outside of workers.
        evict: what evicts values of that worker when a device is full (`devices.backends.device_memory`); None outside.
        device: where factories make tensors, None for the host; no rare mode, since no op asks.
        casting: what operands are cast to (`autocast`), None outside of all its regions; no rare mode, since the casts
            are made before an op is called.
        default_dtype: the default dtype of user code that a session runs on this thread, else None.
        outside: the session during which this thread began, and which it has not entered; None once it has computed.
    """

    __slots__ = (
        "anomaly",
        "arguments",
        "batches",
        "casting",
        "default_dtype",
        "device",
        "engine_threads",
        "evict",
        "forward",
        "grad",
        "inference",
        "local",
        "only_recorder",
        "outside",
        "passes",
        "paths",
        "recorder",
        "replaying",
        "saving",
        "saving_refused",
        "scope",
        "special",
        "stream",
        "task",
        "transforms",
    )

    def __init__(
        self, passes: int = 0, local: dict[str, Any] | None = None, evict: EvictFromDevice | None = None
    ) -> None:
        self.grad: bool = True
        self.arguments: tuple[Any, ...] | None = None
        self.recorder: Recorder | None = None
        self.only_recorder: Recorder | None = None
        self.passes = passes
        self.task: BackwardPass | None = None
        self.engine_threads: bool = True
        self.special: bool = False
        self.forward: tuple[Any, ...] = ()
        self.batches: tuple[Any, ...] = ()
        self.saving: tuple[Any, ...] = ()
        self.saving_refused: str | None = None
        self.anomaly: Any = None
        self.inference: bool = False
        self.transforms: tuple[str, ...] = ()
        self.scope: TransformScope | None = None
        self.casting: Any = None
        self.device: Any = None
        self.default_dtype: Any = None
        self.outside: OpenSession | None = None
        self.local = local
        self.evict = evict
        self.replaying: bool = False
        self.stream: StreamHolder = PROGRAM
        self.paths: Mapping[int, tuple[Path, ...]] = ALL_ALIKE

    def changed(self) -> None:
        """Note that the recorder changed, or that a rare mode went on or off."""
        rare = bool(self.forward or self.batches or self.saving or self.anomaly is not None or self.inference)
        self.special = rare or self.recorder is not None or self.outside is not None
        self.only_recorder = None if rare else self.recorder

    def computes(self) -> None:
        """Note that this thread computes at once, outside of the session during which it began."""
        session, self.outside = self.outside, None
        self.changed()
        if session is not None:
            warn_of_thread(session, threading.current_thread().name)


if TYPE_CHECKING:
    _Local = Modes  # the names that `_delegated` gives a thread's state
else:
    _Local = threading.local


class ThreadState(_Local):
    """The `Modes` of the current thread, as `here` and each by its name. Reading an attribute of a thread's state costs
    as much as ten of an ordinary object's: what runs at each operation takes `here` once."""

    def __init__(self) -> None:
        self.here = Modes()
        if OPEN_SESSIONS:  # as hardly ever: this is the first use on a new thread
            self.here.outside = next(iter(OPEN_SESSIONS), None)
            self.here.changed()

    def changed(self) -> None:
        """Note that a rare mode went on or off."""
        self.here.changed()

    def snapshot(self) -> dict[str, Any]:
        """Return all of it, for another thread that goes on with this one's work: see `restore`."""
        here = self.here
        return {name: getattr(here, name) for name in Modes.__slots__}

    def restore(self, parts: dict[str, Any]) -> None:
        """Take over what another thread's `snapshot` returned."""
        for name, value in parts.items():
            setattr(self.here, name, value)


def _delegated(name: str) -> property:
    def read(self: ThreadState) -> Any:
        return getattr(self.here, name)

    def write(self: ThreadState, value: Any) -> None:
        here = self.here
        setattr(here, name, value)
        if name == "recorder":
            here.outside = None
            here.changed()

    return property(read, write)


for _name in Modes.__slots__:
    setattr(ThreadState, _name, _delegated(_name))


state = ThreadState()


@contextmanager
def transforming(name: str, *, reverse: bool) -> Generator[None]:
    """Note, in a context manager, that a function is being transformed. A reverse-mode transform enables gradient
    recording (FT-04) and refuses saved-tensor hooks (FT-07).

    Raises:
        RuntimeError: saved-tensor hooks are active, and the transform is one of reverse mode.
    """
    here = state.here
    if reverse and here.saving:
        raise AutogradError(NO_SAVED_TENSOR_HOOKS)
    before, outer, refused = here.grad, here.transforms, here.saving_refused
    here.transforms = (*outer, name)
    if reverse:
        here.grad = True
        here.saving_refused = NO_SAVED_TENSOR_HOOKS
    try:
        yield
    finally:
        here.grad, here.transforms, here.saving_refused = before, outer, refused


@contextmanager
def open_scope(name: str, checks: bool = True) -> Generator[TransformScope]:
    """Open the scope of a transform in a context manager: if it `checks`, what runs in it must not change in place what
    it captures (FT-07)."""
    here = state.here
    around = here.scope
    scope = here.scope = TransformScope(name, around, checks)
    SCOPES.append(scope)
    try:
        yield scope
    finally:
        here.scope = around
        scope.given = ()
        SCOPES.remove(scope)


@contextmanager
def running_user_code() -> Generator[None]:
    """Run a Function's jvp or vmap rule in a context manager: it may change what it captures, as outside of the
    transforms that are running."""
    here = state.here
    around = here.scope
    here.scope = None if around is None else around.of_user_code()
    try:
        yield
    finally:
        here.scope = around


NO_SAVED_TENSOR_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks: use backward() or autograd.grad() "
    "under them, or call the transform outside of them"
)


def is_grad_enabled() -> bool:
    """Tell whether operations on this thread are recorded for differentiation."""
    return state.here.grad


class GradMode:
    """A context manager and decorator that sets the gradient mode while its code runs."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before: list[bool] = []

    def clone(self) -> GradMode:
        """Return a new context manager of the same mode."""
        return GradMode(self._mode)

    def __enter__(self) -> None:
        self._before.append(state.here.grad)
        state.here.grad = self._mode and not state.inference

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        state.here.grad = self._before.pop()

    def __call__(self, fn: F) -> F:
        clone = self.clone
        if inspect.isclass(fn):
            warnings.warn(
                f"decorating the class {fn.__name__} with a gradient mode makes it a function that sets the mode while "
                "an instance is made; decorate its methods instead",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(fn):
            return cast(F, _around_generator(fn, clone))
        if inspect.iscoroutinefunction(fn):
            return cast(F, _around_coroutine(fn, clone))

        # what a class's __dict__ holds are no attributes of a function
        @functools.wraps(fn, updated=() if inspect.isclass(fn) else functools.WRAPPER_UPDATES)
        def with_mode(*args: Any, **kwargs: Any) -> Any:
            with clone():
                return fn(*args, **kwargs)

        return cast(F, with_mode)


def _around_generator(fn: Callable[..., Any], clone: Callable[[], GradMode]) -> Callable[..., Any]:
    """Return `fn` with the mode set only while the generator's own code runs, not while its consumer does."""

    @functools.wraps(fn)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = fn(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, inner)
        try:
            while True:
                with clone():
                    try:
                        value = resume()
                    except StopIteration as stop:
                        return stop.value
                try:
                    sent = yield value
                    resume = functools.partial(inner.send, sent)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume = functools.partial(inner.throw, error)
        finally:
            with clone():
                inner.close()

    return generator


def _around_coroutine(fn: Callable[..., Any], clone: Callable[[], GradMode]) -> Callable[..., Any]:
    """Return `fn` with the mode set only while the coroutine itself runs, not while it is suspended."""

    class Stepper:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __await__(self) -> Generator[Any, Any, Any]:
            return _around_generator(self._inner.__await__, clone)()

    @functools.wraps(fn)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await Stepper(fn(*args, **kwargs))

    return coroutine


class _FixedGradMode(GradMode):
    """A mode usable with or without parentheses: `@no_grad`, `@no_grad()`, `with no_grad():`."""

    MODE = False

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if fn is None:
            return self
        GradMode.__init__(self, cls.MODE)
        return self(fn)

    def __init__(self, fn: Callable[..., Any] | None = None) -> None:
        super().__init__(self.MODE)


# PyTorch's names, hence no capitals.


class no_grad(_FixedGradMode):
    """Switch recording for differentiation off: as a context manager, or as a decorator."""

    MODE = False


class enable_grad(_FixedGradMode):
    """Switch recording for differentiation on: as a context manager, or as a decorator."""

    MODE = True


class set_grad_enabled(GradMode):
    """Set the gradient mode at once; as a context manager, restore it on leaving."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._at_call = state.here.grad
        state.here.grad = bool(mode) and not state.inference

    def __enter__(self) -> None:
        self._before.append(self._at_call)
        state.here.grad = self._mode and not state.inference

    def __call__(self, fn: F) -> F:
        state.here.grad = self._at_call
        return super().__call__(fn)
