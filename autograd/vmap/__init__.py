"""`vmap`: batched tensors, a *batching rule* per op, and user code on batches.

- *batching_rules*: the registry of rules by the name of the op, and a rule's argument; one file per family of rules.
- *batched_call*: an op with a batched operand: by its rule, or one example after the other.
- *vmap*, *batched_backward*: the public function, and users' backward methods on batched gradients.
"""

from ..core.batched_data import batched
from . import elementwise_rules, indexing_rules, product_rules, reduction_rules, shape_rules
from .batched_call import along, batched_call, in_front, whole_batch_change
from .batching_rules import rules

__all__ = [
    "along",
    "batched",
    "batched_call",
    "elementwise_rules",
    "in_front",
    "indexing_rules",
    "product_rules",
    "reduction_rules",
    "rules",
    "shape_rules",
    "whole_batch_change",
]
