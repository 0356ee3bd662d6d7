"""Presumed and deferred tensors: outputs of a Function in a session whose facts no run has confirmed, or shown (H3).

A session makes outputs such tensors, so that looking at other tensors costs nothing. Whoever looks at the data of a
presumed one finds a plain tensor afterwards, and its record is told; methods that read its value wait for the facts
first. Whoever looks at anything of a deferred one waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from raygrad.errors import SessionError
from raygrad.tracebacks import leave, public

from ..core.recorder import Pending
from .tensor import Tensor


class PresumedTensor(Tensor):
    """An output with presumed facts. Its class becomes `Tensor` as soon as something goes by these: whatever is looked
    at or set, but for the methods that wait."""

    def become_plain(self) -> bool:
        """Become a plain tensor, whose facts somebody relies on; True."""
        record = hidden_data(self).record
        _make_plain(self)
        record.rely()
        return True

    def __getattribute__(self, name: str) -> Any:
        if name not in _WITHOUT_FACTS and not name.startswith("__"):  # protocols ask for many that there are not
            PresumedTensor.become_plain(self)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "__class__":
            PresumedTensor.become_plain(self)
        object.__setattr__(self, name, value)


def _make_plain(tensor: Any) -> None:
    tensor.__class__ = Tensor


_AT_ONCE: Final = frozenset(("__class__", "sum", "mean"))
"""What may be looked at of a deferred tensor without waiting."""


class DeferredTensor(Tensor):
    """An output of which nothing is known. Its class becomes `Tensor` when its run has shown what it is."""

    def __getattribute__(self, name: str) -> Any:
        if name in _AT_ONCE:
            return object.__getattribute__(self, name)
        try:
            _await_run(self, reading=name in _READING)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "__class__":
            _await_run(self, reading=False)
        object.__setattr__(self, name, value)


def _await_run(tensor: Tensor, *, reading: bool) -> None:
    """Wait until the run has shown what a deferred tensor is; `reading`: its value is about to be read.

    Raises:
        SessionError: the session is closed.
    """
    hidden_data(tensor).record.await_facts(reading=reading)
    with _completing:
        dropped = type(tensor) is DeferredTensor
    if dropped:
        raise SessionError("this value was dropped when its session was closed")


def hidden_data(tensor: Tensor) -> Pending:
    """Return the data of a presumed or deferred tensor without looking at it."""
    return object.__getattribute__(tensor, "__dict__")["_data"]


_completing: Final = threading.Lock()
"""Held while a tensor takes on its facts, which another thread may be looking at."""


def complete(tensor: Tensor, made: Tensor) -> None:
    """Let a presumed or deferred tensor become what `made` is, which nobody else holds."""
    own, new = object.__getattribute__(tensor, "__dict__"), made.__dict__
    with _completing:
        own.update(new)
        for name in own.keys() - new.keys():
            del own[name]
        _make_plain(tensor)


def _deferring(name: str) -> Callable[..., Any]:
    """Return a method that is deferred, where the recorder does that; else it waits, and is that of a plain tensor."""

    @public
    def method(self: DeferredTensor, *args: Any, **kwargs: Any) -> Any:
        made = None
        if not kwargs and len(args) == _OPERANDS[name]:
            made = hidden_data(self).record.recorder.defer(name, (self, *args))
        if made is None:
            _await_run(self, reading=False)
            return getattr(Tensor, name)(self, *args, **kwargs)
        return made

    return method


_OPERANDS: Final = {
    **dict.fromkeys(("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__"), 1),
    **dict.fromkeys(("__neg__", "sum", "mean"), 0),
}
"""By name, the operands beside the tensor of methods that may be deferred."""

for _name in _OPERANDS:
    setattr(DeferredTensor, _name, _deferring(_name))


def _reading(name: str) -> Callable[..., Any]:
    """Return a method that waits for the facts, and then is that of a plain tensor."""

    @public
    def method(self: PresumedTensor, *args: Any, **kwargs: Any) -> Any:
        hidden_data(self).record.await_facts()
        _make_plain(self)
        return getattr(self, name)(*args, **kwargs)

    return method


_READING: Final = (
    *("numpy", "item", "tolist", "read", "__array__", "__dlpack__", "__str__", "__format__"),
    *("__bool__", "__float__", "__int__", "__index__", "__complex__", "__deepcopy__", "__reduce__"),
)
"""The methods of a tensor that wait for its value."""

_WITHOUT_FACTS: Final = frozenset(("become_plain", *_READING))
"""What may be looked at of a presumed tensor without going by its facts."""

for _name in _READING:
    setattr(PresumedTensor, _name, _reading(_name))
