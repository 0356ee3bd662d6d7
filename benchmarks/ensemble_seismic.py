"""`examples/seismic` as a program of `ensemble.py`: a step is one iteration of the inversion, a branch one shot.

The recorded program is the example's own code, with a constant step length. By hand, the client computes what the
example leaves to autograd and optimiser.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from ensemble_programs import Client, Grads, Outcome, Program, fastest

import raygrad as rg

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "seismic"
MODULES = ("acoustics", "experiment", "invert")


def modules() -> tuple[ModuleType, ...]:
    """Import the files of the example, as it does itself."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return tuple(importlib.import_module(name) for name in MODULES)


class Survey:
    """Data of the inversion, the same in each process that makes them."""

    def __init__(self, shots: int, steps: int) -> None:
        self.acoustics, self.experiment, self.invert = modules()
        self.ground = self.experiment.ground()
        self.shots = [replace(shot, wavelet=shot.wavelet[:steps].copy()) for shot in self.experiment.survey(shots)]
        self._observed: dict[int, np.ndarray] = {}

    def observed(self, index: int) -> np.ndarray:
        """Return the seismogram of a shot over the true ground."""
        if index not in self._observed:
            true = self.experiment.courant(self.ground.true)
            self._observed[index] = self.acoustics.solve(true, self.shots[index])[0]
        return self._observed[index]


class InversionByHand(Client):
    """The client's part of the inversion in NumPy: the chain rule to the velocity, the hook, the update."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.velocity = survey.ground.initial.copy()
        self.momentum: np.ndarray | None = None

    def begin(self) -> tuple[Grads, list[float]]:
        return [self.survey.experiment.courant(self.velocity)], [1.0] * len(self.survey.shots)

    def end(self, losses: Sequence[float], grads: Grads) -> Outcome:
        experiment, invert = self.survey.experiment, self.survey.invert
        scale = experiment.DT / experiment.CELL
        grad = grads[0] * (2.0 * (self.velocity * scale)) * scale
        smooth = experiment.blurred(grad, 5)
        direction = smooth / np.abs(smooth).max()
        self.momentum = direction if self.momentum is None else self.momentum * invert.MOMENTUM + direction
        velocity = self.velocity + self.momentum * -invert.STEP
        self.velocity = np.clip(velocity, experiment.SLOWEST, experiment.FASTEST)
        return Outcome(float(np.array(losses).sum()), [])


@dataclass
class Seismic(Program):
    """Full-waveform inversion: so many shots of so many time steps."""

    name: str
    branches: int
    steps: int
    _survey: Survey | None = field(default=None, init=False, repr=False)

    @property
    def survey(self) -> Survey:
        """The data, made once per process."""
        if self._survey is None:
            self._survey = Survey(self.branches, self.steps)
        return self._survey

    def __reduce__(self) -> Any:
        return Seismic, (self.name, self.branches, self.steps)

    def client(self) -> Client:
        return InversionByHand(self.survey)

    def forward(self, leaves: Grads, index: int, factor: float) -> tuple[float, Any]:
        shot = self.survey.shots[index]
        traces, kept = self.survey.acoustics.solve(leaves[0], shot)
        residual = traces - self.survey.observed(index)
        return 0.5 * float((residual * residual).sum()), (leaves[0], shot, kept, residual)

    def backward(self, context: Any) -> Grads:
        return [self.survey.acoustics.adjoint(*context)]

    def prepare(self) -> None:
        for index in range(self.branches):
            self.survey.observed(index)

    def one_run(self) -> float:
        (m,), _ = self.client().begin()
        return fastest(lambda: self.survey.acoustics.solve(m, self.survey.shots[0]), 2)

    def recorded(self, session: rg.Session, *, compiled: bool) -> Callable[[], Outcome]:
        survey, experiment, invert = self.survey, self.survey.experiment, self.survey.invert
        waves = invert.seismogram(survey.acoustics.Medium)
        true = experiment.courant(rg.tensor(survey.ground.true))
        observed = [waves.apply(true, shot) for shot in survey.shots]
        session.run(*observed).wait()
        velocity = rg.tensor(survey.ground.initial).requires_grad_()
        velocity.register_hook(invert.direction)
        optimizer = rg.optim.SGD([velocity], lr=invert.STEP, momentum=invert.MOMENTUM)

        def iteration():
            optimizer.zero_grad()
            loss = invert.misfit(velocity, waves, survey.shots, observed)
            loss.backward()
            optimizer.step()
            with rg.no_grad():
                velocity.clamp_(experiment.SLOWEST, experiment.FASTEST)
            return loss.detach()

        run = session.compile(iteration) if compiled else iteration
        return lambda: Outcome(run().item(), [])
