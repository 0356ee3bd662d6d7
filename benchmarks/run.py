"""raygrad beside torch, HIPS autograd, bare Ray, Dask and plain NumPy, in one run on one machine.

    make bench                          everything, a few minutes
    make bench ARGS="--quick"           shorter chains, smaller graphs, fewer rounds
    python benchmarks/run.py --only eager step --json figures.json

Figures depend on the machine and on what else it does; only ratios of one run say anything. Nothing is asserted.
"""

# ruff: noqa: E402 - BLAS reads the number of its threads when NumPy is imported

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

from measure import Grid, Result, as_data, machine, table

PARTS = (
    "ensemble",
    "first_use",
    "smallest",
    "eager",
    "planning",
    "planner",
    "revision",
    "planning_scale",
    "step",
    "chain",
    "remote",
    "service",
    "service_ensemble",
    "prediction",
    "memory",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="shorter chains, smaller graphs, fewer rounds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    out = sys.stdout
    about = machine()
    for what, value in about.items():
        out.write(f"{what:>14}: {value}\n")
    results: list[Result | Grid] = []
    start = time.perf_counter()
    for part in options.only:
        out.flush()
        measured: list[Result | Grid] = importlib.import_module(part).results(options.quick)
        results += measured
        out.write(table(measured) + "\n")
    out.write(f"\nmedian [fastest .. slowest]; {time.perf_counter() - start:.0f} s in all\n")
    if options.json is not None:
        options.json.write_text(json.dumps(as_data(results, about), indent=1) + "\n")


if __name__ == "__main__":
    main()
