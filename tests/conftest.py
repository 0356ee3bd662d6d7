"""What every test run needs, however pytest was started; the Makefile sets the same."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from .ray_head import ray_of_its_own

# Before anything imports NumPy or Ray. One BLAS thread: bits are promised at equal thread counts, and eager results in
# this process are compared with workers'. RAY_AUTH_MODE: else `ray.init` writes a token into the home folder.
for name, value in {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ADDRESS": "local",  # a Ray of the test's own, whichever else runs on this machine
    "JAX_PLATFORMS": "cpu",  # of workers, too: they inherit it
}.items():
    os.environ.setdefault(name, value)

# A shell starts what it runs in the background with interrupts ignored; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a time: a busy machine must not fail a property that holds.
settings.register_profile("raygrad", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("raygrad")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--opinfo",
        choices=("tenth", "all"),
        default="tenth",
        help="how many of PyTorch's samples of operations are compared (tests/opinfo)",
    )


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In parallel runs by file (`pytest -n 2 --dist loadfile`) all files that use Ray go to one process, and first: one
    Ray at a time, beside which the others run. So what a file can test without Ray is better in another."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class RayTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "ray" if uses_ray(config.rootpath / file) else file

    config.option.loadscopereorder = False  # not the largest first, but those on Ray
    return RayTogether(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of the processes of a parallel run
        items.sort(key=lambda item: not uses_ray(item.path))


@cache
def uses_ray(file: Path) -> bool:
    return "mark.ray" in file.read_text()


def put_aside() -> None:
    """Let collections no longer look at what there is now: twenty thousand tests, torch and JAX are half a second each
    time, and tests collect garbage by the hundred. What is garbage already goes first."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish(session: pytest.Session) -> None:
    put_aside()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """After each file, when its fixtures are gone: what it imported stays for good, and what it registered for built-in
    ops does not. A file that leaves a session open fails, rather than those that follow it."""
    result = yield
    if nextitem is not None and nextitem.path != item.path:
        put_aside()
        registry: Any = sys.modules.get("raygrad.autograd.registry.registry")
        for op in registry.customised() if registry is not None else ():
            op.remove_user_entries()
        modes: Any = sys.modules.get("raygrad.autograd.core.modes")
        if modes is not None and modes.state.recorder is not None:
            modes.state.recorder = None
            pytest.fail(f"{item.path.name} left a session open")
    return result


@pytest.fixture(scope="module")
def ray_started(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """Start one local Ray for the module."""
    pytest.importorskip("ray")
    with ray_of_its_own(tmp_path_factory.mktemp("away")) as ray:
        yield ray


@pytest.fixture
def often_switched_threads() -> Generator[None]:
    """Have Python switch between threads so often that they meet in the middle of whatever is not done under a lock."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
