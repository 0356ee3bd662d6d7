"""The built-in ops, one file per family; each goes through the public registry.

The functions take tensors, or bare arrays (so that derivative rules run on both). Each family says in `PUBLIC` what it
offers; the tables below say where: `TOP` as `raygrad.<name>`, the others under their own names. The rest serves the
engine.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import (
    activations,
    affine,
    aliases,
    along,
    arithmetic,
    compare,
    complexes,
    convolution,
    diagonals,
    distinct,
    einsum,
    error_function,
    exponential,
    extremes,
    factorizations,
    fourier,
    gathering,
    indexing,
    joining,
    linear,
    lookup,
    losses,
    measures,
    normalization,
    norms,
    order,
    padding,
    pointwise,
    pooling,
    products,
    questions,
    rearranging,
    rectifiers,
    reduce,
    scans,
    selecting,
    shape,
    solving,
    special,
    statistics,
    striding,
    triangular,
    unary,
    vector_norms,
)
from .casting import governed
from .compare import keep as keep
from .diagonals import put_diagonal as put_diagonal
from .doors import door
from .gathering import scatter_zeros as scatter_zeros
from .indexing import is_whole as is_whole
from .indexing import put_region as put_region
from .indexing import take_apart as take_apart
from .indexing import with_item as with_item
from .indexing import write_item as write_item
from .indexing import zeros_around as zeros_around
from .layouts import copy_in_order as copy_in_order
from .layouts import full_on as full_on
from .layouts import in_order_data as in_order_data
from .layouts import ones_as as ones_as
from .layouts import ones_of as ones_of
from .layouts import to_dtype as to_dtype
from .layouts import zeros_as as zeros_as
from .shape import resolved as resolved
from .striding import placed as placed
from .striding import put_placed as put_placed
from .striding import view_dtype as view_dtype
from .transfer import to_device as to_device
from .windows import put_windows as put_windows
from .windows import unfold as unfold

TOP = (
    activations,
    affine,
    aliases,
    arithmetic,
    compare,
    complexes,
    diagonals,
    distinct,
    einsum,
    error_function,
    exponential,
    extremes,
    gathering,
    indexing,
    joining,
    linear,
    losses,
    order,
    pointwise,
    products,
    questions,
    rearranging,
    reduce,
    scans,
    selecting,
    shape,
    solving,
    special,
    statistics,
    striding,
    unary,
    vector_norms,
)
"""The families whose functions are names of the package."""


def gathered(families: tuple[ModuleType, ...]) -> dict[str, Any]:
    """Return the functions that families offer, by name; those that regions of `autocast` govern, as such.

    Raises:
        ValueError: two of them offer one name.
    """
    found: dict[str, Any] = {}
    for family in families:
        for name in family.PUBLIC:
            if name in found:
                raise ValueError(f"{family.__name__} offers '{name}', which another family offers already")
            found[name] = governed(getattr(family, name))
    return found


FUNCTIONAL = {
    **gathered(
        (
            activations,
            affine,
            along,
            convolution,
            lookup,
            losses,
            measures,
            normalization,
            padding,
            pooling,
            rectifiers,
        )
    ),
    **{name: getattr(unary, name) for name in ("relu", "sigmoid", "tanh")},
}
"""Those of `raygrad.nn.functional`."""

FFT = gathered((fourier,))
"""Those of `raygrad.fft`."""

LINALG = {
    **{
        name: governed(getattr(family, name))
        for family, names in (
            (aliases, "matrix_transpose"),
            (exponential, "matrix_exp"),
            (factorizations, "cholesky eigh eigvalsh qr svd svdvals"),
            (linear, "matmul outer trace"),
            (norms, "cond matrix_norm norm vector_norm"),
            (products, "tensordot vecdot"),
            (rearranging, "vander"),
            (solving, "det inv lstsq matrix_power matrix_rank multi_dot pinv slogdet solve tensorinv tensorsolve"),
            (triangular, "solve_triangular"),
        )
        for name in names.split()
    },
    "cross": products.cross_along,
    "diagonal": diagonals.diagonal,
}
"""Those of `raygrad.linalg`."""


def offered(table: dict[str, Any], module: str) -> dict[str, Any]:
    """Return what a table of functions offers to users as names of a module: see `door`."""
    return {name: door(function, *_names.get(function, (module, name))) for name, function in table.items()}


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(gathered(TOP))
_names = {function: ("raygrad", name) for name, function in reversed(gathered(TOP).items())}
__all__ = sorted(gathered(TOP))  # pyright: ignore[reportUnsupportedDunderAll]
