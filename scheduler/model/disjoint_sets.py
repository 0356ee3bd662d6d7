"""Disjoint sets (union-find) over integers, as a parent per element."""

from __future__ import annotations


def find_root(parent: dict[int, int] | list[int], one: int) -> int:
    """Return the root of the set of `one`, and shorten the path to it.

    Path halving: R. E. Tarjan and J. van Leeuwen, Worst-case analysis of set union algorithms, J. ACM 31 (1984).
    """
    while parent[one] != one:
        parent[one] = parent[parent[one]]
        one = parent[one]
    return one
