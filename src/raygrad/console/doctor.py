"""`raygrad doctor`: gathers facts about this machine, and hands them to the checks of `doctor_checks`."""

from __future__ import annotations

import http.client
import importlib.metadata
import os
import re
import resource
import shutil
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_info

from raygrad.autograd.devices.serving import backend_if_installed
from raygrad.client.session.backends import check_reachable
from raygrad.client.session.session_defaults import default_ca
from raygrad.errors import RaygradError

from . import doctor_checks
from .doctor_checks import Finding

PORT_SECONDS: Final = 2.0
"""How long a port may take to answer."""


def examine(*, port: int, address: str | None = None, ca: str | None = None) -> list[Finding]:
    """Return the findings about this machine, and about an address, if one is given; `port` is that of a server, and
    `ca` the authority of a service's certificate, or else what the environment says."""
    installed = {one.name.lower(): one.version for one in importlib.metadata.distributions() if one.name}
    requirements = importlib.metadata.requires("raygrad") or []
    has_ray, usable = "ray" in installed, len(os.sched_getaffinity(0))
    cupy = next((version for name, version in installed.items() if name.startswith("cupy")), "")
    found = [
        doctor_checks.check_python(sys.version_info[:3], struct.calcsize("P") == 8),
        doctor_checks.check_packages(requirements, installed, "", True),
        doctor_checks.check_packages(requirements, installed, "ray", has_ray),
        doctor_checks.check_gpus(Path("/proc/driver/nvidia/version").exists(), cupy, *_usable_gpus()),
        doctor_checks.check_cpus(usable, cpu_quota(Path("/sys/fs/cgroup"))),
        doctor_checks.check_shared_memory(_size_of(Path("/dev/shm")), has_ray),
        doctor_checks.check_blas([(one["internal_api"], one["num_threads"]) for one in threadpool_info()], usable),
        doctor_checks.check_limits(
            resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.getrlimit(resource.RLIMIT_NPROC)[0]
        ),
        _temporary_folder(),
        doctor_checks.check_port(port, answers_at(port)),
        doctor_checks.check_token(os.environ.get("RAYGRAD_TOKEN")),
    ]
    if has_ray:
        found.append(_ray_token())
    if address is not None:
        try:
            check_reachable(address, default_ca(address) if ca is None else ca)
            problem = ""
        except (RaygradError, ValueError) as error:
            problem = str(error)
        found.append(doctor_checks.check_address(address, problem))
    return found


def _usable_gpus() -> tuple[int, str]:
    """Return how many GPUs can be used here, or 0 and why."""
    try:
        backend = backend_if_installed()
        return (0, "") if backend is None else (backend.count(), "")
    except (RaygradError, ImportError, RuntimeError) as error:
        return 0, str(error).partition("\n")[0]


def cpu_quota(root: Path) -> float | None:
    """Return the CPU time that the control group of this process allows, in CPUs, None for no limit; `root` is where
    control groups are mounted."""
    for file in (root / "cpu.max", root / "cpu" / "cpu.cfs_quota_us"):
        try:
            words = file.read_text().split()
            period = words[1] if len(words) > 1 else (file.parent / "cpu.cfs_period_us").read_text()
            return None if words[0] in ("max", "-1") else int(words[0]) / int(period)
        except (OSError, IndexError, ValueError):
            continue
    return None


def _size_of(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _temporary_folder() -> Finding:
    folder = tempfile.gettempdir()
    return doctor_checks.check_temporary_folder(
        folder, os.access(folder, os.W_OK | os.X_OK), shutil.disk_usage(folder).free
    )


def answers_at(port: int) -> str:
    """Return who answers at a port of this machine: "" nobody, "raygrad" a server, else what kind of thing."""
    try:
        socket.create_connection(("127.0.0.1", port), PORT_SECONDS).close()
    except OSError:
        return ""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PORT_SECONDS)
    try:
        connection.request("GET", "/healthz")
        server = connection.getresponse().getheader("Server", "")
    except (OSError, http.client.HTTPException):
        return "it speaks no HTTP; a raygrad server with TLS looks so, too"
    finally:
        connection.close()
    return "raygrad" if re.match("raygrad", server, re.IGNORECASE) else server or "an HTTP server"


def _ray_token() -> Finding:
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        permissions = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        permissions = None
    present = bool(os.environ.get("RAY_AUTH_TOKEN")) or permissions is not None
    return doctor_checks.check_ray_token(os.environ.get("RAY_AUTH_MODE"), present, permissions)
