"""In-place activations and dropouts as functions: `relu_`, `celu_`, `dropout_` and their kind.

A list; `in_place_forms.in_place` makes each from the function without the underscore.
"""

from __future__ import annotations

from ..elementwise import unary
from . import activations, dropout as dropouts, rectifiers
from .in_place_forms import in_place, may_be_in_place

PUBLIC = "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_".split()
"""Those of `raygrad.nn.functional`."""

relu = may_be_in_place(unary.relu)

relu_ = in_place(relu, __name__)
leaky_relu_ = in_place(activations.leaky_relu, __name__)
elu_ = in_place(activations.elu, __name__)
celu_ = in_place(rectifiers.celu, __name__)
hardtanh_ = in_place(rectifiers.hardtanh, __name__)
rrelu_ = in_place(rectifiers.rrelu, __name__)
selu_ = in_place(rectifiers.selu, __name__)
threshold_ = in_place(rectifiers.threshold, __name__)
dropout_ = in_place(dropouts.dropout, __name__)
alpha_dropout_ = in_place(dropouts.alpha_dropout, __name__)
feature_alpha_dropout_ = in_place(dropouts.feature_alpha_dropout, __name__)
