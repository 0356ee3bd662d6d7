"""The generator of docs/compatibility.md: names and behaviours of PyTorch's autograd, with what differs.

The page lists what the suite tests and nothing else. PyTorch's names are kept here, so that the page can be made where
PyTorch is not installed; a test compares them with the installed ones.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .contract import SECTIONS as SECTIONS  # whose programs are registered so
from .ids import DIFFERS, IDS
from .programs import PROGRAMS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
ID = re.compile(r"(?<![a-z0-9])([a-z]{2}[-_]\d\d)(?!\d)", re.IGNORECASE)
NAMED = re.compile(r"\b(?:[A-Z]{2}-\d\d|H\d\d?)\b")
"""An id in the text of the page, which becomes a link to its definition."""


NAMES: Mapping[str, Sequence[str]] = {
    "amp": "GradScaler autocast custom_bwd custom_fwd is_autocast_available".split(),
    "autograd": (
        "Function Variable backward detect_anomaly enable_grad enforce_grad_layout_policy forward_ad function "
        "functional grad grad_mode gradcheck gradgradcheck graph inference_mode NestedIOFunction no_grad "
        "set_detect_anomaly set_grad_enabled set_multithreading_enabled variable"
    ).split(),
    "autograd.function": (
        "BackwardCFunction Function FunctionCtx FunctionMeta InplaceFunction NestedIOFunction once_differentiable"
    ).split(),
    "autograd.graph": (
        "GradientEdge Node allow_mutation_on_saved_tensors disable_saved_tensors_hooks get_gradient_edge "
        "increment_version region_activation_memory_budget register_multi_grad_hook save_on_cpu saved_tensors_hooks "
        "set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch"
    ).split(),
    "autograd.forward_ad": (
        "UnpackedDualTensor dual_level enter_dual_level exit_dual_level make_dual unpack_dual"
    ).split(),
    "autograd.functional": "hessian hvp jacobian jvp vhp vjp".split(),
    "func": (
        "debug_unwrap functional_call functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize rearrange "
        "replace_all_batch_norm_modules_ stack_module_state vjp vmap"
    ).split(),
}
"""The public names of PyTorch 2.13, by module."""

ABSENT: dict[str, str] = {
    "amp.GradScaler": "multiply the loss by a factor before backward, and the gradients by its inverse before the step",
    "autograd.enforce_grad_layout_policy": "about strides of gradients on PyTorch's devices; EN-32 always holds here",
    "autograd.function.BackwardCFunction": "a base class inside PyTorch's C++ engine",
    "autograd.function.FunctionCtx": "ctx is the node itself: `raygrad.autograd.graph.Node`",
    "autograd.graph.region_activation_memory_budget": "an option of PyTorch's compiler",
    "autograd.graph.set_override_stale_capture_stream": "about CUDA streams of PyTorch",
    "autograd.graph.set_warn_on_accumulate_grad_stream_mismatch": "about CUDA streams of PyTorch",
    "func.debug_unwrap": "for looking inside PyTorch's wrappers; there are none here",
    "func.functional_call": "for torch.nn.Module, which raygrad has not",
    "func.functionalize": "values in a session are functional already",
    "func.rearrange": "of einops; not about derivatives",
    "func.replace_all_batch_norm_modules_": "for torch.nn.Module, which raygrad has not",
    "func.stack_module_state": "for torch.nn.Module, which raygrad has not",
}
"""Names that raygrad has not, and why."""


def present(module: str, name: str) -> bool:
    """Tell whether `raygrad.<module>.<name>` is there."""
    try:
        home = importlib.import_module(f"raygrad.{module}")
    except ImportError:
        return False
    return hasattr(home, name)


def named_in_tests() -> dict[str, set[str]]:
    """Return, per id, the test files that name it; the list of ids itself, and this file, do not count."""
    found: dict[str, set[str]] = {name: set() for name in IDS}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("ids.py", "compatibility.py"):
            continue
        for name in ID.findall(path.read_text()):
            name = name.upper().replace("_", "-")
            if name in found:
                found[name].add(path.relative_to(ROOT / "tests").as_posix())
    return found


def eager_only() -> dict[str, str]:
    """Return the ids that no program shows in a session, with the reason that their programs give."""
    somewhere = {name for program in PROGRAMS.values() if not program.eager_only for name in program.ids}
    alone: dict[str, str] = {}
    for program in PROGRAMS.values():
        for name in program.ids:
            if program.eager_only and name in IDS and name not in somewhere:
                alone[name] = program.eager_only
    return alone


def page() -> str:
    """Return the text of docs/compatibility.md."""
    return NAMED.sub(_link, "\n".join([*_head(), *_names(), *_behaviours(), *_found(), ""]))


def _link(found: re.Match[str]) -> str:
    """Return an id as a link to the page that defines it."""
    name = found[0]
    return f"[{name}]({'semantics' if '-' in name else 'hard_cases'}.md#{name.lower()})"


def _head() -> Iterator[str]:
    yield "# Compatibility with PyTorch"
    yield ""
    yield (
        "`import raygrad as torch` holds for the autograd surface of PyTorch 2.13. This page is made from the test "
        "suite (`make docs`): a behaviour stands here because a test names it. *Eagerly* is without a session; *in a "
        "session* is in process, strictly by value, and on Ray workers, with equal bytes in all of them. An id leads "
        "to the definition of its behaviour."
    )
    yield ""


def _names() -> Iterator[str]:
    yield "## Names"
    yield ""
    for module, names in NAMES.items():
        yield f"### torch.{module}"
        yield ""
        yield "| name | in raygrad |"
        yield "|---|---|"
        for name in names:
            reason = ABSENT.get(f"{module}.{name}", "not built yet")
            yield f"| `{name}` | {'yes' if present(module, name) else 'no: ' + reason} |"
        yield ""


def _behaviours() -> Iterator[str]:
    named, alone = named_in_tests(), eager_only()
    partly = {name: program.eager_only for program in PROGRAMS.values() if program.eager_only for name in program.ids}
    yield "## Behaviours"
    yield ""
    yield f"{len(IDS)} behaviours; {sum(bool(f) for f in named.values())} have a test that names them, "
    yield f"{len(alone)} hold eagerly alone, {len(DIFFERS)} differ from PyTorch on purpose."
    yield ""
    yield "| id | behaviour | eagerly | in a session | differs from PyTorch |"
    yield "|---|---|---|---|---|"
    for name, title in IDS.items():
        eagerly = "yes" if named[name] else "no test"
        session = f"no: {alone[name]}" if name in alone else eagerly
        if name in partly and name not in alone:
            session += f"; in part eagerly alone: {partly[name]}"
        yield f"| {name} | {title} | {eagerly} | {session} | {DIFFERS.get(name, '')} |"


def _found() -> Iterator[str]:
    """The differences that random programs have shown and that the fuzzer leaves out of its comparison."""
    yield ""
    yield "## Differences that random programs have shown"
    yield ""
    yield "The differential fuzzer (`tests/fuzz`) compares random programs with PyTorch, and leaves these out."
    yield ""
    yield "| id | what raygrad does instead |"
    yield "|---|---|"
    tree = ast.parse((ROOT / "tests" / "fuzz" / "exclusions.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Exclusion":
            said = {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
            yield f"| {said['id']} | {said['why']} |"
