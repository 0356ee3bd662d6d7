"""Option checks: the arguments that users pass to sessions, validated where they are passed.

Each function returns an argument as the type that the rest of the client uses, or raises: TypeError for another type,
ValueError for an impossible value. Messages name what was given, what is taken, and an example. Nothing is started
here, so that nothing has to be stopped.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, cast

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor

MOST_WORKERS: Final = 100_000
"""Workers that a session may have, or be explained for: planning for more than there will ever be must not fill the
memory before anybody notices a typing error."""

MOST_THREADS: Final = 4_096
"""BLAS threads per worker: more than any machine has cores."""

LOCAL_OFFERS: Final = ("memory", "num_cpus", "num_gpus", "resources")
"""What `worker_options` may say in this process."""

LEAST_OBJECT_STORE: Final = 75 * 1024 * 1024
"""Bytes: with less, Ray does not start."""

RAY_OPTIONS: Final = ("object_store_memory", "placement_group", "runtime_env", "worker_options")
"""Options of a session on Ray."""

SERVICE_OPTIONS: Final = ("allow_pickle", "ca", "token")
"""Options of a session on a service."""


class SessionOptions(TypedDict, total=False):
    """The options of sessions that not every address has, for type checkers; `options_of` checks them."""

    allow_pickle: bool
    ca: Any
    object_store_memory: int | None
    placement_group: Any
    runtime_env: Mapping[str, Any] | None
    token: Any
    worker_options: Mapping[str, Any] | None


OURS: Final = frozenset(
    (
        "allow_out_of_order_execution",
        "concurrency_groups",
        "get_if_exists",
        "lifetime",
        "max_concurrency",
        "max_pending_calls",
        "max_restarts",
        "max_task_retries",
        "name",
        "namespace",
    )
)
"""Options of Ray's actors that are no user's: a session goes by what they are."""

_TRUTH: Any = np.bool_
_NUMBER: Any = np.integer | np.floating


def shown(value: Any) -> str:
    """Return how errors show what was given: its `repr`, cut, and its type."""
    try:
        text = repr(value)
    except BaseException as error:  # of the user's class, or of a number of too many digits: it must not take its place
        text = f"(its repr raised {type(error).__name__})"
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def whole(where: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`."""
    span = "a whole number"
    if least is not None:
        span += f" of at least {least}" if most is None else f" from {least} to {most:,}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{where} takes {span}, got {shown(value)}") from None
    if (least is not None and number < least) or (most is not None and number > most):
        raise ValueError(f"{where} takes {span}, got {shown(value)}")
    return number


def flag(where: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | _TRUTH):
        raise TypeError(f"{where} takes True or False, got {shown(value)}")
    return bool(value)


def seconds(where: str, value: Any, *, zero: bool = False) -> float | None:
    """Return a time, or None, which is no limit; 0 only if that means something there."""
    if value is None:
        return None
    expected = f"a number of seconds, {'0 or more' if zero else 'more than 0'}, or None"
    if isinstance(value, bool) or not isinstance(value, int | float | _NUMBER):
        raise TypeError(f"{where} takes {expected}, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (number > 0 or (zero and number == 0)):
        raise ValueError(f"{where} takes {expected}, got {shown(value)}")
    return number


def is_service(address: str) -> bool:
    """Tell whether an address is a service's."""
    return address.startswith(("ws://", "wss://"))


def checked_address(value: Any) -> str:
    """Return an address."""
    known = "'local' (this process), 'ray' (the running Ray, or a new one), 'ray:HOST:PORT' or 'wss://HOST:PORT'"
    if not isinstance(value, str):
        raise TypeError(f"Session(address) takes {known}, got {shown(value)}")
    if value in ("local", "ray"):
        return value
    if is_service(value):
        if not _ADDRESS.fullmatch(value.partition("://")[2].rstrip("/")):
            raise ValueError(
                f"{value!r} does not say where a service runs; expected 'wss://HOST:PORT' or 'ws://HOST:PORT'"
            )
        return value
    kind, _, rest = value.partition(":")
    if kind != "ray":
        raise ValueError(f"unknown address {value!r}; expected {known}")
    if rest.startswith("//"):
        raise ValueError(
            f"{value!r} is an address of Ray Client, which is not used: it is too slow. Give host and port of the "
            "head node of the Ray itself, as `ray start --head` prints them: 'ray:HOST:PORT', such as "
            "'ray:10.0.0.5:6379'"
        )
    if not _ADDRESS.fullmatch(rest) or not 0 < int(rest.rpartition(":")[2]) < 65_536:
        raise ValueError(
            f"{value!r} does not say where a Ray runs; expected {known}, such as 'ray:10.0.0.5:6379' or "
            "'ray:[::1]:6379'"
        )
    return value


_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%A-Za-z0-9]+\]):[0-9]{1,5}")
"""HOST:PORT: a name or an IPv4 address, or an IPv6 address in brackets."""


def path_of(where: str, value: Any) -> str:
    """Return the path of a file."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, bytes):
        raise TypeError(f"{where} takes the path of a file, got {shown(value)}")
    text = os.fspath(cast("str | os.PathLike[str]", value))
    if not text:
        raise ValueError(f"{where} takes the path of a file, got an empty one")
    return text


def named(where: str, name: Any) -> str:
    """Return a name."""
    if not isinstance(name, str):
        raise TypeError(f"{where} takes a name, a string, got {shown(name)}")
    if not name:
        raise ValueError(f"{where} takes a name, got an empty one")
    return name


def all_tensors(where: str, values: Sequence[Any]) -> None:
    """Check that all of what was given are tensors."""
    for value in values:
        if not isinstance(value, Tensor):
            hint = "; give each as an argument of its own" if isinstance(value, list | tuple) else ""
            raise TypeError(f"{where} takes tensors, got {shown(value)}{hint}")


def array_of(where: str, value: Any) -> np.ndarray[Any, Any]:
    """Return an array of numbers or truth values."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where} takes an array of numbers, got {shown(value)}: {error}") from None
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{where} takes an array of numbers, got {shown(value)}")
    return array


def amounts(where: str, value: Any, refuses: Callable[[str], str] = lambda name: "") -> dict[str, float]:
    """Return a mapping from names to amounts; `refuses` says what is wrong with a name, or ""."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} must map names to amounts, like {{'num_cpus': 2}}; got {shown(value)}")
    known: dict[str, float] = {}
    for name, amount in cast("Mapping[Any, Any]", value).items():
        if not isinstance(name, str) or isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"{where} must map names to amounts; got {name!r}: {amount!r}")
        if not math.isfinite(amount) or amount < 0:
            raise ValueError(f"{where}: the amount of '{name}' must be 0 or more, got {amount!r}")
        wrong = refuses(name) if name else "is no name of a resource"
        if wrong:
            raise ValueError(f"{where}: '{name}' {wrong}")
        known[name] = float(amount)
    return known


def options_of(place: str, options: Mapping[str, Any]) -> None:
    """Check the options of a session by their names, and what each must be; `place` is "local", "ray" or "service"."""
    allowed = {"local": ("worker_options",), "service": SERVICE_OPTIONS}.get(place, RAY_OPTIONS)
    unknown = sorted(options.keys() - {*allowed})
    if unknown:
        raise ValueError(
            f"unknown options for a {place} session: {', '.join(unknown)}; beside the named arguments there are "
            f"{', '.join(allowed)}"
        )
    if place == "service":
        if "allow_pickle" in options:
            flag("Session(allow_pickle=...)", options["allow_pickle"])
        for name in ("token", "ca"):
            if options.get(name) is not None:
                named(f"Session({name}=...)", options[name])
        return
    for name in ("worker_options", "runtime_env"):
        given = options.get(name)
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"Session({name}=...) takes a dict that holds for each worker, got {shown(given)}")
    if options.get("object_store_memory") is not None:
        whole("Session(object_store_memory=...)", options["object_store_memory"], LEAST_OBJECT_STORE)
    offers = cast("Mapping[Any, Any]", options.get("worker_options") or {})
    strange = [name for name in offers if not isinstance(name, str) or (place == "local" and name not in LOCAL_OFFERS)]
    if strange:
        raise ValueError(
            f"worker_options of a {place} session say what workers offer; unknown: {strange[0]!r}; known: "
            f"{', '.join(LOCAL_OFFERS)}"
        )
    if place == "ray" and (ours := sorted(OURS.intersection(offers))):
        raise ValueError(
            f"Session(worker_options=...): '{ours[0]}' is set by the session, which names its workers, ends with them, "
            "and sees to lost ones and to the order of calls itself; leave it out"
        )
    own = {name: offers[name] for name in LOCAL_OFFERS[:3] if offers.get(name) is not None}
    amounts("Session(worker_options=...)", own)
    if offers.get("resources") is not None:
        amounts("Session(worker_options={'resources': ...})", offers["resources"])
