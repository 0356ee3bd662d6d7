"""Known differences from PyTorch in its own samples of operations, with the reason, by entry and kind of comparison.

These count against raygrad in the summary (`python -m tests.opinfo`). Whoever mends one takes it out; one that is gone
fails where all samples are compared (`--opinfo=all`).
"""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[str, dict[str, str]]] = {
    "__radd__": {
        "error inputs": "a number is given for self, which Python never does",
    },
    "__rmul__": {
        "error inputs": "a number is given for self, which Python never does",
    },
    "addbmm": {
        "in-place": "PyTorch resizes the tensor that is changed; here an in-place result must have its shape",
        "vmap": "another dtype",
    },
    "addmv": {
        "vmap": "another dtype",
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
    "arange": {
        "error inputs": "`out=` is not taken",
    },
    "argwhere": {
        "vmap": "depends on data, which vmap does not know",
    },
    "as_strided.partial_views": {
        "gradients": "results differ by more than the table allows",
        "method": "refused: AutogradError",
        "values": "refused: AutogradError",
    },
    "baddbmm": {
        "vmap": "another dtype",
    },
    "bernoulli": {
        "error inputs": "`out=` is not taken",
    },
    "bincount": {
        "vmap": "depends on data, which vmap does not know",
    },
    "cat": {
        "error inputs": "`out=` is not taken",
    },
    "cholesky_inverse": {
        "jvp": "results differ by more than the table allows",
    },
    "cholesky_solve": {
        "double backward": "results differ by more than the table allows",
    },
    "complex": {
        "error inputs": "`out=` is not taken",
    },
    "gather": {
        "error inputs": "`out=` is not taken",
    },
    "gradient": {
        "error inputs": "refused by another type of error",
    },
    "index_select": {
        "error inputs": "`out=` is not taken",
    },
    "istft": {
        "gradients": "PyTorch gives some windows no gradient",
    },
    "kthvalue": {
        "error inputs": "`out=` is not taken",
    },
    "linalg.lstsq": {
        "double backward": "`driver=` is not taken",
    },
    "linalg.lstsq.grad_oriented": {
        "double backward": "`driver=` is not taken",
    },
    "linspace.tensor_overload": {
        "vmap": "depends on data, which vmap does not know",
    },
    "logcumsumexp": {
        "jvp": "results differ by more than the table allows",
    },
    "logspace.tensor_overload": {
        "vmap": "depends on data, which vmap does not know",
    },
    "masked_select": {
        "error inputs": "`out=` is not taken",
    },
    "matrix_exp": {
        "double backward": "results differ by more than the table allows",
    },
    "multinomial": {
        "error inputs": "`out=` is not taken",
    },
    "narrow_copy": {
        "error inputs": "PyTorch fails in an assertion of its own; here an IndexError, as of `narrow`",
    },
    "nn.functional.max_unpool1d": {
        "jvp": "results differ by more than the table allows",
    },
    "nn.functional.max_unpool2d": {
        "jvp": "results differ by more than the table allows",
    },
    "nn.functional.max_unpool3d": {
        "jvp": "results differ by more than the table allows",
    },
    "round.decimals_0": {
        "refused dtypes": "zero decimals round integers as none do, given or not",
    },
    "special.bessel_j0": {
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "special.bessel_y1": {
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "take": {
        "error inputs": "`out=` is not taken",
    },
    "triangular_solve": {
        "jvp": "results differ by more than the table allows",
    },
}
