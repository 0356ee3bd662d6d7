"""Queries and final callbacks of the current backward pass, for code that runs inside it (EN-24 to EN-26, EN-36).

Users reach it by `raygrad.autograd.graph` and `Variable._execution_engine`; the pass is in `engine/traversal.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.modes import state
from .node import Node

if TYPE_CHECKING:
    from ..engine.traversal import BackwardPass


def current_pass_id() -> int:
    """Return a number that no other pass of this process has, or -1 outside a pass."""
    task = state.task
    return -1 if task is None else task.number


def current_node() -> Node | None:
    """Return the node that the innermost pass of this thread is running, or None."""
    task = state.task
    return None if task is None else task.node


def is_graph_retained() -> bool:
    """Tell whether the current pass keeps what was saved for another one.

    Raises:
        RuntimeError: outside a pass.
    """
    return _current("is_graph_retained").retain


def will_run(node: Node) -> bool:
    """Tell whether gradients arrive at a node in the current pass: it runs, or what arrives is what `grad` returns.

    Raises:
        RuntimeError: outside a pass.
    """
    return _current("will_run").will_reach(node)


def _current(question: str) -> BackwardPass:
    task = state.task
    if task is None:
        raise AutogradError(f"{question} should only be called during the backward pass: in a backward or a hook")
    return task


class ExecutionEngine:
    """What `Variable._execution_engine` is."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call `callback()` once the gradients of the current pass are in place.

        Raises:
            RuntimeError: outside a pass.
        """
        task = state.task
        if task is None:
            raise AutogradError("Final callbacks can only be installed during backward pass.")
        task.callbacks.append(callback)


# ---- threads ---------------------------------------------------------------------------------------------------------


def is_multithreading_enabled() -> bool:
    """Tell whether the engine may use threads of its own."""
    return state.engine_threads


class set_multithreading_enabled:
    """Say at once whether the engine may use threads of its own; as a context manager, restore it on leaving.

    Nodes and hooks run on the caller's thread. Only passes deep inside one another go on on another, which waits for
    nothing else and sees the caller's context variables: it has a fresh stack. Without it Python's limit on recursion
    holds for them.
    """

    def __init__(self, mode: bool) -> None:
        self._before = state.engine_threads
        state.engine_threads = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        state.engine_threads = self._before
