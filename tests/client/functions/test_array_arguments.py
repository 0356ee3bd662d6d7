"""Arrays that Functions are given or capture lie in sessions as they do eagerly: strides, byte order (H1)."""

from __future__ import annotations

from typing import Any

from . import array_programs as programs


def test_h1_arrays_keep_strides_and_byte_order(session: Any) -> None:
    with session:
        assert programs.differences(session) == []
