"""The built-in ops, one folder per family and one file per group; each op is defined in the public registry.

The functions take tensors, or bare arrays (so that derivative rules run on both). Each file lists its public functions
in `PUBLIC`; the tables below say where users find them: `TOP` as `raygrad.<name>`, the others under their own modules.
The functions of `FOR_THE_ENGINE` are for the layers around.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..dispatch.argument_errors import with_argument_errors
from ..dispatch.autocast_policies import with_autocast
from . import aliases
from .elementwise import (
    arithmetic,
    compare,
    complex_numbers,
    division,
    error_function,
    integers,
    pointwise,
    predicates,
    special as gammas,
    unary,
    where as masks,
)
from .indexing import gathering, index_reduction, indexing, repeating, selecting, unique
from .layout import (
    axis_order,
    copies,
    device_transfer,
    diagonals,
    joining,
    padding,
    rearranging,
    shape,
    striding,
    windows,
)
from .linalg import (
    cdist,
    checked_factors,
    eig,
    einsum,
    factorizations,
    fft,
    least_squares,
    low_rank,
    lu as lower_upper,
    matmul as products,
    matrix_exponential,
    norms,
    reflections,
    short_time_fourier,
    solving,
    tensordot,
    top_level,
    triangular,
)
from .neural import (
    activations,
    convolution,
    distances,
    dropout,
    embedding,
    embedding_bags,
    grid_sampling,
    gumbel,
    in_place_functions,
    interpolation,
    linear,
    losses,
    margin_losses,
    normalization,
    package_names,
    pooling,
    rectifiers,
    unpooling,
)
from .random import sampling
from .reduction import (
    finite_differences,
    histograms,
    minmax,
    mode,
    order_statistics,
    reduce,
    scans,
    sort,
    statistics,
)
from .special import bessel, distributions, polynomials

TOP = (
    activations,
    linear,
    aliases,
    arithmetic,
    bessel,
    compare,
    copies,
    complex_numbers,
    diagonals,
    distributions,
    division,
    unique,
    einsum,
    error_function,
    matrix_exponential,
    minmax,
    mode,
    finite_differences,
    gathering,
    histograms,
    index_reduction,
    indexing,
    integers,
    joining,
    low_rank,
    lower_upper,
    products,
    cdist,
    losses,
    order_statistics,
    package_names,
    pointwise,
    tensordot,
    predicates,
    rearranging,
    reduce,
    reflections,
    repeating,
    sampling,
    scans,
    selecting,
    shape,
    short_time_fourier,
    solving,
    sort,
    gammas,
    statistics,
    striding,
    top_level,
    unary,
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
            embedding_bags,
            grid_sampling,
            gumbel,
            in_place_functions,
            losses,
            distances,
            margin_losses,
            normalization,
            padding,
            pooling,
            rectifiers,
            unpooling,
        )
    ),
    **{name: getattr(unary, name) for name in ("sigmoid", "tanh")},
    "relu": with_autocast(in_place_functions.relu),
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
            (checked_factors, "cholesky_ex inv_ex solve_ex"),
            (eig, "eig eigvals"),
            (lower_upper, "lu_factor lu_factor_ex"),
            (reflections, "householder_product"),
            (factorizations, "cholesky eigh eigvalsh qr svd svdvals"),
            (products, "matmul outer trace"),
            (norms, "cond matrix_norm norm vector_norm"),
            (tensordot, "tensordot vecdot"),
            (least_squares, "lstsq matrix_rank"),
            (solving, "det inv matrix_power multi_dot pinv slogdet solve tensorinv tensorsolve"),
            (triangular, "solve_triangular"),
        )
        for name in names.split()
    },
    "cross": tensordot.cross_along,
    "diagonal": diagonals.diagonal,
    "vander": rearranging.vander_of_last,
    "lu": lower_upper.lu_of,
    "lu_solve": lower_upper.linalg_lu_solve,
}
"""The functions of `raygrad.linalg`."""

SPECIAL = {
    **{
        name: with_autocast(getattr(family, name))
        for family, names in (
            (
                bessel,
                "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i0e i1 i1e modified_bessel_i0 modified_bessel_i1 "
                "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
                "spherical_bessel_j0",
            ),
            (distributions, "entr erfcx gammainc gammaincc log_ndtr ndtr ndtri zeta"),
            (
                polynomials,
                "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
                "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
                "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
                "shifted_chebyshev_polynomial_w",
            ),
            (activations, "log_softmax softmax"),
            (error_function, "erf erfc erfinv"),
            (pointwise, "exp2 logit sinc xlog1py xlogy"),
            (reduce, "logsumexp"),
            (gammas, "digamma polygamma"),
            (unary, "expm1 log1p round"),
        )
        for name in names.split()
    },
    "expit": unary.sigmoid,
    "gammaln": gammas.lgamma,
    "multigammaln": gammas.mvlgamma,
    "psi": gammas.digamma,
}
"""The functions of `raygrad.special`."""


def offered(table: dict[str, Any], module: str) -> dict[str, Any]:
    """Return the functions of a public module by name, wrapped with checks of argument types (`argument_errors`)."""
    return {
        name: with_argument_errors(function, *_names.get(function, (module, name))) for name, function in table.items()
    }


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


FOR_THE_ENGINE = (
    (
        axis_order,
        "copy_in_order full_on in_memory_format in_order_data lies_in_order ones_as ones_of to_dtype zeros_as",
    ),
    (device_transfer, "to_device"),
    (diagonals, "put_diagonal"),
    (gathering, "scatter_zeros"),
    (indexing, "is_whole put_region take_apart with_item write_item zeros_around"),
    (masks, "keep"),
    (shape, "infer_size"),
    (striding, "placed put_placed view_dtype"),
    (windows, "put_windows unfold"),
)
"""Functions of the catalogue that serve the engine alone."""

globals().update(gathered(TOP))
globals().update({name: getattr(family, name) for family, names in FOR_THE_ENGINE for name in names.split()})
_names = {function: ("raygrad", name) for name, function in reversed(gathered(TOP).items())}
__all__ = sorted(gathered(TOP))  # pyright: ignore[reportUnsupportedDunderAll]
