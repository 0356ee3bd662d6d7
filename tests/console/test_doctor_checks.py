"""The checks of `raygrad doctor`: what is wrong is found, and each finding says how to mend it."""

from __future__ import annotations

import pytest

from raygrad.console import doctor_checks
from raygrad.console.doctor_checks import Finding, Status

NEEDS = ["numpy>=2.1", 'ray==2.60.*; extra == "ray"', 'grpcio>=1.66; extra == "ray"']
GIB = 1 << 30

WELL = {
    "python": doctor_checks.check_python((3, 12, 1), True),
    "packages": doctor_checks.check_packages(NEEDS, {"numpy": "2.4.0"}, "", True),
    "extra": doctor_checks.check_packages(NEEDS, {"ray": "2.60.1", "grpcio": "1.70"}, "ray", True),
    "gpu": doctor_checks.check_gpus(True, "14.0", 2, ""),
    "shared memory": doctor_checks.check_shared_memory(8 * GIB, True),
    "cpus": doctor_checks.check_cpus(8, None),
    "quota": doctor_checks.check_cpus(2, 4.0),
    "blas": doctor_checks.check_blas([("openblas", 4)], 8),
    "limits": doctor_checks.check_limits(65536, -1),
    "folder": doctor_checks.check_temporary_folder("/tmp", True, 50 * GIB),
    "port": doctor_checks.check_port(8786, ""),
    "server": doctor_checks.check_port(8786, "raygrad"),
    "token": doctor_checks.check_token("x" * 32),
    "ray token": doctor_checks.check_ray_token(None, True, 0o600),
    "address": doctor_checks.check_address("local", ""),
}

ABSENT = {
    "extra": doctor_checks.check_packages(NEEDS, {"numpy": "2.4.0"}, "ray", False),
    "gpu": doctor_checks.check_gpus(False, "", 0, ""),
    "shared memory": doctor_checks.check_shared_memory(None, True),
    "small, and not needed": doctor_checks.check_shared_memory(64 << 20, False),
    "token": doctor_checks.check_token(None),
    "ray token": doctor_checks.check_ray_token("", False, None),
}

WARNINGS = {
    "no cupy": (doctor_checks.check_gpus(True, "", 0, ""), "cuda12"),
    "no driver": (doctor_checks.check_gpus(False, "14.0", 0, ""), "driver"),
    "shared memory": (doctor_checks.check_shared_memory(64 << 20, True), "--shm-size"),
    "quota": (doctor_checks.check_cpus(64, 2.5), "workers=2"),
    "less than one": (doctor_checks.check_cpus(64, 0.5), "workers=1"),
    "blas": (doctor_checks.check_blas([("openblas", 64), ("mkl", 1)], 4), "OPENBLAS_NUM_THREADS"),
    "files": (doctor_checks.check_limits(1024, -1), "ulimit -n"),
    "processes": (doctor_checks.check_limits(65536, 100), "ulimit -u"),
    "disk": (doctor_checks.check_temporary_folder("/tmp", True, 1 << 20), "space"),
    "port": (doctor_checks.check_port(8786, "nginx"), "--port"),
    "short token": (doctor_checks.check_token("secret"), "token_urlsafe"),
    "readable token": (doctor_checks.check_ray_token("token", True, 0o644), "chmod 600"),
}

ERRORS = {
    "python": (doctor_checks.check_python((3, 10, 4), True), "3.11"),
    "32 bit": (doctor_checks.check_python((3, 12, 4), False), "64-bit"),
    "old": (doctor_checks.check_packages(NEEDS, {"numpy": "1.26"}, "", True), "pip install"),
    "half an extra": (doctor_checks.check_packages(NEEDS, {"ray": "2.60.0"}, "ray", True), "raygrad[ray]"),
    "another ray": (
        doctor_checks.check_packages(NEEDS, {"ray": "2.61.0", "grpcio": "1.70"}, "ray", True),
        "raygrad[ray]",
    ),
    "cupy": (doctor_checks.check_gpus(True, "14.0", 0, "cudaErrorInsufficientDriver"), "CUDA"),
    "folder": (doctor_checks.check_temporary_folder("/tmp", False, GIB), "TMPDIR"),
    "long folder": (doctor_checks.check_temporary_folder("/tmp/" + 40 * "x", True, 9 * GIB), "TMPDIR"),
    "token": (doctor_checks.check_token("x" * 32 + "\n"), "tr -d"),
    "mode": (doctor_checks.check_ray_token("Token", True, 0o600), "disabled"),
    "no token": (doctor_checks.check_ray_token("token", False, None), "auth_token"),
    "address": (doctor_checks.check_address("ray:h:1", "no Ray answers at h:1"), "troubleshooting"),
}


@pytest.mark.parametrize("found", WELL.values(), ids=WELL)
def test_what_is_well_needs_no_mending(found: Finding):
    assert (found.status, found.remedy) == (Status.OK, "")


@pytest.mark.parametrize("found", ABSENT.values(), ids=ABSENT)
def test_what_is_optional_may_be_absent(found: Finding):
    assert found.status is Status.ABSENT


@pytest.mark.parametrize(("found", "remedy"), WARNINGS.values(), ids=WARNINGS)
def test_what_could_be_better_is_a_warning_with_a_remedy(found: Finding, remedy: str):
    assert found.status is Status.WARNING
    assert remedy in found.remedy


@pytest.mark.parametrize(("found", "remedy"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_work_is_an_error_with_a_remedy(found: Finding, remedy: str):
    assert found.status is Status.ERROR
    assert remedy in found.remedy


def test_a_wrong_version_is_named_with_the_one_that_is_wanted():
    found = doctor_checks.check_packages(NEEDS, {"numpy": "1.26"}, "", True)
    assert found.found == "numpy 1.26 (wanted >=2.1)"


def test_no_finding_shows_a_token():
    assert "hunter2" not in str(doctor_checks.check_token("hunter2"))
