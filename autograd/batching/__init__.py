"""How built-in ops treat batched tensors: a *rule* per op says what the op on one example is for all of them at once.

- *rules*: what a rule is given, and the registry of rules by the name of the op.
- *apply*: an op among whose operands is a batched tensor: the rule, or one example after the other.
- one file per family of rules.
"""

from ..batched import batched as batched
from . import elementwise as elementwise
from . import indexing as indexing
from . import joining as joining
from . import products as products
from . import reductions as reductions
from . import shapes as shapes
from .apply import along as along
from .apply import batched_call as batched_call
from .apply import change_of_all as change_of_all
from .apply import in_front as in_front
from .rules import rules as rules
