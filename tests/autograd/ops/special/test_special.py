"""Special functions: what is refused, and what happens where SciPy is not installed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import MissingDerivative

WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = sys.modules["scipy.special"] = None  # the import of either fails
import raygrad as rg
from raygrad.errors import BackendUnavailable
assert abs(rg.special.entr(rg.tensor(0.5)).item() - 0.34657) < 1e-4
for call in (lambda x: rg.i0(x), lambda x: rg.special.airy_ai(x), lambda x: rg.igamma(x, x), lambda x: x.i0_()):
    try:
        call(rg.tensor(1.0))
    except BackendUnavailable as error:
        assert "pip install 'raygrad[special]'" in str(error), error
    else:
        raise SystemExit("no error")
"""


def test_without_scipy_the_error_names_the_extra(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT_SCIPY], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_integers_are_refused_by_the_incomplete_gamma_functions(name):
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for int64'):
        getattr(rg, name)(rg.tensor([1]), rg.tensor([2]))


def test_a_derivative_by_the_order_is_refused_when_it_is_asked_for():
    a = rg.tensor([1.5], requires_grad=True)
    out = rg.igamma(a, rg.tensor([2.0]))
    with pytest.raises(MissingDerivative, match="detach"):
        out.backward()


def test_high_degrees_are_computed_without_a_step_for_each():
    x = rg.tensor([0.3, -0.7], dtype=rg.float64)
    got = rg.special.chebyshev_polynomial_t(x, 10**9)
    np.testing.assert_allclose(got.numpy(), np.cos(10**9 * np.arccos([0.3, -0.7])))
