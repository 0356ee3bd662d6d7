"""What every test run needs, however pytest was started; the Makefile sets the same."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports NumPy or Ray. One BLAS thread: bits are promised at equal thread counts, and eager results in
# this process are compared with workers'. RAY_AUTH_MODE: else `ray.init` writes a token into the home folder.
for name, value in {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "JAX_PLATFORMS": "cpu",  # of workers, too: they inherit it
}.items():
    os.environ.setdefault(name, value)

# A shell starts what it runs in the background with interrupts ignored; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a time: a busy machine must not fail a property that holds.
settings.register_profile("raygrad", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("raygrad")


@pytest.fixture(scope="module")
def ray_started(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Start one local Ray for the module, away from the repository's root."""
    ray = pytest.importorskip("ray")
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("away"))
    ray.init(
        address="local",
        num_cpus=4,
        object_store_memory=100 * 1024 * 1024,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    yield ray
    ray.shutdown()
    os.chdir(before)
