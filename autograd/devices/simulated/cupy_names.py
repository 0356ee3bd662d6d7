"""Tables of CuPy's names: what CuPy 14 offers of NumPy's namespace, and the options that its functions lack.

Simulated devices offer these and refuse the rest. Source: `dir(cupy)` and `dir(numpy)` (CuPy 14.2, NumPy 2.4).
"""

UFUNCS = frozenset(
    """
    abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1
    fabs float_power floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert
    isfinite isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor matmul maximum minimum mod modf multiply negative nextafter
    not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh
    sqrt square subtract tan tanh true_divide trunc
    """.split()
)
"""Ufuncs."""

FUNCTIONS = frozenset(
    """
    all allclose amax amin angle any append apply_along_axis apply_over_axes arange argmax argmin argpartition
    argsort argwhere around array array_equal array_equiv array_split asanyarray asarray ascontiguousarray
    asfortranarray astype atleast_1d atleast_2d atleast_3d average bartlett bincount blackman broadcast_arrays
    broadcast_to can_cast choose clip column_stack common_type compress concat concatenate convolve copy copyto
    corrcoef correlate count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum delete diag
    diag_indices diag_indices_from diagflat diagonal diff digitize dot dsplit dstack ediff1d einsum empty
    empty_like expand_dims extract eye fill_diagonal fix flatnonzero flip fliplr flipud full full_like gradient
    hamming hanning histogram histogram2d histogramdd hsplit hstack i0 identity imag indices inner interp
    intersect1d isclose iscomplex iscomplexobj isfortran isin isneginf isposinf isreal isrealobj isscalar ix_
    kaiser kron lexsort linspace logspace mask_indices matrix_transpose max may_share_memory mean median
    meshgrid min min_scalar_type moveaxis nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean
    nanmedian nanmin nanprod nanstd nansum nanvar ndim nonzero ones ones_like outer packbits pad partition
    percentile permute_dims piecewise place poly polyadd polyfit polymul polysub polyval prod ptp put
    put_along_axis putmask quantile ravel ravel_multi_index real real_if_close repeat reshape resize result_type
    roll rollaxis roots rot90 round searchsorted select setdiff1d setxor1d shape shares_memory sinc size sort
    sort_complex split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose
    trapezoid tri tril tril_indices tril_indices_from trim_zeros triu triu_indices triu_indices_from union1d
    unique unique_all unique_counts unique_inverse unique_values unpackbits unravel_index unwrap vander var vdot
    vsplit vstack where zeros zeros_like
    """.split()
)
"""Functions that take or make arrays."""

LINALG = frozenset(
    """
    cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matmul matrix_power matrix_rank matrix_transpose
    norm pinv qr slogdet solve svd tensorinv tensorsolve
    """.split()
)
"""Of `linalg`."""

FFT = frozenset(
    """
    fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq
    rfftn
    """.split()
)
"""Of `fft`."""

SCATTERING = frozenset("add subtract maximum minimum bitwise_and bitwise_or bitwise_xor".split())
"""Ufuncs of CuPy's namespace that have `at`."""

REDUCING = frozenset("add multiply".split())
"""Those that have `reduce` and `accumulate`."""

MAKERS = frozenset(
    """
    arange array asarray asanyarray empty eye full identity indices linspace logspace ones tri tril_indices triu_indices
    zeros
    """.split()
)
"""Functions that make arrays of none."""

LACKING = {
    "all": ("where",),
    "amax": ("initial", "where"),
    "amin": ("initial", "where"),
    "any": ("where",),
    "argpartition": ("kind", "order"),
    "argsort": ("order", "stable"),
    "array": ("ndmax",),
    "clip": ("max", "min"),
    "count_nonzero": ("keepdims",),
    "einsum": ("out",),
    "isin": ("kind",),
    "lexsort": ("axis",),
    "max": ("initial", "where"),
    "mean": ("where",),
    "min": ("initial", "where"),
    "nanmax": ("initial", "where"),
    "nanmean": ("where",),
    "nanmin": ("initial", "where"),
    "nanprod": ("initial", "where"),
    "nanstd": ("correction", "mean", "where"),
    "nansum": ("initial", "where"),
    "nanvar": ("correction", "mean", "where"),
    "partition": ("kind", "order"),
    "percentile": ("weights",),
    "prod": ("initial", "where"),
    "quantile": ("weights",),
    "sort": ("order", "stable"),
    "std": ("correction", "mean", "where"),
    "sum": ("initial", "where"),
    "take": ("mode",),
    "trim_zeros": ("axis",),
    "unique": ("sorted",),
    "var": ("correction", "mean", "where"),
    "linalg.cholesky": ("upper",),
    "linalg.matrix_rank": ("hermitian", "rtol"),
    "linalg.pinv": ("hermitian", "rtol"),
    "linalg.svd": ("hermitian",),
}
"""By function, the options of NumPy's that CuPy's lacks; `fft`'s lack `out`."""

COPYING = {
    "cuda.Device": ("device",),
    "cuda.Event": ("block", "disable_timing"),
    "cuda.Event.done": (),
    "cuda.Event.synchronize": (),
    "cuda.Stream": ("non_blocking",),
    "cuda.Stream.record": ("event",),
    "cuda.Stream.synchronize": (),
    "cuda.Stream.wait_event": ("event",),
    "cuda.alloc_pinned_memory": ("size",),
    "cuda.get_current_stream": (),
    "cuda.runtime.CUDARuntimeError": (),
    "cuda.MemoryPointer.copy_from_device_async": ("src", "size", "stream"),
    "ndarray.data": (),
    "ndarray.get": ("stream", "order", "out", "blocking"),
    "ndarray.set": ("arr", "stream"),
}
"""Names used for copies, with their parameters. Simulated devices have these and no others."""
