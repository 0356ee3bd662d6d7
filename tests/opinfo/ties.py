"""Ties of PyTorch's unstable sorts: which of equal elements an index names is left open, and the elements decide.

PyTorch promises an order of equal elements for `stable=True` alone. For the entries below an index is therefore
compared by the rank of the element that it names, which equal elements share and nearly equal ones do not; and indices
along a dimension have to differ where each names another element.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import raygrad as rg

from .compare import Disagreement, flat
from .translate import tensor, to_torch


@dataclass(frozen=True)
class Picks:
    """An op that picks elements along a dimension.

    Attributes:
        position: of the indices among its results.
        dim: position of its dimension among the arguments behind the tensor.
        many: it picks different elements along the dimension, whose indices differ.
    """

    position: int
    dim: int
    many: bool


_PICKS = {
    "argsort": Picks(0, 0, True),
    "sort": Picks(1, 0, True),
    "topk": Picks(1, 1, True),
    "kthvalue": Picks(1, 1, False),
    "median": Picks(1, 0, False),
    "nanmedian": Picks(1, 0, False),
    "mode": Picks(1, 0, False),
}


def by_element(name: str, sample: Any, result: Any) -> Any:
    """Return a result of either library with its indices replaced by the ranks of what they name, for an op that may
    choose among equal elements; any other result as it is.

    Raises:
        Disagreement: the indices are no int64; one is out of range, or given twice.
    """
    picks = _PICKS.get(name)
    leaves = flat(result)
    if picks is None or sample.options.get("stable") or len(leaves) <= picks.position:
        return result
    places, source = (to_torch(one) for one in (leaves[picks.position], sample.input))
    source = source.detach()
    if places.dtype != torch.int64:
        raise Disagreement(f"indices of dtype {places.dtype}")
    if not source.ndim:
        return result
    dim = sample.options.get("dim", sample.args[picks.dim] if len(sample.args) > picks.dim else -1) % source.ndim
    squeezed = places.ndim < source.ndim
    index = places.unsqueeze(dim) if squeezed else places
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < source.shape[dim]:
        raise Disagreement("an index is out of range")
    if picks.many and index.numel() and (index.sort(dim)[0].diff(dim=dim) == 0).any():
        raise Disagreement("an index is given twice")
    named = _ranks(source).gather(dim, index)
    named = named.squeeze(dim) if squeezed else named
    leaves[picks.position] = tensor(named, False) if isinstance(leaves[picks.position], rg.Tensor) else named
    return leaves


def _ranks(source: torch.Tensor) -> torch.Tensor:
    """Return for each element its place among the different ones, the same for all NaNs."""
    ranks = torch.unique(source, return_inverse=True)[1]
    return torch.where(source.isnan(), -1, ranks) if source.is_floating_point() else ranks
