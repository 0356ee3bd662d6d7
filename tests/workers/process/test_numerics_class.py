"""What decides over the bits of a process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from raygrad.autograd.devices import use_stand_in
from raygrad.workers.process.blas_threads import limit_blas, release_blas
from raygrad.workers.process.numerics_class import numerics


def test_the_host_is_told_by_its_libraries_and_the_cores_that_they_are_for() -> None:
    ((kind, told),) = numerics()
    assert kind == "cpu"
    assert f"NumPy {np.__version__} with" in told


def test_a_gpu_has_a_class_of_its_own() -> None:
    with use_stand_in(2):
        assert [kind for kind, _ in numerics()] == ["cpu", "cuda"]


def test_another_number_of_threads_is_another_class() -> None:
    limit_blas(1)
    one = numerics()
    if "openblas" not in one[0][1]:
        pytest.skip("NumPy has no OpenBLAS here")
    release_blas(1)
    limit_blas(2)
    try:
        assert numerics() != one
    finally:
        release_blas(2)


def test_another_core_is_another_class() -> None:
    script = "from raygrad.workers.process.numerics_class import numerics; print(numerics()[0][1])"
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_CORETYPE": core},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for core in ("Haswell", "Nehalem")
    ]
    if "openblas" not in told[0] or os.uname().machine != "x86_64":
        pytest.skip("NumPy has no OpenBLAS for these cores here")
    assert "for Haswell" in told[0]
    assert "for Nehalem" in told[1]
