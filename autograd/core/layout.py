"""The layout of tensors, by PyTorch's name: all are strided."""

from __future__ import annotations

from enum import Enum


class Layout(Enum):
    """How the elements of a tensor lie in memory."""

    STRIDED = "strided"

    def __repr__(self) -> str:
        return f"raygrad.{self.value}"


layout = Layout
strided = Layout.STRIDED
