"""Variables are set back to their newest version that does not depend on a failure (H8)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from raygrad.client.recording.variables import Write
from raygrad.client.submission.rollback import roll_back


def test_h8_a_gradient_that_a_failed_pass_added_to_keeps_what_the_pass_before_made_though_that_has_not_ended() -> None:
    grad, leaf = SimpleNamespace(_data="second"), SimpleNamespace(_grad=None)
    leaf._grad = grad  # the first pass made it, the second one, which fails, added to it

    def tainted(version: Any) -> bool:
        return getattr(version, "_data", version) == "second"

    first, second = [Write(leaf, "_grad", None, grad)], [Write(grad, "_data", "first", "second")]
    roll_back([(first, False), (second, True), ([], False)], tainted)
    assert leaf._grad is grad
    assert grad._data == "first"


def test_h8_a_gradient_that_a_failed_pass_made_is_gone() -> None:
    leaf = SimpleNamespace(_grad=SimpleNamespace(_data="second"))
    write = Write(leaf, "_grad", None, leaf._grad)
    roll_back([([write], True), ([], False)], lambda version: getattr(version, "_data", version) == "second")
    assert leaf._grad is None
