"""Python's operators on tensors, and NumPy's functions on them."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import pytest

import raygrad as rg


def test_arithmetic_operators_and_their_mirrors(T):
    x = T.tensor([1.0, 2.0, 4.0])
    assert (x + 1).tolist() == (1 + x).tolist() == [2, 3, 5]
    assert (x - 1).tolist() == [0, 1, 3]
    assert (1 - x).tolist() == [0, -1, -3]
    assert (x * 2).tolist() == (2 * x).tolist() == [2, 4, 8]
    assert (x / 2).tolist() == [0.5, 1, 2]
    assert (4 / x).tolist() == [4, 2, 1]
    assert (x**2).tolist() == [1, 4, 16]
    assert (2**x).tolist() == [2, 4, 16]
    assert (x // 3).tolist() == [0, 0, 1]
    assert (9 // x).tolist() == [9, 4, 2]
    assert (x % 3).tolist() == [1, 2, 1]
    assert (9 % x).tolist() == [0, 1, 1]
    assert (-x).tolist() == [-1, -2, -4]
    assert (+x).tolist() == x.tolist()
    assert abs(-x).tolist() == x.tolist()


def test_integer_division_gives_floats_and_powers_stay_integers(T):
    i = T.tensor([1, 2, 3])
    assert (i / 2).dtype == T.float32
    assert (i**2).dtype == T.int64
    assert (i // 2).tolist() == [0, 1, 1]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        i**-1
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        i // T.tensor([0, 1, 1])


def test_comparisons_and_bits(T):
    x = T.tensor([1.0, 2.0])
    assert (x == 1).tolist() == [True, False]
    assert (x != T.tensor([1.0, 3.0])).tolist() == [False, True]
    assert (x < 2).tolist() == (2 > x).tolist() == [True, False]
    assert (x <= 1).tolist() == (1 >= x).tolist() == [True, False]
    m, n = T.tensor([True, False]), T.tensor([True, True])
    assert ((m & n).tolist(), (m | n).tolist(), (m ^ n).tolist(), (~m).tolist()) == (
        [True, False], [True, True], [False, True], [False, True],
    )  # fmt: skip
    assert (T.tensor([6]) & 3).item() == 2
    assert (1 | T.tensor([6])).item() == 7


def test_what_is_not_comparable_is_unequal(T):
    x = T.tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True


def test_unknown_operands_are_left_to_the_other_side(T):
    class Other:
        def __radd__(self, other):
            return "other"

    assert T.tensor([1.0]) + Other() == "other"
    with pytest.raises(TypeError, match="unsupported operand"):
        T.tensor([1.0]) + "a"
    with pytest.raises(TypeError):
        T.tensor([1.0]) @ 2
    with pytest.raises(TypeError):
        T.tensor([1.0]) < "a"  # noqa: B015


def test_bools_have_no_minus(T):
    with pytest.raises(RuntimeError, match="Negation"):
        -T.tensor([True])
    with pytest.raises(RuntimeError, match="Subtraction"):
        T.tensor([True]) - T.tensor([True])
    assert (T.tensor([True]) + T.tensor([True])).dtype == T.bool


def test_bits_of_floats_are_refused():
    with pytest.raises(TypeError, match="integer and Boolean"):
        ~rg.tensor([1.0])
    with pytest.raises(NotImplementedError, match="not implemented for float32"):
        rg.tensor([1.0]) & rg.tensor([1.0])


def test_matmul_operators(T):
    a, b = T.ones(2, 3), T.ones(3, 2)
    assert (a @ b).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"):
        a @ a
    with pytest.raises(RuntimeError, match="same dtype"):
        a @ b.double()


def test_iteration_and_membership(T):
    x = T.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3.0 in x
    assert 5.0 not in x
    _, b = x
    assert b.tolist() == [3, 4]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(T.tensor(1.0))


def test_augmented_assignment_is_in_place(T):
    x = y = T.tensor([1.0, 2.0])
    x += 1
    x *= 2
    x -= 1
    x /= 2
    x **= 2
    assert x is y
    assert y.tolist() == [2.25, 6.25]
    i = T.tensor([7, 8])
    i //= 2
    i %= 3
    i |= 4
    i &= 6
    i ^= 1
    assert i.tolist() == [5, 5]
    m = T.eye(2)
    m @= T.ones(2, 2)
    assert m.tolist() == [[1, 1], [1, 1]]


def test_tensors_can_be_keys(T):
    x = T.tensor([1.0])
    assert {x: 1}[x] == 1
