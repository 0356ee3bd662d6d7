"""Full-waveform inversion: seismic velocities from seismograms, on one machine or on a Ray cluster.

    make seismic                                    in this process
    make seismic ON=ray                             on a local Ray, in two worker processes: the same misfits
    python examples/seismic/invert.py --on ray --workers 8 --shots 24
    python examples/seismic/invert.py --address ray:HOST:PORT --workers 32
    python examples/seismic/invert.py --compiled    with numba: the same misfits sooner
    python examples/seismic/invert.py --device cuda --workers 1

The wave solver is plain NumPy (`acoustics.py`), its adjoint is written by hand; `seismogram` makes a node of the two.
The steps before it (from velocity to the Courant number) and after it (the misfit) are ordinary autograd code. Shots
are branches of one graph: forward and backward of each run on some worker, and the wavefields saved by a forward stay
on the worker that computed them. This process reads one number per iteration.
"""

# ruff: noqa: E402 - BLAS reads the number of its threads when NumPy is imported

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import time
from pathlib import Path

import acoustics
import numpy as np
from experiment import FASTEST, INSIDE, SLOWEST, Ground, blurred, courant, ground, survey
from rich.console import Console

import raygrad as rg

STEP, DECAY, MOMENTUM = 12.0, 0.97, 0.8
"""The largest update of the first iteration in m/s, the decay of the step per iteration, and the momentum."""


def seismogram(medium):
    """Return the Function that solves the wave equation with a medium: `acoustics.Medium`, or that of `compiled`."""

    class Seismogram(rg.autograd.Function):
        """The seismogram of one shot: (nz, nx) -> (nt, receivers)."""

        @staticmethod
        def forward(ctx, m, shot):
            traces, ctx.kept = acoustics.solve(m.read(), shot, medium)  # an array on the device of the model
            ctx.save_for_backward(m)
            ctx.shot = shot
            return rg.as_tensor(traces)

        @staticmethod
        def backward(ctx, grad):
            (m,) = ctx.saved_tensors
            return rg.as_tensor(acoustics.adjoint(m.read(), ctx.shot, ctx.kept, grad.read(), medium)), None

        @staticmethod
        def infer(m, shot):
            """Return shape and dtype of the seismogram, so that recording does not wait for a first run."""
            return (len(shot.wavelet), len(shot.receivers)), m.dtype

    return Seismogram


def direction(grad):
    """Hook of the velocity: smooth the gradient and scale it to a maximum of 1. Runs on a worker."""
    smooth = blurred(grad.read(), 5)
    return rg.as_tensor(smooth / np.abs(smooth).max())


def misfit(velocity, waves, shots, observed):
    """Return half the sum of the squared residuals between predicted and observed seismograms."""
    m = courant(velocity)
    residuals = [waves.apply(m, shot) - traces for shot, traces in zip(shots, observed, strict=True)]
    return rg.stack([0.5 * (residual * residual).sum() for residual in residuals]).sum()


def invert(session: rg.Session, world: Ground, waves, shots, iterations: int, device: str, console: Console):
    """Return the inverted velocity, the misfit before each iteration, and the plan of an iteration."""
    true = courant(rg.tensor(world.true).to(device))
    observed = [waves.apply(true, shot) for shot in shots]  # stays on the workers: it is not read here
    velocity = rg.tensor(world.initial).to(device).requires_grad_()
    velocity.register_hook(direction)
    optimizer = rg.optim.SGD([velocity], lr=STEP, momentum=MOMENTUM)
    history: list[float] = []
    plan = None
    for number in range(iterations):
        optimizer.zero_grad()
        loss = misfit(velocity, waves, shots, observed)
        if number == 1:  # the first iteration measured the costs
            with session.deferred():
                loss.backward()
            plan = session.explain()
        else:
            loss.backward()  # forward and backward of all shots are sent off as one graph
        optimizer.step()
        with rg.no_grad():
            velocity.clamp_(SLOWEST, FASTEST)
        history.append(loss.item())  # waits: the only value that is fetched
        console.print(f"iteration {number + 1:2}   misfit {history[-1]:.6f}   {history[-1].hex()}")
        for group in optimizer.param_groups:
            group["lr"] *= DECAY
    return velocity.detach().cpu().numpy(), history, plan


def main() -> None:
    parser = argparse.ArgumentParser(description="Invert seismograms for seismic velocities.")
    parser.add_argument("--on", choices=["local", "ray"], default="local", help="where to run")
    parser.add_argument("--address", help="an address instead, such as ray:HOST:PORT")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the waves are computed")
    parser.add_argument("--compiled", action="store_true", help="with steps compiled by numba: the same bits, sooner")
    parser.add_argument("--shots", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--out", type=Path, help="a folder for pictures of the velocity, the misfit and the plan")
    options = parser.parse_args()
    console = Console(highlight=False)
    world, shots = ground(), survey(options.shots)
    medium = acoustics.Medium
    if options.compiled:
        from compiled import Medium as medium
    start = time.perf_counter()
    with rg.Session(options.address or options.on, workers=options.workers) as session:
        inverted, history, plan = invert(
            session, world, seismogram(medium), shots, options.iterations, options.device, console
        )
    seconds = time.perf_counter() - start

    def rms_error(velocity):
        return float(np.sqrt(np.mean((velocity - world.true)[INSIDE] ** 2)))

    lens = float(inverted[36:45, 61:70].mean())
    console.print(f"\n{len(shots)} shots, {options.workers} workers, {seconds:.1f} s")
    console.print(f"misfit           {history[0]:.4f} -> {history[-1]:.4f}")
    console.print(f"error, rms       {rms_error(world.initial):.0f} -> {rms_error(inverted):.0f} m/s")
    console.print(f"lens             {world.initial[36:45, 61:70].mean():.0f} -> {lens:.0f} m/s, in truth 2100 m/s")
    if options.out:
        from pictures import save

        for path in save(options.out, world, inverted, shots, history, plan):
            console.print(f"written          {path}")


if __name__ == "__main__":
    main()
