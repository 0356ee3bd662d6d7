"""Copies of views, and divisors of integers."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

from ..inputs import family, ints, real

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "alias_copy": (),
    "as_strided_copy": ((2, 2), (1, 2), 1),
    "diagonal_copy": (1,),
    "expand_copy": ((2, 2, 3),),
    "narrow_copy": (1, 0, 2),
    "permute_copy": ((1, 0),),
    "split_with_sizes_copy": ([1, 2], 1),
    "squeeze_copy": (0,),
    "t_copy": (),
    "transpose_copy": (0, 1),
    "unbind_copy": (1,),
    "unfold_copy": (1, 2, 1),
    "unsqueeze_copy": (0,),
    "view_copy": ((3, 2),),
}

add = family("copies")
for _name, _args in ARGUMENTS.items():
    if _name not in ("as_strided_copy", "view_copy"):  # which see the memory: no compact copy gives the same
        add(_name, lambda T, x, n=_name, a=_args: getattr(T, n)(x, *a), real(2, 3))
    else:
        add(_name, lambda T, x, n=_name, a=_args: getattr(T, n)(x, *a), real(2, 3), layouts=False)

add = family("integers")
for _name in ("gcd", "lcm"):
    add(
        _name,
        lambda T, a, b, n=_name: (getattr(T, n)(a, b), getattr(a, n)(b)),
        ints(30, 2, 3) - 9,
        ints(30, 3),
        order=0,
    )
