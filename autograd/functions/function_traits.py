"""The traits of a Function class, computed once per class: which methods it overrides, its style and its flags (FN-02,
FN-16, FN-23).

`apply` and the engine read them at each node, instead of searching the class. The metaclass recomputes them whenever an
attribute of the class is set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from opcode import opmap
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from raygrad.errors import AutogradError, MissingDerivative

from .read_only_inputs import forward_on_read_only
from .writable_inputs import backward_on_copies, forward_on_copies

if TYPE_CHECKING:
    from .function import Function

NO_FORWARD = "You must implement the forward function for custom autograd.Function."
NO_BACKWARD = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
    "mode AD."
)
TWO_BACKWARDS = (
    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
    "You should only implement one of them."
)

NOTE = "note_on_context"
"""The attribute of a decorated forward with a function of the context, which a forward in the separate style does not
get (LG-14)."""


def unwritten_forward(*args: Any, **kwargs: Any) -> Any:
    """Compute the outputs: `forward(ctx, *args)`, or, with a `setup_context`, `forward(*args)`."""
    raise NotImplementedError(NO_FORWARD)


def unwritten_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
    """Save what backward needs, when forward takes no ctx."""
    raise NotImplementedError("setup_context is not implemented.")


def unwritten(ctx: Any, *grad_outputs: Any) -> Any:
    """Return one gradient (or None) per argument of forward, given one per output; user classes override it."""
    raise NotImplementedError(NO_BACKWARD)


def _raising(error: type[Exception], message: str) -> Callable[..., Any]:
    """Return the method of a class that cannot be applied, or differentiated: it raises."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error(message)

    return refuse


_both, _neither = _raising(AutogradError, TWO_BACKWARDS), _raising(MissingDerivative, NO_BACKWARD)


def may_mark(cls: type[Function]) -> bool:
    """Tell whether a Function may change arguments in place: whether its code, or code it wraps, names `mark_dirty`."""
    return any(_names(method) for method in (cls.forward, cls.setup_context))


def _names(method: Any) -> bool:
    while method is not None:
        code = getattr(method, "__code__", None)
        if code is None or _names_in(code):
            return True
        method = getattr(method, "__wrapped__", None)
    return False


def _names_in(code: CodeType) -> bool:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return "mark_dirty" in code.co_names or any(_names_in(one) for one in inner)


_STORES: Final = frozenset([opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap])
_BINARY_OP: Final = opmap["BINARY_OP"]
_IN_PLACE: Final = range(13, 26)
"""Arguments of `BINARY_OP` for `+=` and its kind."""
_WRITERS: Final = frozenset(
    (
        *(
            "copyto",
            "put",
            "put_along_axis",
            "place",
            "putmask",
            "fill_diagonal",
            "fill",
            "sort",
            "partition",
            "resize",
        ),
        *("shuffle", "at", "setfield", "byteswap", "itemset", "setflags"),
    )
)
"""Names of NumPy's functions and methods that write to an array."""


def may_write(cls: type[Function]) -> bool:
    """Tell whether a Function's forward may write to arrays: by an item, `+=`, `out=`, or a function of NumPy's, in its
    code or in that of functions that it names. What it leaves to compiled code is not seen."""
    return any(_may_write(method, HELPERS) for method in (cls.forward, cls.setup_context))


def _may_write(method: Any, depth: int) -> bool:
    while (wrapped := getattr(method, "__wrapped__", None)) is not None:
        method = wrapped
    code = getattr(method, "__code__", None)
    if code is None or _writes_in(code):
        return True
    space: dict[str, Any] = getattr(method, "__globals__", {})
    named = [space.get(name) for name in code.co_names]
    for cell in getattr(method, "__closure__", None) or ():
        with suppress(ValueError):  # not bound yet
            named.append(cell.cell_contents)
    helpers = [one for one in named if isinstance(one, FunctionType) and not _is_own(one)]
    return depth > 0 and any(_may_write(helper, depth - 1) for helper in helpers)


def _is_own(function: FunctionType) -> bool:
    """Tell whether a function is raygrad's, which sees its own writes."""
    return str(function.__module__).partition(".")[0] == "raygrad"


HELPERS: Final = 2
"""The depth of functions that name each other to which `may_write` looks."""


def _writes_in(code: CodeType) -> bool:
    raw = code.co_code
    for operation, argument in zip(raw[::2], raw[1::2], strict=True):
        if operation in _STORES or (operation == _BINARY_OP and argument in _IN_PLACE):
            return True
    if not _WRITERS.isdisjoint(code.co_names):
        return True
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    keywords = [cast("tuple[Any, ...]", one) for one in code.co_consts if isinstance(one, tuple)]
    return any("out" in one for one in keywords) or any(_writes_in(one) for one in inner)


class FunctionTraits:
    """The methods and flags of one Function class.

    Attributes:
        forward: its forward; a function that raises, if a flag of the class is invalid.
        setup: its setup_context, or None in the combined style.
        backward: its backward or vjp; a function that raises, if neither or both are defined.
        boxed: backward takes one list of gradients instead of one argument for each (CX-26).
        read_once: the first read of saved tensors releases them (CX-25).
        writable: forward and backward get writable copies.
        packs: its saved tensors are packed by the hooks under which it was applied (`derived`).
        node: the class of its nodes.
    """

    __slots__ = ("backward", "boxed", "forward", "node", "packs", "read_once", "setup", "writable")

    def __init__(self, cls: type[Function]) -> None:
        self.node = cls._backward_cls
        self.forward: Callable[..., Any] = cls.forward
        setup: Any = cls.setup_context
        note: Any = getattr(cls.forward, NOTE, None)
        self.setup: Callable[..., Any] | None = (
            None if setup is unwritten_setup else setup if note is None else _with_note(note, setup)
        )
        backward, vjp = cls.backward is not unwritten, cls.vjp is not unwritten
        self.backward: Callable[..., Any] = (
            _both if backward and vjp else cls.backward if backward else cls.vjp if vjp else _neither
        )
        self.boxed: Any = getattr(cls, "boxed_grads_call", False)
        self.read_once: Any = getattr(cls, "clear_saved_tensors_on_access", False)
        self.packs = getattr(cls, "_applied_under", None) is not None
        writable: Any = getattr(cls, "writable_inputs", False)
        self.writable = bool(writable)
        if self.writable:
            self.forward = forward_on_copies(self.forward, cls.__name__, self.setup is None)
            self.backward = backward_on_copies(self.backward, bool(self.boxed))
        elif may_write(cls) and not may_mark(cls):
            self.forward = forward_on_read_only(self.forward, cls.__name__, self.setup is None)
        flags = {
            "boxed_grads_call": self.boxed,
            "clear_saved_tensors_on_access": self.read_once,
            "writable_inputs": writable,
        }
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                message = f"{cls.__name__}.{name} must be a bool, got {type(flag).__name__}"
                self.forward = _raising(AutogradError, message)


def _with_note(note: Callable[[Any], Any], setup: Callable[..., Any]) -> Callable[..., Any]:
    """Return a setup_context that first calls the note left by the forward's decorator."""

    def noting(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        note(ctx)
        return setup(ctx, inputs, output)

    return noting
