"""What a program does eagerly and in sessions of one process, to be compared: values, gradients and errors.

A program returns tensors, and what else may be compared, in lists and dicts; each mode runs it
anew. Sums of NumPy depend on strides in the last bits (H1), and what a session has may have others: so values agree
nearly, all else exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import raygrad as rg

MODES: dict[str, dict[str, Any]] = {"in process": {"workers": 1}, "strict": {"workers": 2, "strict": True}}
ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


def attempted(step: Callable[[], Any]) -> Any:
    """Return what a step returns, or what it raises."""
    try:
        return step()
    except ERRORS as error:
        return error


def refusal(step: Callable[[], Any]) -> Any:
    """Return what a step raises, or None."""
    done = attempted(step)
    return done if isinstance(done, ERRORS) else None


def plain(value: Any) -> Any:
    """Return what a value of a program shows."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, rg.Tensor):
        array = value.detach().numpy()
        return array.copy(), value.requires_grad, value.grad_fn is not None
    if isinstance(value, ERRORS):
        return type(value).__name__, str(value)
    return value


def eagerly(program: Callable[[], Any]) -> Any:
    """Return what a program does outside of all sessions."""
    rg.manual_seed(11)
    return plain(attempted(program))


def in_session(program: Callable[[], Any], mode: str) -> Any:
    """Return what it does in a session, where all is recorded before anything is read."""
    with rg.Session(**MODES[mode]):
        rg.manual_seed(11)
        return plain(attempted(program))


def disagreements(found: Any, expected: Any, where: str = "") -> dict[str, Any]:
    """Return, by where they are, what differs."""
    if isinstance(expected, np.ndarray):
        same = isinstance(found, np.ndarray) and (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if same and np.allclose(found, expected, rtol=1e-13, atol=1e-15, equal_nan=True):
            return {}
    elif isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        return {
            k: v for name in expected for k, v in disagreements(found[name], expected[name], f"{where} {name}").items()
        }
    elif isinstance(expected, list | tuple) and type(found) is type(expected) and len(found) == len(expected):
        both = zip(found, expected, strict=True)
        return {k: v for n, (f, e) in enumerate(both) for k, v in disagreements(f, e, f"{where} {n}").items()}
    elif type(found) is type(expected) and found == expected:
        return {}
    return {where: (found, expected)}
