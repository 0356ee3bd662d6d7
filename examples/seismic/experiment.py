"""The velocity models and the survey of the inversion: two layers with a lens, shots at the surface and in two wells.

Only parameters and arrays; waves are computed in `acoustics`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from acoustics import Shot, ricker

CELL = 10.0
"""Metres."""
DT = 0.002
"""Seconds of a step."""
STEPS = 550
FRAME = 20
"""Cells of the absorbing frame, on all sides."""
ROWS, COLUMNS = 90, 130
"""Cells, the frame included: 0.5 km by 0.9 km without it."""
FREQUENCY = 8.0
"""Hz, the peak of the source's wavelet: waves of 220 to 290 m."""
SLOWEST, FASTEST = 1500.0, 2600.0
"""Bounds of the velocity during the inversion, in metres per second."""

INSIDE = (slice(FRAME, ROWS - FRAME), slice(FRAME, COLUMNS - FRAME))


@dataclass(frozen=True)
class Ground:
    """The true and the initial velocity model, in m/s, (ROWS, COLUMNS) each."""

    true: np.ndarray
    initial: np.ndarray


def ground() -> Ground:
    """Return 1,800 m/s above 2,300 m/s, with a lens of 2,100 m/s, 200 m across. The initial model lacks the lens, and
    its interface between the layers is smoothed."""
    z, x = np.mgrid[:ROWS, :COLUMNS]
    layers = np.where(z < 55, 1800.0, 2300.0)
    true = np.where((z - 40) ** 2 + (x - 65) ** 2 < 10**2, 2100.0, layers)
    return Ground(true, blurred(layers, 64))


def blurred(array: np.ndarray, times: int) -> np.ndarray:
    """Return an array smoothed along both axes: `times` passes of (1, 2, 1) / 4, of sqrt(times / 2) cells' width."""
    for _ in range(times):
        for axis in (0, 1):
            # the edge is repeated outside
            wider = np.concatenate([array.take([0], axis), array, array.take([-1], axis)], axis)
            low, here, high = (wider.take(range(first, first + array.shape[axis]), axis) for first in range(3))
            array = 0.25 * low + 0.5 * here + 0.25 * high
    return array


def survey(count: int) -> list[Shot]:
    """Return `count` shots, all but two along the surface, two at the feet of the wells. Receivers stand every 20 m
    along the surface and down both wells."""
    top, foot, left, right = FRAME + 1, ROWS - FRAME - 3, FRAME + 1, COLUMNS - FRAME - 2
    receivers = [(top, column) for column in range(left + 1, right, 2)]
    receivers += [(row, column) for column in (left, right) for row in range(top + 2, foot + 3, 2)]
    places = [(top, round(column)) for column in np.linspace(left + 2, right - 2, count - 2)]
    places += [(foot, left), (foot, right)]
    wavelet = ricker(STEPS, DT, FREQUENCY)
    return [Shot(place, tuple(receivers), wavelet, FRAME) for place in places]


def courant(velocity):
    """Return `(v dt / h)^2`, of an array or a tensor: what the solver takes."""
    return (velocity * (DT / CELL)) ** 2
