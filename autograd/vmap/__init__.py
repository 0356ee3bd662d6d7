"""`vmap`: batched tensors, a *batching rule* per op, and user code on batches.

- *batching_rules*: the registry of rules by the name of the op, and a rule's argument; one file per family of rules.
- *batched_call*: an op with a batched operand: by its rule, or one example after the other.
- *vmap*, *batched_backward*: the public function, and users' backward methods on batched gradients.
"""

from ..core.batched_data import batched as batched
from . import elementwise_rules as elementwise_rules
from . import indexing_rules as indexing_rules
from . import product_rules as product_rules
from . import reduction_rules as reduction_rules
from . import shape_rules as shape_rules
from .batched_call import along as along
from .batched_call import batched_call as batched_call
from .batched_call import in_front as in_front
from .batched_call import whole_batch_change as whole_batch_change
from .batching_rules import rules as rules
