"""The state of the program's random numbers as a tensor: `get_rng_state` and `set_rng_state`.

It holds what later draws depend on: the sequential generator, the manual seed, and how many applications, passes, hooks
and draws the program's stream has counted, by which user code draws (`core.random_streams`).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import numpy as np

from raygrad.errors import AutogradError

from ..core import dtypes
from ..core.modes import state
from ..core.random_streams import PROGRAM, StreamOrigin, current_stream
from ..tensor.tensor import Tensor
from .random_numbers import change_of_generator, program_generator

_ARRAYS: Final = ("counter", "key")


def get_rng_state() -> Tensor:
    """Return the state of the program's random numbers, a tensor of bytes for `set_rng_state`.

    After `set_rng_state` the program, and the Functions and hooks that it applies, draw the same numbers again, eagerly
    and in sessions.

    Raises:
        RuntimeError: it is called in a Function or a hook, whose draws go by its place in the program.
    """
    _check_program("get_rng_state")
    change_of_generator(None)
    held: Any = program_generator().bit_generator.state
    data = {
        "seed": PROGRAM.origin.seed,
        "positions": PROGRAM.positions,
        **{name: [int(part) for part in held["state"][name]] for name in _ARRAYS},
        "buffer": [int(part) for part in held["buffer"]],
        **{name: int(held[name]) for name in ("buffer_pos", "has_uint32", "uinteger")},
    }
    return Tensor.made(np.frombuffer(json.dumps(data).encode(), np.uint8).copy())


def set_rng_state(new_state: Tensor) -> None:
    """Let the program's random numbers go on from a state that `get_rng_state` returned, in any process.

    Raises:
        TypeError: it is no tensor of bytes.
        RuntimeError: it is no such state; or this is a Function or a hook, whose draws go by its place in the program.
    """
    _check_program("set_rng_state")
    if not isinstance(new_state, Tensor) or new_state.dtype != dtypes.uint8:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("set_rng_state takes a tensor of bytes (uint8), as get_rng_state returns")
    try:
        data: Any = json.loads(new_state.cpu().detach().numpy().tobytes())
        held = {
            "bit_generator": "Philox",
            "state": {name: np.array(data[name], np.uint64) for name in _ARRAYS},
            "buffer": np.array(data["buffer"], np.uint64),
            **{name: data[name] for name in ("buffer_pos", "has_uint32", "uinteger")},
        }
        origin, positions = StreamOrigin(data["seed"], 0), tuple(data["positions"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise AutogradError(
            "this tensor is no state of random numbers: set_rng_state takes what get_rng_state returned"
        ) from None
    change_of_generator(partial(_set, held, origin, positions))


def _set(held: dict[str, Any], origin: StreamOrigin, positions: tuple[int, ...]) -> None:
    program_generator().bit_generator.state = held
    PROGRAM.reseed(origin, positions)


def _check_program(name: str) -> None:
    if current_stream(state.here) is not PROGRAM:
        raise AutogradError(
            f"raygrad.{name}() is of the program: what a Function or a hook draws goes by its place in the program, "
            "and is the same whenever it runs"
        )
