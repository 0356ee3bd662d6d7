"""Every case of the catalogue on the simulated device: the bits of the host, to second order, and nothing moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.autograd.devices.backends.staging import Staging
from raygrad.autograd.registry.registry import get_op
from raygrad.errors import MissingKernel

from .cases import FAMILIES
from .check import Case, outputs_of, slope, weights_for

HOST_ONLY = {
    "erfc": "an iteration per element, by the standard library",
    "erfinv": "steps that use erfc",
    "lgamma": "by the standard library, element by element",
    **dict.fromkeys(("bin_counts", "bin_edges", "histc"), "bins found and counted by NumPy"),
    **dict.fromkeys(("poisson", "binomial"), "counts drawn by NumPy's generator, whose numbers are those of the host"),
    "mode": "runs of equal elements, by an accumulation that CuPy lacks",
    "row_order": "a lexical order, which CuPy gives by other means",
    **dict.fromkeys(
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx i0 i0e i1 i1e igamma igammac log_ndtr "
        "modified_bessel_k0 modified_bessel_k1 ndtr ndtri scaled_modified_bessel_k0 "
        "scaled_modified_bessel_k1 zeta".split(),
        "by SciPy",
    ),
    **dict.fromkeys(
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w".split(),
        "steps up to the highest degree, which is read",
    ),
    **dict.fromkeys("cholesky_ex eig geqrf inv_ex lu_factor pivot_order solve_ex".split(), "by LAPACK, or in steps"),
    "scatter_reduce": "products only: CuPy scatters sums and extremes",
}
"""The ops that have no kernel on a device, or not for all of their parameters."""

OTHER_BITS = {
    "logcumsumexp": "running sums by doubling strides",
    "powers": "running sums by doubling strides",
}
"""By the beginning of their names, cases whose last bits are not the host's."""

_READ = "what the host is asked for is read, and given back as a tensor"
_INDEX = "indices or values are given as lists or arrays of the host"
MOVED = {
    "combinations": "the places chosen, which Python's itertools lists",
    "one_hot": "how many classes there are is read from the tensor",
    "quantile": "the case makes a tensor of the ranks, which are a list",
    "repeat_interleave-each": "the sum of the repeats is read, which is the extent of the result",
    **dict.fromkeys(("is_complex", "isclose", "answers"), _READ),
    **dict.fromkeys(("[list]", "[array]", "[empty]", "put "), _INDEX),
}
"""By the beginning of their names, cases that ask for something to be moved."""


def on(case: Case, place: str) -> list[Any]:
    tensors = [rg.tensor(np.array(a), device=place) for a in case.inputs]
    return [t.requires_grad_() if a.dtype.kind in "fc" else t for t, a in zip(tensors, case.inputs, strict=True)]


def constants(case: Case, place: str) -> list[Any]:
    """The weights that make one number of the outputs, where they are to be used."""
    with rg.device("cpu"):
        host = outputs_of(case.run(rg, *on(case, "cpu")))
    return [None if w is None else rg.tensor(w, device=place) for w in weights_for(host)]


def outcome(case: Case, place: str, devices: StandIn) -> list[Any]:
    """The outputs and the gradients of a case; asserts that nothing was moved for them."""
    tensors, weights = on(case, place), constants(case, place) if case.order else []
    devices.forget_transfers()
    outputs = outputs_of(case.run(rg, *tensors))
    if case.order:
        total: Any = 0
        for output, weight in zip(outputs, weights, strict=True):
            if weight is not None:
                total = total + (output * weight.to(output.dtype)).sum().real
        total.backward()
    found = devices.transfers
    if (found.to_device, found.to_host, found.between) != (0, 0, 0) and not case.name.startswith(tuple(MOVED)):
        raise AssertionError(f"moved {found}")
    grads: list[Any] = [t.grad for t in tensors]
    results = [*outputs, *(g for g in grads if g is not None)]
    places = {str(t.device) for t in results}
    if places - {place}:
        raise AssertionError(f"results are on {places}")
    return [t.detach().cpu().numpy() for t in results]


def second(case: Case, place: str) -> list[Any]:
    tensors = on(case, place)
    total = slope(case, tensors)
    if total.requires_grad:  # else it is linear in everything
        total.backward()
    return [t.grad.cpu().numpy() for t in tensors if t.grad is not None]


def compared(case: Case, here: Sequence[Any], there: Sequence[Any]) -> list[str]:
    wrong: list[str] = []
    if len(here) != len(there):
        return [f"{case}: {len(here)} results on the host, {len(there)} on the device"]
    for i, (a, b) in enumerate(zip(here, there, strict=True)):
        alike = (a.dtype, a.shape) == (b.dtype, b.shape) and (
            a.tobytes() == b.tobytes()
            or (case.name.startswith(tuple(OTHER_BITS)) and np.allclose(a, b, rtol=1e-10, equal_nan=True))
        )
        if not alike:
            wrong.append(
                f"{case}: result {i}: {a.dtype}{a.shape} {a} on the host, {b.dtype}{b.shape} {b} on the device"
            )
    return wrong


@pytest.mark.parametrize("name", FAMILIES)
def test_same_bits_as_on_the_host_and_nothing_moved(name: str):
    wrong: list[str] = []
    with use_stand_in(1) as devices:
        for case in FAMILIES[name]:
            try:
                there = outcome_there(case, devices)
            except Exception as error:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
                continue
            if there is not None:
                wrong.extend(compared(case, outcome(case, "cpu", devices), there))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FAMILIES)
def test_streams_that_are_late_give_the_bits_of_the_host(name: str):
    """Each copy is on a stream of its own, in parts: what a kernel reads is there, and what it wrote is what comes."""
    wrong: list[str] = []
    with use_stand_in(1, late=len(name)) as devices:
        devices.staging = Staging(devices.xp, size=64, count=2, direct=0)
        for case in FAMILIES[name]:
            there = outcome_there(case, devices)
            if there is not None:
                wrong.extend(compared(case, outcome(case, "cpu", devices), there))
    assert not wrong, "\n".join(wrong)


def outcome_there(case: Case, devices: StandIn) -> list[Any] | None:
    """What a case gives on the device; None if it says that one of the ops declared as the host's has no kernel."""
    try:
        with rg.device("cuda:0"):
            return outcome(case, "cuda:0", devices)
    except MissingKernel as error:
        if not any(f"'{op}'" in str(error) for op in HOST_ONLY):
            raise
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_second_derivatives_have_the_bits_of_the_host(name: str):
    wrong: list[str] = []
    with use_stand_in(1):
        for case in FAMILIES[name]:
            if case.order < 2:
                continue
            try:
                with rg.device("cuda:0"):
                    there = second(case, "cuda:0")
            except MissingKernel as error:
                if not any(f"'{op}'" in str(error) for op in HOST_ONLY):
                    wrong.append(f"{case}: {error}")
            except Exception as error:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
            else:
                wrong.extend(compared(case, second(case, "cpu"), there))
    assert not wrong, "\n".join(wrong)


def test_the_registry_says_which_ops_are_the_hosts():
    declared = {name for name in rg.autograd.list_ops() if not get_op(name).has_kernel("cuda", "*")}
    builtin = {name for name in declared if get_op(name).builtin}
    assert builtin == set(HOST_ONLY) - {"scatter_reduce"}


@pytest.mark.parametrize("block", ["cpu", "cuda:0", "cuda:1"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dropout", {}),
        ("dropout1d", {}),
        ("alpha_dropout", {"training": True}),
        ("feature_alpha_dropout", {"training": True}),
        ("rrelu", {"training": True}),
    ],
)
def test_what_is_left_out_at_random_is_drawn_for_the_device_of_the_tensor(
    name: str, options: dict[str, Any], block: str
) -> None:
    function = getattr(rg.nn.functional, name)
    values = np.linspace(-1.0, 1.0, 24).reshape(2, 4, 3)
    found: list[Any] = []
    with use_stand_in(2), rg.device(block):
        for place in ("cpu", "cuda:1"):
            rg.manual_seed(5)
            x = rg.tensor(values, device=place, requires_grad=True)
            y = function(x, **options)
            y.sum().backward()
            gradient: Any = x.grad
            assert str(y.device) == str(gradient.device) == place
            found.append((y.tolist(), gradient.tolist()))
    assert found[0] == found[1]
