"""The names of `torch.autograd.grad_mode`, re-exported: switches for gradient recording and inference mode.

Defined in `core.modes` and `tensor.inference`.
"""

from __future__ import annotations

from .core.modes import enable_grad as enable_grad, no_grad as no_grad, set_grad_enabled as set_grad_enabled
from .tensor.inference import inference_mode as inference_mode
