"""Disjoint sets (union-find) over integers, as a parent per element."""

from __future__ import annotations


def find_root(group: dict[int, int] | list[int], one: int) -> int:
    """Return the number that stands for the group of `one`, and shorten the way to it.

    Path halving: R. E. Tarjan and J. van Leeuwen, Worst-case analysis of set union algorithms, J. ACM 31 (1984).
    """
    while group[one] != one:
        group[one] = group[group[one]]
        one = group[one]
    return one
