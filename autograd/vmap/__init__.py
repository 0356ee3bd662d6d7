"""`vmap`: batched tensors, a *batching rule* per op, and user code on batches.

- *batching_rules*: what a rule is given, and the registry of rules by the name of the op; one file per family of rules.
- *batched_call*: an op among whose operands is a batched tensor: by its rule, or one example after the other.
- *vmap*, *backward*, *user_backward*: functions of one example made functions of a batch, and their backward passes.
"""

from ..core.batched_data import batched as batched
from . import elementwise_rules as elementwise_rules
from . import indexing_rules as indexing_rules
from . import joining_rules as joining_rules
from . import product_rules as product_rules
from . import reduction_rules as reduction_rules
from . import shape_rules as shape_rules
from .batched_call import along as along
from .batched_call import batched_call as batched_call
from .batched_call import in_front as in_front
from .batched_call import whole_batch_change as whole_batch_change
from .batching_rules import rules as rules
