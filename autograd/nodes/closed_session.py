"""Tensors of a closed session: their values stay readable, their graph is gone.

Whatever reads the array of a tensor that a user gave or returned converts such a tensor first: it gets its value, and
a node that refuses to be differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import SessionError

from ..core.recorder import Data, Pending, Recorder
from ..tensor.tensor import Tensor
from .node import Node


class ClosedSessionNode(Node):
    """The node that represents a tensor's producer from a closed session: it refuses to be differentiated."""

    def __init__(self, tensor: Tensor, name: str) -> None:
        self._of = name
        self._metas = ((tensor.shape, tensor.dtype),)
        self._sequence = 0

    def name(self) -> str:
        """Return the name of the node that it stands for."""
        return self._of

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        raise SessionError(
            f"the session that recorded {self._of} is closed, and its graph cannot be differentiated any more: run "
            "backward inside the session, or detach() what was made there"
        )


def settle(tensor: Tensor) -> Tensor:
    """Return a tensor, with its value if it is one of a closed session."""
    data: Any = tensor._data
    if type(data) is Pending and data.record.recorder.closed:
        fetch_from_closed_session(tensor)
    return tensor


def fetch_from_closed_session(tensor: Tensor) -> None:
    """Fetch the value of a tensor of a closed session into the tensor, and replace its producer."""
    data: Any = tensor._read()
    if type(data) is np.ndarray and not data.flags.writeable and all(data.strides):
        data = data.copy(order="K")  # it can be changed in place from now on
    tensor._data = data
    producer = tensor.grad_fn
    if producer is not None:
        tensor.grad_fn, tensor.output_nr = ClosedSessionNode(tensor, producer._title()), 0
