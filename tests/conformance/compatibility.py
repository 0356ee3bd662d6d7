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
    "func.functionalize": "values in a session are functional already",
    "func.rearrange": "of einops; not about derivatives",
    "func.replace_all_batch_norm_modules_": "`raygrad.nn` has no module of batch normalisation",
}
"""Names that raygrad has not, and why."""

ABSENT_FUNCTIONS: Mapping[str, str] = {
    "about PyTorch's own kernels, compiler or devices": """
        __rdiv__ _batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce _softmax_backward_data
        _unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa grid_sampler_2d grid_sampler_3d
        hash_tensor jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary
        jiterator_binary_return_by_ref jiterator_unary max_pool2d_with_indices_backward native_batch_norm
        native_dropout_backward native_group_norm native_layer_norm slice torch._scaled_mm torch._scaled_mm_v2
        torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
        torch.ops.aten._safe_softmax.default unsafe_chunk unsafe_split
    """,
    "NumPy has no such dtype": "bfloat16 chalf",
    "arrays keep their size, and new ones lie in C order": """
        empty_permuted empty_strided new_empty_strided resize_ resize_as_
    """,
    "tensors are dense; a Function may hold a matrix of scipy.sparse (docs/functions.md)": """
        sparse.mm sparse.sampled_addmm to_sparse
    """,
    "torch.masked: `where` with the neutral number in place of what is masked, then the reduction": """
        masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax
        masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod
        masked.softmax masked.softmin masked.std masked.sum masked.var
    """,
    "torch.signal: `hann_window` and its kind, or SciPy's windows": """
        signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.exponential
        signal.windows.gaussian signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming
        signal.windows.hann signal.windows.kaiser signal.windows.nuttall
    """,
    "older names: `nn.functional.interpolate`": "nn.functional.upsample_bilinear nn.functional.upsample_nearest",
    "PyTorch's gradient of it is not its derivative (its gradcheck says so): write to `as_strided` of a clone": """
        as_strided_scatter
    """,
    "not built": """
        linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve nn.functional.ctc_loss
        nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.linear_cross_entropy
        nn.functional.multi_head_attention_forward
    """,
}
"""The operations that PyTorch has samples of (OpInfo) and raygrad has not, by the reason."""

ABSENT_ATTRIBUTES: Mapping[str, str] = {
    "dtype.is_floating_point, dtype.is_complex": (
        "dtypes are NumPy's: `raygrad.is_floating_point(x)`, `raygrad.is_complex(x)`, or `dtype.kind`"
    ),
    "dtype.to_real, dtype.to_complex": "dtypes are NumPy's: `raygrad.result_type(dtype, raygrad.complex64)`",
    "Tensor.is_sparse and the methods of sparse and quantized tensors": "tensors are dense",
    "Tensor.storage, untyped_storage, set_, share_memory_, pin_memory, record_stream": (
        "memory is that of NumPy's and CuPy's arrays: `x.numpy()` shares it"
    ),
    "Tensor.map_, apply_": "Python functions of numbers: `np.vectorize` of `x.numpy()`",
}
"""Attributes that ported programs ask for and raygrad has not, and what to write instead."""


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
    yield "### Functions and methods"
    yield ""
    yield (
        "PyTorch describes its operations by samples (OpInfo); the suite compares raygrad with them "
        "(`python -m tests.opinfo`), by function, method, in-place form and `out=`. These are missing:"
    )
    yield ""
    yield "| missing | why, or what to write instead |"
    yield "|---|---|"
    for reason, names in ABSENT_FUNCTIONS.items():
        yield f"| {', '.join([f'`{name}`' for name in names.split()])} | {reason} |"
    for name, reason in ABSENT_ATTRIBUTES.items():
        yield f"| {name} | {reason} |"
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
