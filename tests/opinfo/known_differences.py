"""Known differences from PyTorch in its own samples of operations, with the reason, by entry and kind of comparison.

These count against raygrad in the summary (`python -m tests.opinfo`). Whoever mends one takes it out; one that is gone
fails where all samples are compared (`--opinfo=all`).
"""

from __future__ import annotations

from typing import Final

_OUT: Final = (
    "the result is computed before it is written, so that `out=` may share memory with an operand, and be of any dtype "
    "to which casting is safe"
)

KNOWN: Final[dict[str, dict[str, str]]] = {
    "__radd__": {
        "error inputs": "a number is given for self, which Python never does",
    },
    "__rmul__": {
        "error inputs": "a number is given for self, which Python never does",
    },
    "addbmm": {
        "in-place": "PyTorch resizes the tensor that is changed; here an in-place result must have its shape",
        "vmap": "PyTorch's vmap gives float32 of integers, whose function gives int64",
    },
    "addmv": {
        "vmap": "PyTorch's vmap gives float32 of integers, whose function gives int64",
    },
    "amax": {
        "error inputs": "NumPy has no tensors of more than 64 dimensions",
    },
    "amin": {
        "error inputs": "NumPy has no tensors of more than 64 dimensions",
    },
    "aminmax": {
        "error inputs": "NumPy has no tensors of more than 64 dimensions",
    },
    "argwhere": {
        "vmap": "depends on data, which vmap does not know",
    },
    "baddbmm": {
        "vmap": "PyTorch's vmap gives float32 of integers, whose function gives int64",
    },
    "bincount": {
        "vmap": "depends on data, which vmap does not know",
    },
    "cat": {
        "error inputs": _OUT,
    },
    "cholesky_inverse": {
        "jvp": "PyTorch's tangent loses digits: it is off by 6e-5 of an exact one, here by 1e-15",
    },
    "cholesky_solve": {
        "double backward": "in single precision the rounding of the first derivative grows in the second",
    },
    "complex": {
        "error inputs": _OUT,
    },
    "gather": {
        "error inputs": _OUT,
    },
    "gradient": {
        "error inputs": "one sample is on PyTorch's device `meta`, which has no counterpart",
    },
    "kthvalue": {
        "error inputs": _OUT,
    },
    "linalg.lstsq": {
        "double backward": "in single precision the rounding of the first derivative grows in the second",
    },
    "linalg.lstsq.grad_oriented": {
        "double backward": "in single precision the rounding of the first derivative grows in the second",
    },
    "linspace.tensor_overload": {
        "vmap": "depends on data, which vmap does not know",
    },
    "logcumsumexp": {
        "double backward": "in single precision PyTorch's second derivative is off by more than rounding explains",
        "jvp": "PyTorch's tangent is NaN of complex numbers, and off by 1e-6 of real ones",
    },
    "logspace.tensor_overload": {
        "vmap": "depends on data, which vmap does not know",
    },
    "masked_select": {
        "error inputs": _OUT,
    },
    "matrix_exp": {
        "double backward": "in single precision the rounding of the first derivative grows in the second",
    },
    "multinomial": {
        "error inputs": _OUT,
    },
    "narrow_copy": {
        "error inputs": "PyTorch fails in an assertion of its own; here an IndexError, as of `narrow`",
    },
    "round.decimals_0": {
        "refused dtypes": "zero decimals round integers as none do, given or not",
    },
    "take": {
        "error inputs": _OUT,
    },
    "triangular_solve": {
        "jvp": "PyTorch takes the whole of a matrix's tangent, not the triangle that is read",
    },
}
