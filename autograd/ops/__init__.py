"""The built-in ops, one file per family; each goes through the public registry.

The functions take tensors, or bare arrays (so that derivative rules run on both).
"""

from .arithmetic import add as add
from .arithmetic import mul as mul
from .layouts import copy_in_order as copy_in_order
from .layouts import in_order_data as in_order_data
from .layouts import ones_as as ones_as
from .layouts import to_dtype as to_dtype
