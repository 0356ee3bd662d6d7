"""The built-in ops, one folder per family and one file per group; each op is defined in the public registry.

The functions take tensors, or bare arrays (so that derivative rules run on both). Each file lists its public functions
in `PUBLIC`; the tables below say where users find them: `TOP` as `raygrad.<name>`, the others under their own modules.
The remaining functions serve the engine.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..dispatch.argument_errors import with_argument_errors
from ..dispatch.casting import with_autocast
from . import aliases
from .elementwise import (
    arithmetic,
    compare,
    complex_numbers,
    division,
    error_function,
    pointwise,
    predicates,
    special,
    unary,
)
from .elementwise import where as masks
from .elementwise.where import keep as keep
from .indexing import gathering, indexing, selecting, unique
from .indexing.gathering import scatter_zeros as scatter_zeros
from .indexing.indexing import is_whole as is_whole
from .indexing.indexing import put_region as put_region
from .indexing.indexing import take_apart as take_apart
from .indexing.indexing import with_item as with_item
from .indexing.indexing import write_item as write_item
from .indexing.indexing import zeros_around as zeros_around
from .layout import diagonals, joining, padding, rearranging, shape, striding
from .layout.axis_order import copy_in_order as copy_in_order
from .layout.axis_order import full_on as full_on
from .layout.axis_order import in_order_data as in_order_data
from .layout.axis_order import ones_as as ones_as
from .layout.axis_order import ones_of as ones_of
from .layout.axis_order import to_dtype as to_dtype
from .layout.axis_order import zeros_as as zeros_as
from .layout.device_transfer import to_device as to_device
from .layout.diagonals import put_diagonal as put_diagonal
from .layout.shape import infer_size as infer_size
from .layout.striding import placed as placed
from .layout.striding import put_placed as put_placed
from .layout.striding import view_dtype as view_dtype
from .layout.windows import put_windows as put_windows
from .layout.windows import unfold as unfold
from .linalg import cdist, einsum, factorizations, fft, matrix_exponential, norms, solving, tensordot, triangular
from .linalg import matmul as products
from .neural import (
    activations,
    convolution,
    distances,
    dropout,
    embedding,
    interpolation,
    linear,
    losses,
    normalization,
    pooling,
    rectifiers,
)
from .reduction import minmax, order_statistics, reduce, scans, sort, statistics, vector_norms

TOP = (
    activations,
    linear,
    aliases,
    arithmetic,
    compare,
    complex_numbers,
    diagonals,
    division,
    unique,
    einsum,
    error_function,
    matrix_exponential,
    minmax,
    gathering,
    indexing,
    joining,
    products,
    cdist,
    losses,
    order_statistics,
    pointwise,
    tensordot,
    predicates,
    rearranging,
    reduce,
    scans,
    selecting,
    shape,
    solving,
    sort,
    special,
    statistics,
    striding,
    unary,
    vector_norms,
    masks,
)
"""The modules whose functions are names of the package `raygrad`."""


def gathered(families: tuple[ModuleType, ...]) -> dict[str, Any]:
    """Return the public functions of families by name, wrapped for regions of `autocast` that govern them.

    Raises:
        ValueError: two of them offer one name.
    """
    found: dict[str, Any] = {}
    for family in families:
        for name in family.PUBLIC:
            if name in found:
                raise ValueError(f"{family.__name__} offers '{name}', which another family offers already")
            found[name] = with_autocast(getattr(family, name))
    return found


FUNCTIONAL = {
    **gathered(
        (
            activations,
            linear,
            interpolation,
            convolution,
            dropout,
            embedding,
            losses,
            distances,
            normalization,
            padding,
            pooling,
            rectifiers,
        )
    ),
    **{name: getattr(unary, name) for name in ("relu", "sigmoid", "tanh")},
}
"""The functions of `raygrad.nn.functional`."""

FFT = gathered((fft,))
"""The functions of `raygrad.fft`."""

LINALG = {
    **{
        name: with_autocast(getattr(family, name))
        for family, names in (
            (aliases, "matrix_transpose"),
            (matrix_exponential, "matrix_exp"),
            (factorizations, "cholesky eigh eigvalsh qr svd svdvals"),
            (products, "matmul outer trace"),
            (norms, "cond matrix_norm norm vector_norm"),
            (tensordot, "tensordot vecdot"),
            (rearranging, "vander"),
            (solving, "det inv lstsq matrix_power matrix_rank multi_dot pinv slogdet solve tensorinv tensorsolve"),
            (triangular, "solve_triangular"),
        )
        for name in names.split()
    },
    "cross": tensordot.cross_along,
    "diagonal": diagonals.diagonal,
}
"""The functions of `raygrad.linalg`."""


def offered(table: dict[str, Any], module: str) -> dict[str, Any]:
    """Return the functions of a public module by name, wrapped with checks of argument types (`argument_errors`)."""
    return {
        name: with_argument_errors(function, *_names.get(function, (module, name))) for name, function in table.items()
    }


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(gathered(TOP))
_names = {function: ("raygrad", name) for name, function in reversed(gathered(TOP).items())}
__all__ = sorted(gathered(TOP))  # pyright: ignore[reportUnsupportedDunderAll]
