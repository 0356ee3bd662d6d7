"""`torch.utils.checkpoint`: `checkpoint` and `checkpoint_sequential` under PyTorch's names and arguments.

Both call `raygrad.checkpoint`, which is in `autograd.engine.checkpointing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from raygrad.autograd.engine.checkpointing import checkpoint as _checkpoint
from raygrad.tracebacks import public

R = TypeVar("R")


@public
def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **named: Any,
) -> R:
    """Return `function(*args, **named)`, keeping only the arguments for backward, as `raygrad.checkpoint` does.

    Args:
        function: the region.
        args: its arguments.
        use_reentrant: either. Gradients reach whatever the region reads, `grad` and hooks work, and nothing has to
            require grad, as with PyTorch's False; the region runs in no pass of its own, which True would have.
        preserve_rng_state: True; the second run always draws the numbers of the first.
        named: its arguments by name.

    Raises:
        TypeError: `function` cannot be called.
        ValueError: other random numbers are asked for, with which gradients would be wrong.
        CheckpointError: (in backward) the second run saved other tensors than the first; a RuntimeError.
    """
    if not preserve_rng_state:
        raise ValueError(
            "preserve_rng_state=False: a region that is run again draws the same random numbers, at no cost; leave the "
            "argument out"
        )
    return _checkpoint(function, *args, **named)


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
