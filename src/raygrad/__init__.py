"""raygrad: autograd graphs of PyTorch-style Functions over NumPy and CuPy arrays, run in process or on a Ray cluster.

The table of public names and their modules. A name is imported when it is first used, so that `import raygrad` loads no
room, no ray, no cupy, no torch and no jax.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_SUBMODULES = tuple(
    (
        "amp autograd chaos client cuda errors fft func functional interop linalg nn optim proto saving scheduler "
        "special utils workers"
    ).split()
)

_HOMES = {
    "Session": "raygrad.client.session.session",
    "device": "raygrad.autograd.devices",
    "place": "raygrad.client.session.pins",
    "emit": "raygrad.workers.interpreter.user_emits",
    "set_full_tracebacks": "raygrad.tracebacks",
    "worker_local": "raygrad.autograd.core.worker_local",
    "checkpoint": "raygrad.autograd.engine.checkpointing",
    "Tensor": "raygrad.autograd.tensor.tensor",
    **dict.fromkeys(
        "autocast get_autocast_dtype is_autocast_cache_enabled is_autocast_enabled".split(),
        "raygrad.autograd.dispatch.autocast",
    ),
    **dict.fromkeys(("inference_mode", "is_inference_mode_enabled"), "raygrad.autograd.tensor.inference"),
    **dict.fromkeys(("is_anomaly_enabled", "is_anomaly_check_nan_enabled"), "raygrad.autograd.nodes.anomaly"),
    "Size": "raygrad.autograd.core.size",
    **dict.fromkeys(("layout", "strided"), "raygrad.autograd.core.layout"),
    "vmap": "raygrad.autograd.vmap.vmap",
    **dict.fromkeys(("save", "load"), "raygrad.saving.save"),
    **dict.fromkeys(("get_rng_state", "set_rng_state"), "raygrad.autograd.dispatch.rng_state"),
    **dict.fromkeys(
        ("no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled"),
        "raygrad.autograd.core.modes",
    ),
    **dict.fromkeys(
        (
            "float16 half float32 float float64 double complex64 cfloat complex128 cdouble int8 int16 short int32 int "
            "int64 long uint8 bool dtype get_default_dtype set_default_dtype finfo iinfo e inf nan newaxis pi"
        ).split(),
        "raygrad.autograd.core.dtypes",
    ),
    **dict.fromkeys(
        "channels_last channels_last_3d contiguous_format preserve_format".split(),
        "raygrad.autograd.core.memory_format",
    ),
    **dict.fromkeys(
        (
            "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ "
            "as_strided_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ "
            "erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ "
            "log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ "
            "sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_"
        ).split(),
        "raygrad.autograd.methods.inplace_functions",
    ),
    **dict.fromkeys("can_cast promote_types result_type".split(), "raygrad.autograd.core.type_promotion"),
    **dict.fromkeys(
        (
            "tensor as_tensor asarray from_numpy from_dlpack zeros ones full empty arange eye "
            "scalar_tensor zeros_like ones_like full_like empty_like"
        ).split(),
        "raygrad.autograd.dispatch.creation",
    ),
    **dict.fromkeys(("linspace", "logspace", "range"), "raygrad.autograd.dispatch.even_spacing"),
    **dict.fromkeys(
        "bartlett_window blackman_window hamming_window hann_window kaiser_window".split(),
        "raygrad.autograd.dispatch.signal_windows",
    ),
    **dict.fromkeys(
        "randn rand randint rand_like randint_like randn_like randperm manual_seed generator".split(),
        "raygrad.autograd.dispatch.random_numbers",
    ),
}

__all__ = [*_HOMES, *"amp autograd chaos cuda errors fft func functional interop linalg nn optim special utils".split()]  # pyright: ignore[reportUnsupportedDunderAll]

_INSTEAD = {
    "as_strided_scatter": "PyTorch's gradient of it is not its derivative; write to `as_strided` of a clone",
    "bfloat16": "NumPy has no such dtype; raygrad.float16 is as short",
    "Generator": "random numbers are drawn from one stream; raygrad.manual_seed(number) seeds it, in a session too",
    "compile": "session.compile(fn) records a training step once and replays it",
    "jit": "kernels are NumPy's; session.compile(fn) records a training step once and replays it",
    "sparse_coo_tensor": "tensors are dense; a Function may hold a matrix of scipy.sparse (see docs/functions.md)",
}
"""Names of PyTorch that are missing here, with their replacements."""

_SAID = frozenset("zeros_like ones_like full_like empty_like rand_like randint_like randn_like randperm".split())
"""Functions outside of the op catalogue whose errors name the argument of the wrong type."""

_OPS = "raygrad.autograd.ops"
"""Every public function of the op catalogue is a name of the package too."""

if TYPE_CHECKING:  # other names are errors there, which a `__getattr__` would hide
    from raygrad import (
        amp as amp,
        autograd as autograd,
        chaos as chaos,
        cuda as cuda,
        errors as errors,
        fft as fft,
        func as func,
        functional as functional,
        interop as interop,
        linalg as linalg,
        nn as nn,
        optim as optim,
        special as special,
        utils as utils,
    )
    from raygrad.stubs.package import *  # noqa: F403 (generated; the star makes the names public to type checkers)

else:

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return importlib.import_module(f"raygrad.{name}")
        home = _HOMES.get(name)
        if home is not None:
            value = getattr(importlib.import_module(home), name)
            if name in _SAID:
                wrappers = importlib.import_module("raygrad.autograd.dispatch.argument_errors")
                value = wrappers.with_argument_errors(value, __name__, name)
            elif home.startswith(("raygrad.autograd.core.", "raygrad.autograd.dispatch.")):
                value = importlib.import_module("raygrad.autograd.registry.codegen").offered(value, __name__, name)
        elif not name.startswith("_") and name in (ops := importlib.import_module(_OPS)).__all__:
            value = ops.offered({name: getattr(ops, name)}, __name__)[name]
        else:
            hint = _INSTEAD.get(name)
            raise AttributeError(f"module 'raygrad' has no attribute '{name}'{': ' if hint else ''}{hint or ''}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    modules_own = [name for name in globals() if name.startswith("__")]
    return sorted({*modules_own, *__all__, *importlib.import_module(_OPS).__all__})
