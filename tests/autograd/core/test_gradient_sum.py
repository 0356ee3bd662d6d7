from __future__ import annotations

from raygrad.autograd.core.gradient_sum import balanced_sum


def test_h19_terms_are_added_pairwise_in_their_order():
    def add(a, b):
        return f"({a}{b})"

    assert balanced_sum(list("a"), add) == "a"
    assert balanced_sum(list("abc"), add) == "((ab)c)"
    assert balanced_sum(list("abcd"), add) == "((ab)(cd))"
    assert balanced_sum(list("abcdefg"), add) == "(((ab)(cd))((ef)g))"
