"""`einsum`: the parser of equations, and the contraction of two tensors into which they are split, with its derivative.

A contraction is a batched product of matrices, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError, ShapeError

from ...core.array_layout import as_dense
from ...dispatch.autocast_policies import with_autocast
from ...dispatch.dispatch import call
from ...registry.define_op import Shape, broadcast_shape, conj, contiguous, define, quiet
from ...registry.dtype_constraints import no_bools
from ..elementwise.arithmetic import mul
from ..layout.diagonals import diagonal
from ..layout.shape import movedim, permute
from ..reduction.reduce import sum

PUBLIC = "einsum".split()

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the output, with a letter for each dimension of an ellipsis.

    Raises:
        RuntimeError: an equation that is none, or does not fit the operands.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise AutogradError(f"einsum(): {len(terms)} terms in '{equation}', but {len(ranks)} operands")
    pairs = list(zip(terms, ranks, strict=True))
    hidden = [rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in pairs]
    free = [letter for letter in LETTERS if letter not in text][: max(hidden, default=0)]
    labels: list[str] = []
    for (term, rank), extra in zip(pairs, hidden, strict=True):
        if extra < 0:
            raise AutogradError(f"einsum(): the term '{term}' has more labels than its operand has dimensions ({rank})")
        spelt = term.replace("...", "".join(free[len(free) - extra :]))
        if len(spelt) != rank or not all(label in LETTERS for label in spelt):
            raise AutogradError(f"einsum(): the term '{term}' does not fit an operand of {rank} dimensions")
        labels.append(spelt)
    if arrow:
        out = right.replace("...", "".join(free))
    else:
        every = "".join(labels)
        once = [label for label in set(every) if every.count(label) == 1 and label not in free]
        out = "".join(free) + "".join(sorted(once))
    for label in out:
        if not any(label in term for term in labels) or out.count(label) > 1:
            raise AutogradError(f"einsum(): the output label '{label}' is in no operand, or twice in the output")
    return labels, out


def _without_repeats(tensor: Any, labels: str) -> tuple[Any, str]:
    """Return the diagonals over labels that an operand has twice."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = movedim(diagonal(tensor, 0, first, second), -1, first)
            labels = labels[:second] + labels[second + 1 :]
    return tensor, labels


def _summed(tensor: Any, labels: str, kept: str) -> tuple[Any, str]:
    """Return the sum over the labels outside of `kept`."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if axes:
        tensor, labels = sum(tensor, axes), "".join(label for label in labels if label in kept)
    return tensor, labels


def _contract(a: Any, b: Any, left: str, right: str, out: str) -> Any:
    made = np.einsum(f"{left},{right}->{out}", as_dense(a), as_dense(b), optimize="greedy")
    return contiguous(made) if out else made  # else in the order of the product that it was computed as (H1)


def _contract_infer(params: tuple[Any, ...], a: Any, b: Any) -> Any:
    left, right, out = params
    return _extents(left, a.shape, right, b.shape, out), a.dtype


def _extents(left: str, a: Shape, right: str, b: Shape, out: str) -> Shape:
    known: dict[str, int] = {}
    for labels, shape in ((left, a), (right, b)):
        for label, extent in zip(labels, shape, strict=True):
            try:
                (known[label],) = broadcast_shape("einsum", [(known.get(label, 1),), (extent,)])
            except ShapeError:
                raise ShapeError(
                    f"einsum(): the label '{label}' stands for {known[label]} in one operand and {extent} in another"
                ) from None
    return tuple([known[label] for label in out])


def _contract_backward(ctx: Any, g: Any) -> Any:
    a, b = ctx.saved_tensors
    left, right, out = ctx.params
    need_a, need_b = ctx.needs_input_grad
    return (
        call(_CONTRACT, (g, conj(b)), (out, right, left)) if need_a else None,
        call(_CONTRACT, (g, conj(a)), (out, left, right)) if need_b else None,
    )


_CONTRACT = define(
    "einsum", ("a", "b"), quiet(_contract), _contract_infer, _contract_backward, saved_for={"a": "b", "b": "a"},
    promotes="arith",
)  # fmt: skip


def contract(a: Any, b: Any, left: str, right: str, out: str) -> Any:
    """Return the product of two operands, summed over the labels absent from `out`: by `bmm`, as in PyTorch."""
    return call(_CONTRACT, (a, b), (left, right, out))


_summing = with_autocast(contract)


def einsum(equation: str, *operands: Any) -> Any:
    """Return the sum of products that an equation of labels describes: `einsum("ij,jk->ik", a, b)`."""
    tensors = operands
    if len(operands) == 1 and not hasattr(operands[0], "shape"):
        tensors = tuple(operands[0])
    for tensor in tensors:
        if not hasattr(tensor, "dtype"):
            raise DtypeError(f"einsum sums products of tensors, got a {type(tensor).__name__}")
    for tensor in tensors[1:] and tensors:
        no_bools("einsum", (), tensor.dtype)
    labels, out = _parse(equation, [tensor.ndim for tensor in tensors])
    result, mine = _without_repeats(tensors[0], labels[0])
    for position in range(1, len(tensors)):
        later = out + "".join(labels[position + 1 :])
        other, others = _without_repeats(tensors[position], labels[position])
        result, mine = _summed(result, mine, later + others)
        other, others = _summed(other, others, later + mine)
        kept = "".join(label for label in dict.fromkeys(mine + others) if label in later)
        if not set(mine) & set(others) and not kept:
            result = mul(result, other)
        elif set(mine + others) <= set(kept):
            result = call(_CONTRACT, (result, other), (mine, others, kept))
        else:
            result = _summing(result, other, mine, others, kept)
        mine = kept
    result, mine = _summed(result, mine, out)
    return permute(result, [mine.index(label) for label in out])
