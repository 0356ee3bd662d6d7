"""The names of `torch.autograd.grad_mode`: switches for gradient recording and inference (SEMANTICS MD).

Rules of this file: names only; what they do is in `modes` and `inference`.
"""

from __future__ import annotations

from .core.modes import enable_grad as enable_grad
from .core.modes import no_grad as no_grad
from .core.modes import set_grad_enabled as set_grad_enabled
from .tensor.inference import inference_mode as inference_mode
