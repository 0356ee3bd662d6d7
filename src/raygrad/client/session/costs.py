"""Session costs: the measured costs of a session, as its user sees, saves and loads them.

The run listener reports runs that have ended well; the scheduler's `measured_costs` learns from them before the next
submission is planned. A file of costs is JSON: numbers and names, and no code.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from raygrad.errors import CostsError
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import MeasuredCosts

from ..options import path_of

if TYPE_CHECKING:
    from raygrad.proto.ir.program import Record
    from raygrad.workers.executors.session_driver import SessionWorkers

    from ..submission.run import Run

MAX_BYTES = 1 << 26
"""Of a file of costs: some hundred thousand kinds of node."""


class CostRow(NamedTuple):
    """What was measured of one kind of node."""

    kind: str
    """The node's role, function, transforms and device, then the powers of two above the bytes that it reads and
    makes: "op matmul vjp cpu 13,13>13"."""
    seconds: float
    """Of one node."""
    factor: float
    """Measured over the prior, for the sizes at hand."""
    spread: float
    """By how much of `factor` measurements are off it in the mean."""
    runs: int
    """Runs that it was measured in."""
    first_run: bool = False
    """Only the first run of its code was measured, with imports and compilation; a later one replaces it."""
    values: str = ""
    """The non-tensor arguments, where times differ between them."""


class SessionCosts:
    """What a session knows of costs: `session.costs`. Grows with its runs: every one of a new plan, later some."""

    def __init__(self, measured: MeasuredCosts) -> None:
        self._measured = measured
        self.lock = threading.RLock()
        """Held while something is learned, and while a submission is planned."""
        self._arrived: deque[tuple[Run, Record]] = deque()
        """Records of runs under way to learn from."""
        self._finished: deque[tuple[Run, SessionWorkers]] = deque()
        """Runs to learn from: whoever waits finds that they have finished, while another thread may be planning."""

    @property
    def model(self) -> Costs:
        """The cost model that the next new plan is made with."""
        return self.learn().costs()

    @property
    def runs(self) -> int:
        """How many runs were measured."""
        return self.learn().runs

    def rows(self) -> list[CostRow]:
        """Return what was measured of nodes, the kinds that take longest first."""
        measured = self.learn()
        estimates = [(kind, "", one) for kind, one in measured.kinds.items()]
        estimates += measured.values.rows()
        rows = [
            CostRow(kind, one.seconds, one.factor, one.spread, one.count, one.first, values)
            for kind, values, one in estimates
        ]
        return sorted(rows, key=lambda row: (-row.seconds, row.kind, row.values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that was measured to a file, for `rg.Session(..., costs=path)`."""
        whole = Path(path_of("session.costs.save(path)", path))
        part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
        part.write_text(json.dumps(self.learn().as_data(), indent=1) + "\n", encoding="utf-8")
        part.replace(whole)  # nobody reads half a file

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over what `save` wrote. Kinds of node in the file replace those measured here.

        Raises:
            OSError: the file cannot be read.
            CostsError: it holds no costs, or those of another version.
        """
        whole = Path(path_of("costs.load(path), as Session(costs=path),", path))
        if whole.stat().st_size > MAX_BYTES:
            raise CostsError(f"'{whole}' has more than {MAX_BYTES:,} bytes; a file of costs has not")
        try:
            data = json.loads(whole.read_text(encoding="utf-8"))
            self._measured.use_data(data)
        except (ValueError, RecursionError) as error:  # JSON errors are ValueErrors, and so is CostsError
            raise CostsError(f"'{whole}' is no file of costs: {error}") from error

    # ---- what the session says ---------------------------------------------------------------------------------------

    def arrived(self, run: Run, record: Record) -> None:
        """A record of a run that goes on has arrived."""
        if record.timing.nodes:
            self._arrived.append((run, record))

    def finished(self, run: Run, workers: SessionWorkers) -> None:
        """A run has ended well."""
        self._finished.append((run, workers))

    @property
    def latest(self) -> Costs:
        """The cost model of the latest plan: `Planner.latest_costs`, since the planner goes by `measured`. Each
        submission asks for it, and reads it here because a call of the planner would take longer."""
        return self._measured.latest

    def learn(self) -> MeasuredCosts:
        """Learn from what has arrived, and from the runs that have finished: before a submission is planned, or
        somebody asks."""
        with self.lock:
            while self._arrived:
                run, record = self._arrived.popleft()
                run.teach_early(self._measured, record)
            while self._finished:
                run, workers = self._finished.popleft()
                run.teach(self._measured, workers)
            return self._measured
