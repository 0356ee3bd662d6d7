"""Transform handlers: the functions that serve calls under vmap, forward mode and user-registered entries.

Dispatch and `Function.apply` call them. These functions are built on ops and Functions, above both, and
`assembly` enters them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Handlers:
    """Functions by the kind of call that they serve.

    Attributes:
        batched_op: applies an op to operands of which one is batched at an open level.
        forward_op: gives the results of an op their tangents.
        registered_op: applies an op by the entries of a user, or returns None where these do not serve.
        batched_function: applies a Function to arguments of which one is batched at an open level.
        forward_function: applies a Function, in a session, to arguments that carry tangents.
    """

    batched_op: Callable[..., Any]
    forward_op: Callable[..., None]
    registered_op: Callable[..., Any]
    batched_function: Callable[..., Any]
    forward_function: Callable[..., Any]


handlers = _Handlers()
