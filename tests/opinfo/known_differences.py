"""Known differences from PyTorch in its own samples of operations, with the reason, by entry and kind of comparison.

These count against raygrad in the summary (`python -m tests.opinfo`). Whoever mends one takes it out; one that is gone
fails where all samples are compared (`--opinfo=all`).
"""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[str, dict[str, str]]] = {
    "__radd__": {
        "error inputs": "numbers are taken for tensors",
    },
    "__rmul__": {
        "error inputs": "numbers are taken for tensors",
    },
    "addbmm": {
        "in-place": "refused: refused",
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
        "error inputs": "refused by another type of error",
    },
    "amin": {
        "error inputs": "refused by another type of error",
    },
    "aminmax": {
        "error inputs": "refused by another type of error",
    },
    "arange": {
        "error inputs": "refused by another type of error",
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
    "as_strided": {
        "in-place": "there is no such method",
    },
    "as_strided.partial_views": {
        "gradients": "results differ by more than the table allows",
        "in-place": "there is no such method",
        "method": "refused: AutogradError",
        "values": "refused: AutogradError",
    },
    "atan2": {
        "error inputs": "numbers are taken for tensors",
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
    "clamp": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "clamp_max": {
        "error inputs": "numbers are taken for tensors",
    },
    "clamp_min": {
        "error inputs": "numbers are taken for tensors",
    },
    "complex": {
        "error inputs": "`out=` is not taken",
    },
    "copysign": {
        "error inputs": "numbers are taken for tensors",
    },
    "cov": {
        "double backward": "results differ by more than the table allows",
        "error inputs": "an argument is taken that PyTorch refuses",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
    },
    "cumsum": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
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
    "dsplit": {
        "error inputs": "refused by another type of error",
    },
    "dstack": {
        "error inputs": "refused by another type of error",
    },
    "eq": {
        "error inputs": "numbers are taken for tensors",
    },
    "eye": {
        "error inputs": "refused by another type of error",
    },
    "fft.hfft2": {
        "values": "results differ by more than the table allows",
    },
    "flip": {
        "method": "`dims=` is not taken",
    },
    "float": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "float_power": {
        "error inputs": "numbers are taken for tensors",
        "in-place": "taken where PyTorch refuses it",
    },
    "fmax": {
        "error inputs": "numbers are taken for tensors",
    },
    "fmin": {
        "error inputs": "numbers are taken for tensors",
    },
    "fmod": {
        "error inputs": "numbers are taken for tensors",
    },
    "gather": {
        "error inputs": "`out=` is not taken",
        "gradients": "refused: ShapeError",
        "jvp": "refused: ShapeError",
        "method": "refused: ShapeError",
        "values": "refused: ShapeError",
        "vmap": "refused: ShapeError",
    },
    "ge": {
        "error inputs": "numbers are taken for tensors",
    },
    "gt": {
        "error inputs": "numbers are taken for tensors",
    },
    "half": {
        "gradients": "memory formats are not offered",
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "hsplit": {
        "error inputs": "refused by another type of error",
    },
    "hstack": {
        "error inputs": "refused by another type of error",
    },
    "hypot": {
        "error inputs": "numbers are taken for tensors",
    },
    "igamma": {
        "error inputs": "numbers are taken for tensors",
    },
    "igammac": {
        "error inputs": "numbers are taken for tensors",
    },
    "index_select": {
        "error inputs": "`out=` is not taken",
    },
    "int": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "isclose": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "kthvalue": {
        "error inputs": "`out=` is not taken",
        "method": "results are not equal",
        "session": "results are not equal",
        "values": "results are not equal",
    },
    "ldexp": {
        "error inputs": "numbers are taken for tensors",
    },
    "le": {
        "error inputs": "numbers are taken for tensors",
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
    "linalg.cross": {
        "error inputs": "an argument is taken that PyTorch refuses",
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
    "linspace": {
        "error inputs": "numbers are taken for tensors",
    },
    "linspace.tensor_overload": {
        "error inputs": "numbers are taken for tensors",
        "vmap": "depends on data, which vmap does not know",
    },
    "logaddexp": {
        "error inputs": "numbers are taken for tensors",
    },
    "logcumsumexp": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "jvp": "results differ by more than the table allows",
        "session": "results differ by more than the table allows",
    },
    "logical_and": {
        "error inputs": "numbers are taken for tensors",
    },
    "logical_or": {
        "error inputs": "numbers are taken for tensors",
    },
    "logical_xor": {
        "error inputs": "numbers are taken for tensors",
    },
    "long": {
        "method": "memory formats are not offered",
        "values": "memory formats are not offered",
    },
    "lt": {
        "error inputs": "numbers are taken for tensors",
    },
    "masked_fill": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "masked_scatter": {
        "error inputs": "refused by another type of error",
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
    "max.binary": {
        "error inputs": "numbers are taken for tensors",
    },
    "maximum": {
        "error inputs": "numbers are taken for tensors",
    },
    "min.binary": {
        "error inputs": "numbers are taken for tensors",
    },
    "minimum": {
        "error inputs": "numbers are taken for tensors",
    },
    "movedim": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "multinomial": {
        "error inputs": "`out=` is not taken",
    },
    "narrow": {
        "error inputs": "refused by another type of error",
    },
    "narrow_copy": {
        "error inputs": "refused by another type of error",
        "method": "there is no such method",
    },
    "ne": {
        "error inputs": "numbers are taken for tensors",
    },
    "nextafter": {
        "error inputs": "numbers are taken for tensors",
        "gradients": "refused: MissingDerivative",
        "in-place": "there is no such method",
        "jvp": "refused: MissingDerivative",
        "session": "refused: MissingDerivative",
    },
    "nn.functional.adaptive_avg_pool1d": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.adaptive_avg_pool2d": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.adaptive_avg_pool3d": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.adaptive_max_pool1d": {
        "double backward": "an argument is not taken",
        "error inputs": "refused by another type of error",
        "gradients": "an argument is not taken",
        "jvp": "an argument is not taken",
        "session": "an argument is not taken",
        "values": "an argument is not taken",
        "vmap": "an argument is not taken",
    },
    "nn.functional.adaptive_max_pool2d": {
        "double backward": "an argument is not taken",
        "error inputs": "refused by another type of error",
        "gradients": "an argument is not taken",
        "jvp": "an argument is not taken",
        "session": "an argument is not taken",
        "values": "an argument is not taken",
        "vmap": "an argument is not taken",
    },
    "nn.functional.conv1d": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.conv2d": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.conv3d": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.embedding": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.gaussian_nll_loss": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.gelu": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.hardsigmoid": {
        "in-place": "there is no such method",
    },
    "nn.functional.hinge_embedding_loss": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "nn.functional.max_pool1d": {
        "error inputs": "an argument is taken that PyTorch refuses",
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "nn.functional.max_pool3d": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.mish": {
        "in-place": "there is no such method",
    },
    "nn.functional.pad.reflect": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "nn.functional.pad.replicate": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "nn.functional.pad.replicate_negative": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "nn.functional.rrelu": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.scaled_dot_product_attention": {
        "double backward": "results differ by more than the table allows",
        "gradients": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "nn.functional.triplet_margin_loss": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.unfold": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
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
    "normal": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "pinverse": {
        "double backward": "results differ by more than the table allows",
    },
    "polar": {
        "error inputs": "numbers are taken for tensors",
    },
    "polygamma.polygamma_n_0": {
        "in-place": "there is no such method",
        "method": "there is no such method",
        "session": "results differ by more than the table allows",
        "values": "results differ by more than the table allows",
    },
    "polygamma.polygamma_n_1": {
        "in-place": "there is no such method",
        "method": "there is no such method",
    },
    "polygamma.polygamma_n_2": {
        "in-place": "there is no such method",
        "method": "there is no such method",
    },
    "polygamma.polygamma_n_3": {
        "in-place": "there is no such method",
        "method": "there is no such method",
    },
    "polygamma.polygamma_n_4": {
        "in-place": "there is no such method",
        "method": "there is no such method",
    },
    "pow": {
        "error inputs": "numbers are taken for tensors",
    },
    "remainder": {
        "error inputs": "numbers are taken for tensors",
    },
    "repeat_interleave": {
        "gradients": "refused: AutogradError",
        "jvp": "refused: AutogradError",
        "method": "refused: AutogradError",
        "values": "refused: AutogradError",
        "vmap": "refused: AutogradError",
    },
    "round.decimals_0": {
        "in-place": "`decimals=` is not taken",
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "round.decimals_3": {
        "in-place": "`decimals=` is not taken",
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "round.decimals_neg_3": {
        "in-place": "`decimals=` is not taken",
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "rsub": {
        "error inputs": "numbers are taken for tensors",
    },
    "scatter": {
        "error inputs": "an argument is taken that PyTorch refuses",
        "in-place": "`reduce=` is not taken",
        "method": "`reduce=` is not taken",
        "values": "`reduce=` is not taken",
    },
    "scatter_add": {
        "error inputs": "an argument is taken that PyTorch refuses",
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
    "special.chebyshev_polynomial_t": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.chebyshev_polynomial_u": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.chebyshev_polynomial_v": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.chebyshev_polynomial_w": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.hermite_polynomial_h": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.hermite_polynomial_he": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.laguerre_polynomial_l": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.legendre_polynomial_p": {
        "error inputs": "numbers are taken for tensors",
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
    "special.shifted_chebyshev_polynomial_t": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.shifted_chebyshev_polynomial_u": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.shifted_chebyshev_polynomial_v": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.shifted_chebyshev_polynomial_w": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.xlog1py": {
        "error inputs": "numbers are taken for tensors",
    },
    "special.zeta": {
        "error inputs": "numbers are taken for tensors",
    },
    "squeeze": {
        "in-place": "there is no such method",
    },
    "squeeze.multiple": {
        "in-place": "there is no such method",
    },
    "sum_to_size": {
        "method": "another dtype",
        "values": "another dtype",
    },
    "t": {
        "in-place": "there is no such method",
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
    "transpose": {
        "in-place": "there is no such method",
    },
    "triangular_solve": {
        "jvp": "results differ by more than the table allows",
    },
    "tril": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "triu": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "unsqueeze": {
        "in-place": "there is no such method",
    },
    "vsplit": {
        "error inputs": "refused by another type of error",
    },
    "vstack": {
        "error inputs": "refused by another type of error",
    },
    "xlogy": {
        "error inputs": "numbers are taken for tensors",
    },
    "zero_": {
        "gradients": "refused: AttributeError",
        "jvp": "refused: AttributeError",
        "session": "refused: AttributeError",
        "values": "refused: AttributeError",
        "vmap": "refused: AttributeError",
    },
}
