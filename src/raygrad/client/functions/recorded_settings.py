"""Recorded settings: what a program has set for its user code, as nodes of the graph have it (DR-10).

Recorders of Functions and hooks ask for it when they record a node. What the settings are, autograd's `settings`
defines; to them come the filters of `warnings`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from raygrad.autograd.core.dtypes import DefaultDtype, float32
from raygrad.autograd.core.modes import Modes
from raygrad.autograd.core.session_threads import SEGMENTS
from raygrad.autograd.dispatch.settings import ERRORS, LIVE, OPTIONS, capture_settings, errors_now, options_now
from raygrad.errors import NotShippable
from raygrad.proto.ir.nodes import Settings
from raygrad.workers.code.shipping import Shipped
from raygrad.workers.code.warning_filters import Filters, make_errors, number_of, pack_filters


class SettingsRecorder:
    """The settings under which one session records user code."""

    __slots__ = ("_at_start", "_entry", "_latest", "_remote", "_ship")

    def __init__(self, ship: Callable[[Any], Shipped], *, remote: bool) -> None:
        """`ship` ships user code; `remote` workers have processes of their own."""
        self._ship = ship
        self._remote = remote
        self._at_start: Filters = tuple(warnings.filters)
        self._latest: Any = None
        """The filters that were looked at last."""
        self._entry: Settings = ()
        """What nodes say of these."""

    def now(self, here: Modes) -> Settings:
        """Return the settings of user code that is recorded now; () if all are as a program finds them at its start,
        and warnings filtered as when the session began. `here` are the modes of this thread."""
        if (
            here.only_recorder is not None  # and so neither anomaly detection nor inference mode is on
            and here.casting is None
            and here.device is None
            and here.engine_threads
            and DefaultDtype.dtype is float32
            and not SEGMENTS
            and errors_now() is ERRORS
            and options_now() is OPTIONS
            and warnings.filters == self._latest
        ):
            return self._entry
        found = capture_settings()
        if warnings.filters != self._latest:
            self._look_at_filters()
        if not found:
            return self._entry
        return (*found, *self._entry) if LIVE.isdisjoint([entry[0] for entry in found]) else self._shipped(found)

    def _look_at_filters(self) -> None:
        self._latest = filters = list(warnings.filters)
        at_start = tuple(filters) == self._at_start
        if at_start and not (self._remote and make_errors(filters)):
            self._entry = ()
        else:
            packed = pack_filters(filters) if self._remote else b""
            self._entry = (("warnings", number_of(filters), packed),)

    def _shipped(self, settings: Settings) -> Settings:
        """Return settings with the names of user code in the place of functions."""
        named = [(*entry[:-1], self._name(entry)) if entry[0] in LIVE else entry for entry in settings]
        return (*named, *self._entry)

    def _name(self, entry: tuple[Any, ...]) -> str:
        shipped = self._ship(entry[-1])
        if shipped.captured:
            raise NotShippable(
                f"the {entry[0]} that is set for NumPy ({shipped.shipment.name}) captures tensors or arrays, which "
                "settings of user code cannot: set it inside forward, backward or the hook"
            )
        return "@" + shipped.fingerprint
