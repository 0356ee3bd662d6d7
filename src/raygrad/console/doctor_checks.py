"""The checks of `raygrad doctor`: pure functions, from facts about a machine to what was found and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from packaging.requirements import Requirement

MIN_PYTHON: Final = (3, 11)

MIN_SHARED_MEMORY: Final = 1 << 30
"""Bytes of /dev/shm with which Ray keeps its objects there without complaint, for small arrays; Docker gives 64 MiB."""

MIN_OPEN_FILES: Final = 8192
"""Files per process: Ray opens a few for each worker, and a server one for each client."""

MIN_PROCESSES: Final = 4096
"""Threads and processes per user: each worker has some dozens of threads."""

LONGEST_TEMPORARY_FOLDER: Final = 40
"""Characters: Ray keeps Unix sockets 65 further down, and a socket's path may have 107."""

MIN_TOKEN: Final = 16
"""Characters of a token that nobody guesses."""


class Status(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    ABSENT = "absent"
    """An optional part that is not there, and needs no mending."""
    WARNING = "warning"
    """Something works, but slower or less safely than it could."""
    ERROR = "error"
    """Something does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    check: str
    status: Status
    found: str
    remedy: str = ""
    """What to do about it; empty where nothing needs mending."""


def check_python(version: tuple[int, int, int], sixty_four_bits: bool) -> Finding:
    """Check the interpreter."""
    found = f"{'.'.join(map(str, version))}, {64 if sixty_four_bits else 32} bit"
    if version[:2] < MIN_PYTHON or not sixty_four_bits:
        remedy = f"make an environment with a 64-bit Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or later"
        return Finding(check="Python", status=Status.ERROR, found=found, remedy=remedy)
    return Finding(check="Python", status=Status.OK, found=found)


def check_packages(requirements: Sequence[str], installed: Mapping[str, str], extra: str, chosen: bool) -> Finding:
    """Check the packages that raygrad requires, or those of an extra.

    Args:
        requirements: of raygrad, as its metadata lists them.
        installed: the version of each installed package, by its lower-case name.
        extra: whose packages to check; "" for those of raygrad itself.
        chosen: whether they are needed. Those of an extra that is not chosen may be absent.
    """
    name = f"raygrad[{extra}]" if extra else "packages"
    wanted = [one for one in map(Requirement, requirements) if _belongs(one, extra)]
    missing = [one.name for one in wanted if one.name.lower() not in installed]
    wrong = [
        f"{one.name} {installed[one.name.lower()]} (wanted {one.specifier})"
        for one in wanted
        if one.name.lower() in installed and not one.specifier.contains(installed[one.name.lower()], prereleases=True)
    ]
    if missing and not chosen:
        return Finding(
            check=name,
            status=Status.ABSENT,
            found=f"not installed: {', '.join(missing)}",
            remedy=f"pip install '{name}'",
        )
    if missing or wrong:
        return Finding(
            check=name,
            status=Status.ERROR,
            found="; ".join([*(f"{one} is not installed" for one in missing), *wrong]),
            remedy=f"pip install --upgrade '{name if extra else 'raygrad'}'",
        )
    versions = ", ".join([f"{one.name} {installed[one.name.lower()]}" for one in wanted])
    return Finding(check=name, status=Status.OK, found=versions or "none required")


def _belongs(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    if not extra:
        return marker is None or marker.evaluate({"extra": ""})
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def check_gpus(driver: bool, cupy: str, devices: int, why: str) -> Finding:
    """Check the GPUs of this machine.

    Args:
        driver: whether the NVIDIA driver is loaded.
        cupy: the version of CuPy that is installed; "" if none.
        devices: the GPUs that CuPy can use.
        why: what CuPy says where it can use none.
    """
    if not driver and not cupy:
        return Finding(check="GPU", status=Status.ABSENT, found="no NVIDIA driver and no CuPy")
    if driver and not cupy:
        return Finding(
            check="GPU",
            status=Status.WARNING,
            found="the NVIDIA driver is loaded, but CuPy is not installed: sessions run on CPUs",
            remedy="pip install 'raygrad[cuda12]' or 'raygrad[cuda13]', as the driver's CUDA version (nvidia-smi) says",
        )
    if devices:
        return Finding(check="GPU", status=Status.OK, found=f"CuPy {cupy} uses {devices}")
    if driver:
        return Finding(
            check="GPU",
            status=Status.ERROR,
            found=f"CuPy {cupy} can use no GPU: {why or 'it sees none'}",
            remedy="install the CuPy of the driver's CUDA version, look at CUDA_VISIBLE_DEVICES, and give containers "
            "their GPUs (docker run --gpus all)",
        )
    return Finding(
        check="GPU",
        status=Status.WARNING,
        found=f"CuPy {cupy} is installed, but no NVIDIA driver is loaded",
        remedy="nothing, if workers elsewhere have GPUs; else load the driver, or uninstall CuPy",
    )


def check_shared_memory(size: int | None, needed: bool) -> Finding:
    """Check /dev/shm, where Ray keeps its objects; `size` is its bytes, None where there is none."""
    if size is None:
        return Finding(check="shared memory", status=Status.ABSENT, found="no /dev/shm on this system")
    found = f"/dev/shm has {size / (1 << 20):,.0f} MiB"
    if size >= MIN_SHARED_MEMORY:
        return Finding(check="shared memory", status=Status.OK, found=found)
    return Finding(
        check="shared memory",
        status=Status.WARNING if needed else Status.ABSENT,
        found=f"{found}: Ray then keeps its objects in files, which is many times slower",
        remedy="docker run --shm-size=4g; in Kubernetes mount an emptyDir of `medium: Memory` at /dev/shm; elsewhere "
        "`mount -o remount,size=4G /dev/shm`",
    )


def check_cpus(usable: int, quota: float | None) -> Finding:
    """Check the CPUs: those that this process may use, and the CPU time that its control group allows, in CPUs."""
    if quota is None or quota >= usable:
        return Finding(check="CPUs", status=Status.OK, found=f"{usable} usable")
    return Finding(
        check="CPUs",
        status=Status.WARNING,
        found=f"{usable} usable, but this container may use the time of {quota:g}: a session has one worker for each "
        "CPU that it sees",
        remedy=f"Session(workers={max(1, int(quota))}), or raygrad run --workers {max(1, int(quota))}",
    )


def check_blas(libraries: Sequence[tuple[str, int]], usable: int) -> Finding:
    """Check the threads of BLAS libraries, each (name, threads), in this process."""
    found = ", ".join(f"{name}: {threads} threads" for name, threads in libraries) or "no library found"
    most = max([threads for _, threads in libraries], default=1)
    if most > usable:
        return Finding(
            check="BLAS threads",
            status=Status.WARNING,
            found=f"{found}, more than the {usable} CPUs that this process may use",
            remedy=f"set OPENBLAS_NUM_THREADS, OMP_NUM_THREADS and MKL_NUM_THREADS to {usable} or less",
        )
    note = "" if most == 1 else "; a session uses 1 for each worker (blas_threads), and eager code all of them"
    return Finding(check="BLAS threads", status=Status.OK, found=found + note)


def check_limits(files: int, processes: int) -> Finding:
    """Check the limits of this process: open files, and processes and threads; -1 is no limit."""
    found = f"{_amount(files)} open files, {_amount(processes)} processes"
    remedies: list[str] = []
    if 0 <= files < MIN_OPEN_FILES:
        remedies.append("`ulimit -n 65536` (LimitNOFILE= of a systemd unit, nofile in limits.conf)")
    if 0 <= processes < MIN_PROCESSES:
        remedies.append("`ulimit -u 32768` (TasksMax= of a systemd unit, --pids-limit of Docker)")
    if not remedies:
        return Finding(check="limits", status=Status.OK, found=found)
    return Finding(check="limits", status=Status.WARNING, found=found, remedy=" and ".join(remedies))


def _amount(limit: int) -> str:
    return "unlimited" if limit < 0 else f"{limit:,}"


def check_temporary_folder(path: str, writable: bool, free: int) -> Finding:
    """Check the folder for temporary files, where spilled values, and Ray's sockets and logs go."""
    found = f"{path}, {free / (1 << 30):,.1f} GiB free"
    if not writable:
        return Finding(
            check="temporary folder",
            status=Status.ERROR,
            found=f"{found}; not writable",
            remedy="set TMPDIR to another",
        )
    if len(path) > LONGEST_TEMPORARY_FOLDER:
        return Finding(
            check="temporary folder",
            status=Status.ERROR,
            found=f"{found}; too long a path for Ray's sockets",
            remedy=f"set TMPDIR to a path of at most {LONGEST_TEMPORARY_FOLDER} characters",
        )
    if free < 1 << 30:
        return Finding(
            check="temporary folder", status=Status.WARNING, found=found, remedy="free some space: values spill there"
        )
    return Finding(check="temporary folder", status=Status.OK, found=found)


def check_port(port: int, taken_by: str) -> Finding:
    """Check the server's port; `taken_by` says who answers there: "" nobody, "raygrad" a server, else another."""
    check = f"port {port}"
    if not taken_by:
        return Finding(check=check, status=Status.OK, found="free for `raygrad serve`")
    if taken_by == "raygrad":
        return Finding(check=check, status=Status.OK, found="a raygrad server answers")
    return Finding(
        check=check,
        status=Status.WARNING,
        found=f"something else has it ({taken_by})",
        remedy="raygrad serve --port with another, or end what has it",
    )


def check_token(token: str | None) -> Finding:
    """Check the token for servers, which a session takes from RAYGRAD_TOKEN."""
    if token is None:
        return Finding(check="server token", status=Status.ABSENT, found="RAYGRAD_TOKEN is not set")
    if any(map(str.isspace, token)) or not token.isascii() or not token.isprintable() or not token:
        return Finding(
            check="server token",
            status=Status.ERROR,
            found="RAYGRAD_TOKEN has spaces, line ends or other characters that no header carries",
            remedy="export RAYGRAD_TOKEN=\"$(tr -d '[:space:]' < FILE)\"",
        )
    if len(token) < MIN_TOKEN:
        return Finding(
            check="server token",
            status=Status.WARNING,
            found=f"RAYGRAD_TOKEN has {len(token)} characters, and can be guessed",
            remedy="make one by `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
        )
    return Finding(check="server token", status=Status.OK, found=f"RAYGRAD_TOKEN has {len(token)} characters")


def check_ray_token(mode: str | None, present: bool, permissions: int | None) -> Finding:
    """Check Ray's token.

    Args:
        mode: RAY_AUTH_MODE.
        present: whether this process would find a token.
        permissions: the permission bits of the token's file, None if there is none.
    """
    check = "Ray token"
    if mode not in (None, "", "token", "disabled"):
        return Finding(
            check=check,
            status=Status.ERROR,
            found=f"RAY_AUTH_MODE={mode}, which Ray does not know",
            remedy="set it to token or disabled, or unset it",
        )
    if mode == "token" and not present:
        return Finding(
            check=check,
            status=Status.ERROR,
            found="RAY_AUTH_MODE=token, and there is no token",
            remedy="copy ~/.ray/auth_token from the head node, set RAY_AUTH_TOKEN to its text, or make one by "
            "`ray get-auth-token --generate`",
        )
    if permissions is not None and permissions & 0o077:
        return Finding(
            check=check,
            status=Status.WARNING,
            found=f"others on this machine can read the file of the token (mode {permissions:o})",
            remedy="chmod 600 ~/.ray/auth_token",
        )
    if not present:
        return Finding(
            check=check, status=Status.ABSENT, found="none; a Ray that asks for one admits no session from here"
        )
    return Finding(check=check, status=Status.OK, found=f"present; RAY_AUTH_MODE={mode or 'unset'}")


def check_address(address: str, problem: str) -> Finding:
    """Check an address at which sessions are to run; `problem` says why none can."""
    if problem:
        return Finding(
            check=f"address {address}", status=Status.ERROR, found=problem, remedy="see docs/troubleshooting.md"
        )
    return Finding(check=f"address {address}", status=Status.OK, found="a session can open there")
