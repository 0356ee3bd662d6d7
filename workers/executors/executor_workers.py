"""Workers of an executor in the session's process: what a session opens on an address other than a service's.

`start_driver` puts planner, state machine and driver together; a service does so, too, for each of its sessions.
"""

from __future__ import annotations

from typing import Any, Final

from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import Planner

from ..code.shipping import Shipment
from .base import Executor
from .driver import Driver
from .run_state import Listener
from .session_driver import DriverSettings, SessionWorkers


def start_driver(executor: Executor, settings: DriverSettings, listener: Listener) -> Driver:
    """Return the driver of a session on an executor, which it closes."""
    planner = Planner(settings.cluster, seed=settings.seed, measured=settings.measured)
    machine = Machine(recovery_time=settings.recovery_time, retries=settings.retries)
    driver = Driver(executor, planner, machine, listener, limits=settings.limits, scale=settings.scale)
    if settings.admission is not None:
        driver.workers.admit = settings.admission(planner)
    return driver


class ExecutorWorkers(SessionWorkers):
    """The workers of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor: Final = executor
        self.host = executor.host
        self.reports_unasked = executor.reports_unasked

    @property
    def cluster(self) -> Cluster:
        return self._executor.cluster

    def links(self) -> dict[str, Any]:
        return self._executor.links()

    def learn(self, fingerprint: str, shipment: Shipment) -> None:
        self._executor.learn(fingerprint, shipment)

    def name_of(self, fn: str) -> str:
        return self._executor.name_of(fn)

    def start(self, settings: DriverSettings, listener: Listener) -> Driver:
        return start_driver(self._executor, settings, listener)

    def close(self) -> None:
        self._executor.close()
