"""Access to SciPy's special functions, of the extra `raygrad[special]`: the import on first use, and kernels.

The ops of `bessel` and `distributions` are defined with these kernels. Nothing imports SciPy before one of them runs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from raygrad.errors import BackendUnavailable

from ...dispatch.direct_functions import OfOne, OfTwo, binary_function, unary_function
from ...registry.define_op import define, infer_elementwise, infer_same, quiet
from ...registry.dtype_constraints import no_complex, real_floats


@functools.cache
def load_scipy() -> Any:
    """Return the module `scipy.special`.

    Raises:
        BackendUnavailable: SciPy is not installed in this process's environment.
    """
    try:
        return importlib.import_module("scipy.special")
    except ImportError as error:
        raise BackendUnavailable(
            f"this special function needs SciPy, which cannot be imported here ({error}); install it with "
            "`pip install 'raygrad[special]'`, on every machine whose workers run it"
        ) from error


def scipy_kernel(name: str) -> Callable[..., Any]:
    """Return a kernel that calls a function of `scipy.special`. Its result has the dtype of the operands: SciPy has no
    loop for float16, and computes it in float32."""

    def kernel(*args: Any) -> Any:
        out = np.asarray(getattr(load_scipy(), name)(*args))
        return out.astype(np.result_type(*args), copy=False)

    return quiet(kernel)


def scipy_unary(
    name: str, scipy_name: str, module: str, doc: str, backward: Callable[[Any, Any], Any], saves: str | tuple[str, ...]
) -> OfOne:
    """Declare the op of a function of one operand that SciPy computes, and return the function."""
    kernel = scipy_kernel(scipy_name)
    op = define(
        name,
        ("a",),
        lambda a: kernel(a),
        infer_same,
        backward,
        saves=saves,
        promotes="float",
        admits=no_complex,
        host_only=True,
    )
    return unary_function(op, module, doc)


def scipy_binary(
    name: str, scipy_name: str, module: str, doc: str, backward: Callable[[Any, Any], Any], *, integers: bool = False
) -> OfTwo:
    """Declare the op of a function of two operands that SciPy computes, and return the function; with `integers` it
    takes these, too."""
    kernel = scipy_kernel(scipy_name)
    op = define(
        name,
        ("a", "b"),
        lambda a, b: kernel(a, b),
        infer_elementwise(name),
        backward,
        promotes="float" if integers else "arith",
        admits=no_complex if integers else real_floats,
        host_only=True,
    )
    return binary_function(op, module, doc)
