"""How built-in ops treat batched tensors: a *rule* per op says what the op on one example is for all of them at once.

- *rules*: what a rule is given, and the registry of rules by the name of the op.
- *apply*: an op among whose operands is a batched tensor: the rule, or one example after the other.
- one file per family of rules.
"""

from ..core.batched_data import batched as batched
from . import elementwise_rules as elementwise
from . import indexing_rules as indexing
from . import joining_rules as joining
from . import product_rules as products
from . import reduction_rules as reductions
from . import shape_rules as shapes
from .batched_call import along as along
from .batched_call import batched_call as batched_call
from .batched_call import change_of_all as change_of_all
from .batched_call import in_front as in_front
from .batching_rules import rules as rules
