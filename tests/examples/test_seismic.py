"""The seismic example: an exact adjoint, and an inversion with the same misfits wherever it runs."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich")

FOLDER = Path(__file__).parents[2] / "examples" / "seismic"


@pytest.fixture
def acoustics(monkeypatch: pytest.MonkeyPatch):
    """`examples/seismic/acoustics.py`, imported as the script does, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("acoustics")
    sys.modules.pop("acoustics", None)


def small(acoustics, steps: int = 130, every: int = 25):
    """A model of two layers, and a shot over it."""
    m = np.full((40, 50), 0.12)
    m[22:] = 0.2
    receivers = tuple((12, column) for column in range(12, 40, 3))
    return m, acoustics.Shot((13, 20), receivers, acoustics.ricker(steps, 0.002, 12.0), frame=10, every=every)


@pytest.mark.parametrize("every", [1, 7, 130, 1000])
def test_the_adjoint_passes_the_dot_product_test(acoustics, every):
    m, shot = small(acoustics, every=every)
    rng = np.random.default_rng(0)
    change, residual = rng.standard_normal(m.shape) * m, rng.standard_normal((130, len(shot.receivers)))
    _, kept = acoustics.solve(m, shot)
    there = (acoustics.born(m, shot, change) * residual).sum()
    back = (change * acoustics.adjoint(m, shot, kept, residual)).sum()
    assert there == pytest.approx(back, rel=1e-12)


def test_the_linearisation_is_that_of_the_solver(acoustics):
    m, shot = small(acoustics)
    change = np.random.default_rng(1).standard_normal(m.shape) * m
    step = 1e-6
    ahead, behind = (acoustics.solve(m + sign * step * change, shot)[0] for sign in (1, -1))
    linear = acoustics.born(m, shot, change)
    assert np.abs((ahead - behind) / (2 * step) - linear).max() < 1e-6 * np.abs(linear).max()


def test_an_unstable_step_is_refused(acoustics):
    m, shot = small(acoustics)
    with pytest.raises(ValueError, match=r"\(v dt / h\)\^2 is 0.400; steps grow without end above 0.375"):
        acoustics.solve(m * 2, shot)


def test_waves_die_out_in_the_frame(acoustics):
    shot = acoustics.Shot((20, 25), ((20, 27),), acoustics.ricker(600, 0.002, 12.0), frame=15)
    traces, _ = acoustics.solve(np.full((60, 70), 0.2), shot)
    assert np.abs(traces[400:]).max() < 0.04 * np.abs(traces).max()


@pytest.fixture
def compiled(acoustics):
    pytest.importorskip("numba")
    yield importlib.import_module("compiled")
    sys.modules.pop("compiled", None)


def test_compiled_steps_have_the_same_bits(acoustics, compiled):
    m, shot = small(acoustics)
    residual = np.random.default_rng(0).standard_normal((130, len(shot.receivers)))
    found = []
    for medium in (acoustics.Medium, compiled.Medium):
        traces, kept = acoustics.solve(m, shot, medium)
        found.append((traces.tobytes(), acoustics.adjoint(m, shot, kept, residual, medium).tobytes()))
    assert found[0] == found[1]


def run(*arguments: str, timeout: float = 110.0, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "invert.py"), "--shots", "3", "--iterations", "3", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def misfits(output: str) -> list[str]:
    """The misfit before each iteration, exactly."""
    return re.findall(r"^iteration +\d+ .* (0x1\.[0-9a-f]+p[+-]\d+)$", output, re.MULTILINE)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("seismic")
    return run("--out", str(folder)), folder


@pytest.mark.slow
def test_it_reduces_misfit_and_error_and_draws_its_figures(local):
    output, folder = local
    first, *_, last = map(float.fromhex, misfits(output))
    assert last < first
    before, after = re.findall(r"^error, rms +(\d+) -> (\d+) m/s$", output, re.MULTILINE)[0]
    assert int(after) < int(before)
    assert (folder / "inversion.png").stat().st_size > 10_000
    assert "Seismogram" in (folder / "plan.html").read_text()


@pytest.mark.ray
@pytest.mark.slow
def test_its_misfits_on_ray_are_the_same_to_the_last_bit(local):
    assert misfits(run("--on", "ray")) == misfits(local[0])


@pytest.mark.ray
@pytest.mark.slow
def test_its_misfits_with_compiled_steps_are_the_same_to_the_last_bit(local):
    pytest.importorskip("numba")
    assert misfits(run("--on", "ray", "--compiled")) == misfits(local[0])


@pytest.mark.slow
def test_waves_computed_on_a_device_have_the_same_misfits(local):
    """The same source on CuPy's restrictions, which a simulated GPU has; its bits are NumPy's."""
    assert misfits(run("--device", "cuda", "--workers", "1", RAYGRAD_STAND_IN="1")) == misfits(local[0])


@pytest.mark.gpu
@pytest.mark.slow
def test_waves_computed_on_a_gpu_have_nearly_the_same_misfits(local):
    pytest.importorskip("cupy")
    there = [float.fromhex(one) for one in misfits(run("--device", "cuda", "--workers", "1"))]
    assert there == pytest.approx([float.fromhex(one) for one in misfits(local[0])], rel=1e-6)
