"""What `dir(rg.autograd)` shows: what is public, and nothing of how the room is laid out."""

from __future__ import annotations

import importlib

import raygrad as rg

SUBMODULES = ("forward_ad", "function", "functional", "grad_mode", "gradcheck", "graph")


def test_dir_shows_the_public_names_and_submodules_only() -> None:
    assert dir(rg.autograd) == sorted({*rg.autograd.__all__, *SUBMODULES})


def test_what_dir_shows_can_be_had() -> None:
    for name in SUBMODULES:
        importlib.import_module(f"raygrad.autograd.{name}")
    for name in dir(rg.autograd):
        assert getattr(rg.autograd, name) is not None
