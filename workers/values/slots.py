"""The slots of a call: what the steps of a program read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Slots = list[Any]
"""The values of a call, by the numbers that its program gives them."""

Execute = Callable[[Slots], None]
"""A step of a program, compiled: runs over slots."""
