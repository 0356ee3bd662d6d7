"""Which arguments of public functions are tensors, and which of them may be numbers instead.

`argument_errors` makes the wrappers that ask. An argument for which PyTorch takes a tensor alone is refused as a Python
number where the function has several tensors, since NumPy would broadcast it; a function of one tensor is refused by
dispatch, which finds no tensor among the operands. The library itself calls the functions unwrapped, with numbers as it
likes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from raygrad.errors import DtypeError

from .operand_errors import wrong_argument

TENSORS: Final = frozenset(
    """
    A B LU LU_data LU_pivots a abs angle append attn_mask b batch1 batch2 bias boundaries condition count elements end
    exponent grid imag index indices input input1 input2 key logits mask mat mat1 mat2 matrices operands other pivots
    pos_weight prepend prob query real running_mean running_var sorted_sequence source src target tau tensor tensor1
    tensor2 tensors test_elements theta values var vec vec1 vec2 weight weights x x1 x2 y anchor positive negative
    """.split()
)
"""What parameters are called that are tensors, where their annotation does not say what else they are."""

NUMBERS: Final = frozenset((bool, int, float, complex))
"""The types of Python's numbers. NumPy's are scalars of an array, and stand for tensors of no dimension."""

MAY_BE_NUMBERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        """
        add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor chebyshev_polynomial_t
        chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w div divide float_power floor_divide
        hermite_polynomial_h hermite_polynomial_he isin laguerre_polynomial_l legendre_polynomial_p mul multiply pow
        remainder result_type shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
        shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sub subtract true_divide where xlog1py xlogy zeta
        """.split(),
        TENSORS - {"condition"},
    ),
    **dict.fromkeys("copysign eq fmod ge gt ldexp le lt ne rsub".split(), frozenset(("other",))),
    "bucketize": frozenset(("input",)),
    "gaussian_nll_loss": frozenset(("target", "var")),
    "getitem": frozenset(("index",)),
    "lerp": frozenset(("weight",)),
    "scatter": frozenset(("src",)),
    "searchsorted": frozenset(("input", "values")),
}
"""By function, the arguments that PyTorch takes as numbers, too. (Of two alike one has to be a tensor: dispatch asks.)
"""


_OPERANDS: Final = TENSORS | {"max", "min"}

_COMPUTES_WITH_NUMBERS: Final = frozenset(
    """
    alpha_dropout celu deg2rad dropout dropout2d dropout3d feature_alpha_dropout max min rad2deg resolve_conj
    resolve_neg threshold
    """.split()
)
"""Functions of one operand that would compute something of a number."""


def tensor_positions(function: Callable[..., Any]) -> tuple[int, ...]:
    """Return the positions of the arguments of a function that must be tensors, or None where that is the default; ()
    where the function has only one operand, and dispatch refuses a number for it."""
    if function.__name__ == "matmul":  # which asks itself, at no cost
        return ()
    taken = MAY_BE_NUMBERS.get(function.__name__, frozenset())
    found: list[int] = []
    operands = 0
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            break
        optional = parameter.default is not parameter.empty and parameter.default is not None
        if optional or str(parameter.annotation) != "Any" or parameter.name not in _OPERANDS:
            continue
        operands += 1
        if parameter.name in TENSORS - taken:
            found.append(position)
    return tuple(found) if operands > 1 or function.__name__ in _COMPUTES_WITH_NUMBERS else ()


def number_among(
    function: Callable[..., Any], args: Sequence[Any], method: bool, tensors: Sequence[int] = ()
) -> DtypeError:
    """Return the error for the first argument of a function that is a number and must be a tensor.

    Args:
        args: the positional ones.
        method: the first is the tensor whose method the function is, which does not count.
        tensors: the positions of those that must be tensors, if the function's signature does not say it.
    """
    position = next(place for place in tensors or tensor_positions(function) if type(args[place]) in NUMBERS)
    name = list(inspect.signature(function).parameters)[position]
    return wrong_argument(function.__name__, name, position + 1 - method, "Tensor", type(args[position]).__name__)
