"""The names of `torch.autograd.function`, re-exported.

Everything here is defined in `raygrad.autograd.functions`.
"""

from .functions.function import Function as Function, FunctionMeta as FunctionMeta
from .functions.legacy import InplaceFunction as InplaceFunction
from .functions.nested import NestedIOFunction as NestedIOFunction
from .nodes.once_differentiable import once_differentiable as once_differentiable
