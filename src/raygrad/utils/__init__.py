"""The public module `raygrad.utils`: what raygrad has of `torch.utils`, which is `checkpoint`."""

from . import checkpoint as checkpoint

__all__ = ["checkpoint"]
