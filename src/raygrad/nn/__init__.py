"""Functions of networks: `raygrad.nn.functional`. Modules that hold parameters are the program's own."""

from . import functional as functional

__all__ = ["functional"]
