"""What the tests of interop nodes share: a Ray for those that need one."""

from __future__ import annotations

import os
from typing import Any

import pytest


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
