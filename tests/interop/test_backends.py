"""Frameworks are loaded on request, and a missing one is an error that names the extra."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import pytest

from raygrad.errors import BackendUnavailable
from raygrad.interop.backends import load


@pytest.mark.parametrize(("name", "extra"), [("torch", r"raygrad\[torch\]"), ("jax", r"raygrad\[jax\]")])
def test_a_missing_framework_names_its_extra(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # as Python marks what cannot be imported
    with pytest.raises(BackendUnavailable, match=extra):
        load(name)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_function_needs_its_framework(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    interop: Any = importlib.import_module(f"raygrad.interop.{name}")
    with pytest.raises(ImportError, match="pip install"):
        interop.function(math.sin)


def test_a_framework_comes_as_it_is() -> None:
    jax = pytest.importorskip("jax")
    assert load("jax") is jax
