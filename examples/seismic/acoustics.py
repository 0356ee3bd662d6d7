"""Acoustic waves in two dimensions by finite differences: the solver, its linearisation and its adjoint.

Plain functions of arrays of NumPy or CuPy, without raygrad, files or figures. `compiled` has the same time steps as
machine code.

The pressure u obeys `u_tt = v^2 (u_zz + u_xx + source)`. With `m = (v dt / h)^2`, constant along each cell, second
order in time and fourth in space, one step reads

    u[n+1] = g (2 u[n] - g u[n-1] + m (L u[n] + s[n]))

L is the Laplacian times h^2, with u = 0 outside, so that L is symmetric. g is 1 inside and falls off in a frame around
the model, which swallows waves (Cerjan and others, "A nonreflecting boundary condition for discrete acoustic and
elastic wave equations", Geophysics 50, 1985). The step is stable while max(m) <= 3/8.

Forward keeps u at every `every`-th step; the adjoint walks back through the steps and computes the fields between two
of those again. So a shot of nt steps keeps 2 nt / every fields instead of nt, and costs one more solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
"""An array of NumPy or CuPy."""

HALO = 2
"""Cells of zeros around a field: how far the Laplacian looks."""
SIDE, FAR, HERE = 4.0 / 3.0, -1.0 / 12.0, -5.0
"""Weights of neighbours one and two cells off, and of the cell itself, both directions together."""
STABLE = 0.375
"""The largest m for which steps do not grow: 4 / (the Laplacian's largest eigenvalue, 2 * 16 / 3)."""


@dataclass(frozen=True)
class Shot:
    """One shot: position and wavelet of the source, positions of the receivers.

    Attributes:
        source: (row, column) of the cell.
        receivers: ((row, column), ...) of the cells in which the pressure is recorded, no two alike.
        wavelet: (nt,) the source term of each step.
        frame: width of the absorbing frame, in cells.
        every: steps between two saved wavefields.
    """

    source: tuple[int, int]
    receivers: tuple[tuple[int, int], ...]
    wavelet: np.ndarray
    frame: int = 20
    every: int = 25


def ricker(steps: int, dt: float, frequency: float) -> np.ndarray:
    """Return (steps,) samples, `dt` seconds apart, of a Ricker wavelet of a peak frequency in Hz."""
    a = (np.pi * frequency * (np.arange(steps) * dt - 1.2 / frequency)) ** 2
    return (1 - 2 * a) * np.exp(-a)


@lru_cache(maxsize=8)
def absorbing(shape: tuple[int, int], frame: int) -> np.ndarray:
    """Return (nz, nx) the factors by which each step damps a field in the absorbing frame."""
    axes = []
    for extent in shape:
        depth = np.maximum(0, frame - np.minimum(np.arange(extent), np.arange(extent)[::-1]))
        axes.append(np.exp(-((0.25 * depth / frame) ** 2)))
    return np.minimum(axes[0][:, None], axes[1])


class Medium:
    """A model with the scratch arrays of its time steps, made once per solve, so that a step allocates nothing."""

    def __init__(self, m: Array, shot: Shot) -> None:
        nz, nx = m.shape
        if not float(m.max()) <= STABLE:
            raise ValueError(f"(v dt / h)^2 is {float(m.max()):.3f}; steps grow without end above {STABLE}: shorten dt")
        self.m, self.shot = m, shot
        self.g = np.asarray(absorbing((nz, nx), shot.frame), dtype=m.dtype, like=m)  # of the same library as m
        self.mg, self.g2, self.gg = m * self.g, 2 * self.g, self.g * self.g
        self.rows = [row for row, _ in shot.receivers]
        self.columns = [column for _, column in shot.receivers]
        self._sum, self._lap = np.empty_like(m), np.empty_like(m)
        self._weighted = self.field()

    def field(self) -> Array:
        """Return a field of zeros, with its halo: (nz + 4, nx + 4)."""
        return np.pad(np.zeros_like(self.m), HALO)

    def laplacian(self, u: Array, out: Array) -> Array:
        """Write L u into `out` (without halo)."""
        inner, total = slice(HALO, -HALO), self._sum
        np.multiply(u[inner, inner], HERE, out=out)
        for weight, off in ((SIDE, 1), (FAR, 2)):
            low, high = slice(HALO - off, -HALO - off), slice(HALO + off, u.shape[0] - HALO + off)
            left, right = slice(HALO - off, -HALO - off), slice(HALO + off, u.shape[1] - HALO + off)
            np.add(u[low, inner], u[high, inner], out=total)
            total += u[inner, left]
            total += u[inner, right]
            total *= weight
            out += total
        return out

    def step(self, before: Array, now: Array, force: Array) -> None:
        """Overwrite `before` with the field after `now`, given the forcing `L u + s`."""
        u = now[HALO:-HALO, HALO:-HALO]
        new = before[HALO:-HALO, HALO:-HALO]
        new *= self.gg
        np.subtract(np.multiply(self.g2, u, out=self._sum), new, out=new)
        new += np.multiply(self.mg, force, out=self._sum)

    def back(self, later: Array, now: Array, force: Array, image: Array) -> None:
        """Apply the transpose of a step to cotangents.

        Args:
            later: the cotangent of the field after the step; overwritten with its part of the field before `now`.
            now: the cotangent of the current field, with the contributions of later steps; completed in place.
            force: the forcing of the step.
            image: the gradient with respect to the model, to which the contribution of the step is added.
        """
        a, b = later[HALO:-HALO, HALO:-HALO], now[HALO:-HALO, HALO:-HALO]
        a *= self.g
        image += a * force
        np.multiply(self.m, a, out=self._weighted[HALO:-HALO, HALO:-HALO])
        b += 2 * a
        b += self.laplacian(self._weighted, self._lap)
        a *= -self.g

    def recorded(self, u: Array) -> Array:
        """Return (receivers,) the field at the receivers."""
        return u[HALO:-HALO, HALO:-HALO][self.rows, self.columns]


def solve(m: Array, shot: Shot, medium_of: type[Medium] = Medium) -> tuple[Array, list[tuple[Array, Array]]]:
    """Return the (nt, receivers) seismogram of a shot over the model `m`, and the wavefields saved for the adjoint.

    Raises:
        ValueError: the step is unstable.
    """
    medium = medium_of(m, shot)
    before, now, force = medium.field(), medium.field(), np.empty_like(m)
    traces = np.empty_like(m, shape=(len(shot.wavelet), len(shot.receivers)))
    kept = []
    for n, sample in enumerate(shot.wavelet):
        if n % shot.every == 0:
            kept.append((before.copy(), now.copy()))
        medium.laplacian(now, force)
        force[shot.source] += sample
        medium.step(before, now, force)
        before, now = now, before
        traces[n] = medium.recorded(now)
    return traces, kept


def adjoint(
    m: Array, shot: Shot, kept: list[tuple[Array, Array]], residual: Array, medium_of: type[Medium] = Medium
) -> Array:
    """Return (nz, nx) the gradient with respect to `m` of `sum(residual * traces)`: the transpose of `born`, exactly,
    not the discretisation of an adjoint equation.

    Args:
        m: the model, (nz, nx).
        shot: the shot.
        kept: the wavefields that `solve` saved.
        residual: (nt, receivers), the cotangent of the seismogram.
        medium_of: the class that implements the time steps.
    """
    medium = medium_of(m, shot)
    inner = (slice(HALO, -HALO), slice(HALO, -HALO))
    later, now = medium.field(), medium.field()  # cotangents of u[n+1] and, partly summed, of u[n]
    image = np.zeros_like(m)
    for block in range(len(kept) - 1, -1, -1):
        first = block * shot.every
        forces = _forces(medium, kept[block], first)
        for n in range(first + len(forces) - 1, first - 1, -1):
            later[inner][medium.rows, medium.columns] += residual[n]  # receivers are in different cells
            medium.back(later, now, forces[n - first], image)
            later, now = now, later
    return image


def _forces(medium: Medium, start: tuple[Array, Array], first: int) -> list[Array]:
    """Return the forcings of the steps from `first` to the next saved wavefield, by running them again."""
    before, now = start[0].copy(), start[1].copy()
    shot = medium.shot
    forces = []
    for sample in shot.wavelet[first : first + shot.every]:
        force = medium.laplacian(now, np.empty_like(medium.m))
        force[shot.source] += sample
        medium.step(before, now, force)
        before, now = now, before
        forces.append(force)
    return forces


def born(m: Array, shot: Shot, change: Array) -> Array:
    """Return the (nt, receivers) first-order change of the seismogram for a change of the model (Born's approximation,
    single scattering)."""
    medium = Medium(m, shot)
    before, now, force = medium.field(), medium.field(), np.empty_like(m)
    scattered_before, scattered, driven = medium.field(), medium.field(), np.empty_like(m)
    traces = np.empty_like(m, shape=(len(shot.wavelet), len(shot.receivers)))
    scale = change / m
    for n, sample in enumerate(shot.wavelet):
        medium.laplacian(now, force)
        force[shot.source] += sample
        medium.laplacian(scattered, driven)
        driven += scale * force
        medium.step(before, now, force)
        medium.step(scattered_before, scattered, driven)
        before, now = now, before
        scattered_before, scattered = scattered, scattered_before
        traces[n] = medium.recorded(scattered)
    return traces
