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
        "method": "another dtype",
        "values": "another dtype",
    },
    "addmv": {
        "in-place": "refused: refused",
        "method": "another dtype",
        "values": "another dtype",
    },
    "addr": {
        "in-place": "refused: refused",
        "method": "another dtype",
        "values": "another dtype",
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
    "argsort": {
        "method": "`stable=` is not taken",
        "session": "results are not equal",
        "values": "`stable=` is not taken",
        "vmap": "`stable=` is not taken",
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
        "in-place": "refused: refused",
        "method": "another dtype",
        "values": "another dtype",
    },
    "bernoulli": {
        "error inputs": "`out=` is not taken",
    },
    "bincount": {
        "vmap": "depends on data, which vmap does not know",
    },
    "bool": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "bucketize": {
        "session": "`out_int32=` is not taken",
        "values": "`out_int32=` is not taken",
        "vmap": "`out_int32=` is not taken",
    },
    "byte": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "cat": {
        "error inputs": "`out=` is not taken",
    },
    "cdist": {
        "gradients": "an argument is not taken",
        "session": "an argument is not taken",
        "values": "an argument is not taken",
        "vmap": "an argument is not taken",
    },
    "cdouble": {
        "gradients": "refused: TypeError",
        "jvp": "refused: TypeError",
        "session": "refused: TypeError",
        "values": "refused: TypeError",
        "vmap": "refused: TypeError",
    },
    "cfloat": {
        "gradients": "refused: TypeError",
        "session": "refused: TypeError",
        "values": "refused: TypeError",
        "vmap": "refused: TypeError",
    },
    "char": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "cholesky": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
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
    "cov": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
    },
    "digamma": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "in-place": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "double": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "fft.hfft2": {
        "values": "results differ by more than the table allows",
    },
    "float": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "gather": {
        "error inputs": "`out=` is not taken",
        "gradients": "refused: ShapeError",
        "jvp": "refused: ShapeError",
        "method": "refused: ShapeError",
        "values": "refused: ShapeError",
        "vmap": "refused: ShapeError",
    },
    "half": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "index_select": {
        "error inputs": "`out=` is not taken",
    },
    "int": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "kthvalue": {
        "error inputs": "`out=` is not taken",
        "method": "results are not equal",
        "session": "results are not equal",
        "values": "results are not equal",
    },
    "lgamma": {
        "double backward": "results differ by more than the table allows",
    },
    "linalg.cholesky": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "linalg.cholesky_ex": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "linalg.cond": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "linalg.eig": {
        "double backward": "results differ by more than the table allows",
    },
    "linalg.eigh": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
    },
    "linalg.eigvalsh": {
        "double backward": "results differ by more than the table allows",
    },
    "linalg.householder_product": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
    },
    "linalg.lstsq": {
        "double backward": "`driver=` is not taken",
        "gradients": "`driver=` is not taken",
        "session": "`driver=` is not taken",
        "values": "`driver=` is not taken",
        "vmap": "`driver=` is not taken",
    },
    "linalg.lstsq.grad_oriented": {
        "double backward": "`driver=` is not taken",
        "error inputs": "`driver=` is not taken",
        "gradients": "`driver=` is not taken",
        "jvp": "`driver=` is not taken",
        "session": "`driver=` is not taken",
        "values": "`driver=` is not taken",
        "vmap": "`driver=` is not taken",
    },
    "linalg.matrix_rank": {
        "values": "refused: IndexError",
        "vmap": "refused: IndexError",
    },
    "linalg.matrix_rank.hermitian": {
        "values": "refused: IndexError",
    },
    "linalg.pinv": {
        "double backward": "results differ by more than the table allows",
    },
    "linalg.pinv.hermitian": {
        "double backward": "`hermitian=` is not taken",
        "gradients": "`hermitian=` is not taken",
        "jvp": "`hermitian=` is not taken",
        "session": "`hermitian=` is not taken",
        "values": "`hermitian=` is not taken",
        "vmap": "`hermitian=` is not taken",
    },
    "linalg.pinv.singular": {
        "double backward": "results differ by more than the table allows",
    },
    "linalg.tensorsolve": {
        "double backward": "`dims=` is not taken",
        "gradients": "`dims=` is not taken",
        "jvp": "`dims=` is not taken",
        "session": "`dims=` is not taken",
        "values": "`dims=` is not taken",
        "vmap": "`dims=` is not taken",
    },
    "linalg.vander": {
        "gradients": "refused: AutogradError",
        "jvp": "refused: AutogradError",
        "session": "refused: AutogradError",
        "values": "refused: AutogradError",
        "vmap": "refused: AutogradError",
    },
    "linspace.tensor_overload": {
        "vmap": "depends on data, which vmap does not know",
    },
    "logcumsumexp": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "long": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "masked_select": {
        "error inputs": "`out=` is not taken",
    },
    "matrix_exp": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "method": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "multinomial": {
        "error inputs": "`out=` is not taken",
    },
    "narrow_copy": {
        "error inputs": "PyTorch fails in an assertion of its own; here an IndexError, as of `narrow`",
    },
    "nextafter": {
        "gradients": "refused: MissingDerivative",
        "in-place": "there is no such method",
        "jvp": "refused: MissingDerivative",
        "session": "refused: MissingDerivative",
    },
    "nn.functional.adaptive_max_pool1d": {
        "double backward": "an argument is not taken",
        "gradients": "an argument is not taken",
        "jvp": "an argument is not taken",
        "session": "an argument is not taken",
        "values": "an argument is not taken",
        "vmap": "an argument is not taken",
    },
    "nn.functional.adaptive_max_pool2d": {
        "double backward": "an argument is not taken",
        "gradients": "an argument is not taken",
        "jvp": "an argument is not taken",
        "session": "an argument is not taken",
        "values": "an argument is not taken",
        "vmap": "an argument is not taken",
    },
    "nn.functional.scaled_dot_product_attention": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "norm.nuc": {
        "double backward": "refused: ValueError",
        "gradients": "refused: ValueError",
        "jvp": "refused: ValueError",
        "method": "refused: ValueError",
        "session": "refused: ValueError",
        "values": "refused: ValueError",
        "vmap": "refused: ValueError",
    },
    "pinverse": {
        "double backward": "results differ by more than the table allows",
    },
    "polygamma.polygamma_n_0": {
        "in-place": "there is no such method",
        "method": "there is no such method",
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "repeat_interleave": {
        "gradients": "refused: AutogradError",
        "jvp": "refused: AutogradError",
        "method": "refused: AutogradError",
        "values": "refused: AutogradError",
        "vmap": "refused: AutogradError",
    },
    "round.decimals_0": {
        "refused dtypes": "zero decimals round integers as none do, given or not",
    },
    "scatter": {
        "in-place": "`reduce=` is not taken",
        "method": "`reduce=` is not taken",
        "values": "`reduce=` is not taken",
    },
    "searchsorted": {
        "session": "`out_int32=` is not taken",
        "values": "`out_int32=` is not taken",
        "vmap": "`out_int32=` is not taken",
    },
    "short": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "sort": {
        "gradients": "`stable=` is not taken",
        "jvp": "`stable=` is not taken",
        "method": "`stable=` is not taken",
        "session": "results are not equal",
        "values": "`stable=` is not taken",
        "vmap": "`stable=` is not taken",
    },
    "special.bessel_j0": {
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "special.bessel_y1": {
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "special.log_ndtr": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "special.polygamma.special_polygamma_n_0": {
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "sum_to_size": {
        "method": "another dtype",
        "values": "another dtype",
    },
    "take": {
        "error inputs": "`out=` is not taken",
    },
    "to": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "topk": {
        "gradients": "an argument is not taken",
        "method": "an argument is not taken",
        "session": "results are not equal",
        "values": "an argument is not taken",
    },
    "triangular_solve": {
        "jvp": "results differ by more than the table allows",
    },
    "zero_": {
        "gradients": "refused: AttributeError",
        "jvp": "refused: AttributeError",
        "session": "refused: AttributeError",
        "values": "refused: AttributeError",
        "vmap": "refused: AttributeError",
    },
}
