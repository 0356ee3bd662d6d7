"""The names of `autograd.grad_mode`."""

from __future__ import annotations

import importlib
from typing import Any


def test_md_01_the_module_has_the_switches(T: Any):
    module = importlib.import_module(f"{T.__name__}.autograd.grad_mode")
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        assert getattr(module, name) is getattr(T, name)
