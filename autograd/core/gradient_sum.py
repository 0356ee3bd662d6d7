"""Balanced tree of gradient sums: the order in which the contributions to one gradient are added (H19).

The engine uses it for arrays, pending values and tensors alike, with its own addition. The order depends on the number
of contributions alone, so that every executor gives the same bits, and the depth of the tree is logarithmic.
"""

from __future__ import annotations

from typing import Any


def balanced_sum(terms: list[Any], add: Any) -> Any:
    """Return the sum of `terms` by a balanced binary tree, in their order (H19).

    Args:
        terms: the contributions, at least one; the list is consumed.
        add: the addition of two of them.
    """
    while len(terms) > 2:
        pairs = [add(terms[i], terms[i + 1]) for i in range(0, len(terms) - 1, 2)]
        if len(terms) % 2:
            pairs.append(terms[-1])
        terms = pairs
    return terms[0] if len(terms) == 1 else add(terms[0], terms[1])
