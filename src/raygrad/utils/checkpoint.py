"""`torch.utils.checkpoint`: `checkpoint`, `checkpoint_sequential` and `set_checkpoint_early_stop` under PyTorch's names
and arguments.

They call `raygrad.checkpoint`, which is in `autograd.engine.checkpointing`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from raygrad.autograd.core.modes import state
from raygrad.autograd.engine.checkpointing import checkpoint as _checkpoint, checkpointed
from raygrad.tracebacks import public

R = TypeVar("R")

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_EARLY_STOP: Final[ContextVar[bool | None]] = ContextVar("checkpoint_early_stop", default=None)
"""What `set_checkpoint_early_stop` says for all regions; None leaves it to each."""


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """Say for the regions that are run in a context whether their second runs end once all is there that backward
    needs, as they do by default, or go on to the end of the function. It goes before their own `early_stop`."""
    token = _EARLY_STOP.set(bool(enable))
    try:
        yield
    finally:
        _EARLY_STOP.reset(token)


def noop_context_fn() -> Contexts:
    """Return two context managers that do nothing: the default of `context_fn`."""
    return nullcontext(), nullcontext()


@public
def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **named: Any,
) -> R:
    """Return `function(*args, **named)`, keeping only the arguments for backward, as `raygrad.checkpoint` does.

    Args:
        function: the region.
        args: its arguments.
        use_reentrant: either. Gradients reach whatever the region reads, `grad` and hooks work, and nothing has to
            require grad, as with PyTorch's False; the region runs in no pass of its own, which True would have.
        preserve_rng_state: True; the second run always draws the numbers of the first.
        context_fn: returns two context managers, in which the first run and the second run.
        determinism_check: "default": dtypes and shapes of what both runs save are always compared.
        debug: False; the error of a second run that differs always names what does.
        early_stop: whether the second run ends once all is there that backward needs; see `set_checkpoint_early_stop`.
        named: its arguments by name.

    Raises:
        TypeError: `function` cannot be called.
        ValueError: other random numbers are asked for, with which gradients would be wrong, or no comparison of the
            runs; a `context_fn` for a region that runs in a pass of its own (`use_reentrant=True`).
        CheckpointError: (in backward) the second run saved other tensors than the first; a RuntimeError.
    """
    if not preserve_rng_state:
        raise ValueError(
            "preserve_rng_state=False: a region that is run again draws the same random numbers, at no cost; leave the "
            "argument out"
        )
    if determinism_check != "default":
        raise ValueError(
            f"determinism_check={determinism_check!r}: what a region saves when it is run again is always compared "
            "with what it saved at first; leave the argument out"
        )
    if debug:
        raise ValueError("debug=True: errors name what differs between the runs of a region anyway; leave it out")
    if use_reentrant and context_fn is not noop_context_fn:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    contexts = context_fn()
    if not callable(function) or not state.here.grad or state.here.inference:
        return _checkpoint(function, *args, **named)
    stops = _EARLY_STOP.get()
    return checkpointed(function, args, named, contexts, early_stop if stops is None else stops)


@public
def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Return what functions give that are called one after the other, cut into `segments` regions, of which all but the
    last are checkpointed.

    Raises:
        ValueError: fewer than one segment, or more than there are functions.
    """
    several = list(functions)
    if not 1 <= segments <= len(several):
        raise ValueError(f"segments must be between 1 and the number of functions, {len(several)}, got {segments}")
    length = len(several) // segments

    def run(first: int, end: int) -> Callable[[Any], Any]:
        def region(value: Any) -> Any:
            for function in several[first:end]:
                value = function(value)
            return value

        return region

    for number in range(segments - 1):
        first = number * length
        input = checkpoint(
            run(first, first + length), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return run((segments - 1) * length, len(several))(input)
