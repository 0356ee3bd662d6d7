"""What PyTorch has in `torch.utils` and raygrad has too: `raygrad.utils.checkpoint`."""

from . import checkpoint as checkpoint

__all__ = ["checkpoint"]
