"""Figures of an inversion: velocity models, misfit, a profile, a seismogram, and the plan of an iteration.

The only values computed here are the seismograms of one shot.
"""

from __future__ import annotations

from pathlib import Path

import acoustics
import matplotlib as mpl
import numpy as np
from experiment import CELL, DT, INSIDE, Ground, courant

mpl.use("agg")  # files only: no window, no display

from matplotlib.figure import Figure


def save(folder: Path, world: Ground, inverted: np.ndarray, shots, history: list[float], plan) -> list[Path]:
    """Write `inversion.png` and, where there is a plan, `plan.html` into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(12, 7), layout="constrained")
    grid = figure.subplots(2, 3)
    models = {"true model": world.true, "initial model": world.initial, "inverted model": inverted}
    for axes, (title, velocity) in zip(grid[0], models.items(), strict=True):
        _velocity(axes, title, velocity, shots)
    figure.colorbar(grid[0, -1].images[0], ax=grid[0], label="velocity, m/s", shrink=0.8)
    _misfit(grid[1, 0], history)
    _profile(grid[1, 1], models)
    _seismogram(grid[1, 2], world.true, shots[0])
    written = [folder / "inversion.png"]
    figure.savefig(written[0], dpi=110)
    if plan is not None:
        written.append(plan.save(folder / "plan.html"))
    return written


def _velocity(axes, title: str, velocity: np.ndarray, shots) -> None:
    rows, columns = velocity[INSIDE].shape
    extent = (0, columns * CELL / 1e3, rows * CELL / 1e3, 0)
    axes.imshow(velocity[INSIDE], extent=extent, vmin=1700, vmax=2400, cmap="viridis")
    axes.set(title=title, xlabel="distance, km", ylabel="depth, km")

    def at(cells):
        place = np.array([(column - INSIDE[1].start, row - INSIDE[0].start) for row, column in cells])
        return place.T * CELL / 1e3

    axes.plot(*at(shots[0].receivers), "v", color="white", markersize=2)
    axes.plot(*at([shot.source for shot in shots]), "*", color="red", markersize=8)


def _misfit(axes, history: list[float]) -> None:
    axes.semilogy(range(len(history)), history, ".-")
    axes.set(title="misfit", xlabel="iteration")
    axes.grid(alpha=0.3)


def _profile(axes, models: dict[str, np.ndarray]) -> None:
    for title, velocity in models.items():
        column = velocity[INSIDE][:, velocity[INSIDE].shape[1] // 2]
        axes.plot(column, np.arange(len(column)) * CELL / 1e3, label=title)
    axes.invert_yaxis()
    axes.set(title="vertical profile at the centre", xlabel="velocity, m/s", ylabel="depth, km")
    axes.legend()
    axes.grid(alpha=0.3)


def _seismogram(axes, velocity: np.ndarray, shot) -> None:
    traces, _ = acoustics.solve(courant(velocity), shot)
    limit = np.abs(traces).max() / 5
    extent = (0, traces.shape[1], traces.shape[0] * DT, 0)
    axes.imshow(traces, extent=extent, aspect="auto", vmin=-limit, vmax=limit, cmap="gray")
    axes.set(title="seismogram of the first shot", xlabel="receiver", ylabel="time, s")
