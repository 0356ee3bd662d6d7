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
        "vmap": "another dtype",
    },
    "addmv": {
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
        "vmap": "another dtype",
    },
    "bernoulli": {
        "error inputs": "`out=` is not taken",
    },
    "bincount": {
        "vmap": "depends on data, which vmap does not know",
    },
    "bucketize": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
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
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "cumsum": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
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
    "flip": {
        "method": "`dims=` is not taken",
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
    },
    "ge": {
        "error inputs": "numbers are taken for tensors",
    },
    "geometric": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "gradient": {
        "error inputs": "refused by another type of error",
    },
    "gt": {
        "error inputs": "numbers are taken for tensors",
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
    "isclose": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "istft": {
        "gradients": "PyTorch gives some windows no gradient",
    },
    "kthvalue": {
        "error inputs": "`out=` is not taken",
    },
    "ldexp": {
        "error inputs": "numbers are taken for tensors",
    },
    "le": {
        "error inputs": "numbers are taken for tensors",
    },
    "linalg.cross": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "linalg.lstsq": {
        "double backward": "`driver=` is not taken",
    },
    "linalg.lstsq.grad_oriented": {
        "double backward": "`driver=` is not taken",
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
        "jvp": "results differ by more than the table allows",
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
    "logspace": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "logspace.tensor_overload": {
        "error inputs": "an argument is taken that PyTorch refuses",
        "vmap": "depends on data, which vmap does not know",
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
        "in-place": "there is no such method",
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
        "error inputs": "refused by another type of error",
    },
    "nn.functional.adaptive_max_pool2d": {
        "error inputs": "refused by another type of error",
    },
    "nn.functional.adaptive_max_pool3d": {
        "error inputs": "an argument is taken that PyTorch refuses",
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
    "nn.functional.triplet_margin_loss": {
        "error inputs": "an argument is taken that PyTorch refuses",
    },
    "nn.functional.unfold": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "normal": {
        "refused dtypes": "a dtype is taken that PyTorch refuses",
    },
    "polar": {
        "error inputs": "numbers are taken for tensors",
    },
    "polygamma.polygamma_n_0": {
        "in-place": "there is no such method",
        "method": "there is no such method",
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
    },
    "scatter_add": {
        "error inputs": "an argument is taken that PyTorch refuses",
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
    "t": {
        "in-place": "there is no such method",
    },
    "take": {
        "error inputs": "`out=` is not taken",
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
}
