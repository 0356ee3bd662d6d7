"""Device names: `Device`, a kind and a number, with the behaviour of `torch.device`.

As a context manager it sets the device of factories. Whether a device exists is checked in `serving`, where something
is made on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from raygrad.errors import DeviceError

from ...core.modes import state

KINDS = ("cpu", "cuda")

_LARGEST = 127
"""The largest number of a device: PyTorch keeps it in a signed byte."""


class _Entered(threading.local):
    """How the blocks that this thread is in are left, outermost first. A device is one value for all of them."""

    def __init__(self) -> None:
        self.leave: list[Callable[[], None]] = []


_entered = _Entered()


class Device:
    """A device: `Device("cuda:0")`, `Device("cuda", 0)`, `Device("cpu")`; "cuda" alone is the current one.

    As a context manager it is where factories without `device=` make tensors.

    Attributes:
        type: the kind: "cpu" or "cuda".
        index: the number among those of its kind, or None.

    Raises:
        RuntimeError: it is no name of a device (a ValueError too), or its number is negative.
        TypeError: neither a name nor a number.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | Device, index: int | None = None) -> None:
        if isinstance(type, Device) and index is None:
            kind, number = type.type, type.index
        elif isinstance(type, int) and not isinstance(type, bool) and index is None:
            kind, number = "cuda", _checked(type)
        elif isinstance(type, str):
            kind, number = _parsed(type)
            if index is not None:
                if number is not None:
                    raise DeviceError(
                        f"type (string) must not include an index because index was passed explicitly: {type}"
                    )
                if not isinstance(index, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                    given = index.__class__.__name__
                    raise TypeError(f"device(): argument 'index' (position 2) must be int, not {given}")
                number = _checked(index)
        else:
            raise TypeError(
                f"device() takes a name like 'cuda:0', or a kind and a number; got {type!r}"
                + ("" if index is None else f" and {index!r}")
            )
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'raygrad.device' objects is not writable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"attribute '{name}' of 'raygrad.device' objects is not writable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.type == self.type and other.index == self.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __reduce__(self) -> Any:
        return Device, (self.type, self.index)

    def __enter__(self) -> Device:
        here = state.here
        before, here.device = here.device, self

        def leave() -> None:
            here.device = before

        _entered.leave.append(leave)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: TracebackType | None) -> None:
        _entered.leave.pop()()


device = Device
"""The name that PyTorch gives it."""


def _checked(index: int) -> int:
    if index < 0:
        raise DeviceError(f"Device index must not be negative, got {index}")
    if index > _LARGEST:
        raise DeviceError(f"Device index must be at most {_LARGEST}, got {index}")
    return index


def _parsed(name: str) -> tuple[str, int | None]:
    """Return the kind and the number that a name gives."""
    advice = "a device is named like 'cpu', 'cuda' or 'cuda:0'"
    if not name:
        raise DeviceError(f"Device string must not be empty: {advice}")
    kind, colon, index = name.partition(":")
    well_formed = index.isascii() and index.isdecimal() and (index == "0" or not index.startswith("0"))
    if not kind.isidentifier() or (colon and not well_formed):
        raise DeviceError(f"Invalid device string: '{name}': {advice}")
    if kind not in KINDS:
        raise DeviceError(f"Expected one of {', '.join(KINDS)} device type at start of device string: {kind}: {advice}")
    return kind, _checked(int(index)) if colon else None
