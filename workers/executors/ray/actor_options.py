"""Checks of what users give Ray for each worker, by Ray's own rules, before a Ray is started or joined.

Ray checks the options of an actor where its class is made one, which needs no connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .actor import WorkerActor
from .connection import ray_module
from .placement_groups import check_type

STRATEGIES = ("DEFAULT", "SPREAD")
"""The scheduling strategies of Ray's that are names."""


def check_actor_options(
    options: Mapping[str, Any], runtime_env: Mapping[str, Any] | None, placement_group: Any
) -> None:
    """Check the options, the runtime environment and the placement group of a session's workers.

    Raises:
        BackendUnavailable: Ray is not installed.
        TypeError, ValueError: Ray would not take them.
    """
    _check(options, "worker_options")
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, str) and strategy not in STRATEGIES:
        raise ValueError(
            f"Session(worker_options=...): 'scheduling_strategy' is one of {', '.join(map(repr, STRATEGIES))}, or an "
            f"object of ray.util.scheduling_strategies, not {strategy!r}"
        )
    gpus = options.get("num_gpus") or 0
    if gpus > 1 and gpus != int(gpus):
        raise ValueError(
            f"Session(worker_options=...): Ray gives an actor a part of one GPU or several whole ones, not {gpus}"
        )
    if runtime_env is not None:
        _check({"runtime_env": dict(runtime_env)}, "runtime_env")
    if placement_group is not None:
        check_type(placement_group)
        if strategy is not None:
            raise ValueError(
                "Session(placement_group=...) says where workers go, and so does 'scheduling_strategy' of "
                "worker_options: give one of them"
            )


def _check(options: Mapping[str, Any], name: str) -> None:
    try:
        ray_module().remote(**options)(WorkerActor)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Session({name}=...): Ray does not take {dict(options)!r}: {error}") from None
