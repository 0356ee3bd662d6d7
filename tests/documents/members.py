"""The members that the document of a Function lists, and the check that a test walks through each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

METHODS = (
    "apply backward forward jvp vjp vmap mark_dirty mark_non_differentiable mark_shared_storage "
    "maybe_clear_saved_tensors name register_hook register_prehook save_for_backward save_for_forward "
    "set_materialize_grads setup_context"
).split()

ATTRIBUTES = (
    "dirty_tensors generate_vmap_rule materialize_grads metadata needs_input_grad next_functions non_differentiable "
    "requires_grad saved_for_forward saved_tensors saved_variables to_save"
).split()


def without_a_test(module: Mapping[str, Any], members: Sequence[str]) -> list[str]:
    """Return the members for which a test module has no function `test_<member>`, alone or with more words."""
    names = [name for name in module if name.startswith("test_")]
    return [m for m in members if not any(n == f"test_{m}" or n.startswith(f"test_{m}__") for n in names)]
