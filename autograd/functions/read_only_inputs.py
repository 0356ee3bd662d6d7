"""Read-only arrays for a forward that may write to the memory of its arguments, and has not declared it (DR-03).

NumPy would change them unseen by autograd: `x.numpy()` gives such a forward an array that cannot be written to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from raygrad.errors import AutogradError
from raygrad.tracebacks import says

from ..core.modes import PROTECTED, state

READ_ONLY: Final = "read-only"
"""In what NumPy and raygrad say of a write to an argument that was not declared."""

UNSAID: Final = "changed an argument in place without saying so"
"""In the error of a Function that did."""

UNSAID_WRITE: Final = (
    f"{{name}} {UNSAID}: call ctx.mark_dirty(...) with it in forward and return it, "
    "work on a copy (x.clone()), or set writable_inputs = True on the Function to be given copies"
)
"""The error of a Function that writes to an argument's array."""


def forward_on_read_only(forward: Callable[..., Any], name: str, with_context: bool) -> Callable[..., Any]:
    """Return a forward that calls the user's while the arrays of its tensor arguments are read-only.

    Raises (when called):
        AutogradError: forward has written to one.
    """

    def on_read_only(*args: Any, **named: Any) -> Any:
        here = state.here
        outer, here.arguments = here.arguments, args[1:] if with_context else args
        PROTECTED.append(here.arguments)
        try:
            return forward(*args, **named)
        except ValueError as error:
            if not says(error, READ_ONLY):
                raise
            raise AutogradError(UNSAID_WRITE.format(name=name)) from error
        finally:
            here.arguments = outer
            PROTECTED.pop()

    return on_read_only
