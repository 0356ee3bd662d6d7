"""Summary of a comparison with OpInfo: `python -m tests.opinfo`, from the repository's root.

Prints the mean over entries of the share that agrees, per kind, and the entries that agree in less than 95 %.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path

from .summary import print_summary
from .units import MOST, Outcome, outcomes, units


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the units (an entry in a dtype), seeded")
    parser.add_argument("--most", type=int, default=MOST, help="samples of a unit")
    parser.add_argument("--only", default="", help="entries, separated by commas")
    parser.add_argument("--show", default="", help="print the disagreements of a kind, or of `all`")
    parser.add_argument("--save", type=Path, help="a file for the outcomes")
    options = parser.parse_args()
    made: list[Outcome] = []
    began = time.process_time()
    for number, unit in enumerate(units(options.share, only=options.only)):
        new = outcomes(unit, options.most)
        for o in new:
            if not o.agrees and options.show in (o.kind, "all"):
                print(f"{unit.name} {o.kind} {o.sample}: {o.message}", flush=True)
        made += new
        if number % 250 == 249:
            sys.stderr.write(
                f"{number + 1} units, {len(made)} comparisons, {time.process_time() - began:.0f} s of CPU\n"
            )
    if options.save:
        options.save.write_bytes(pickle.dumps(made))
    print_summary(made)


main()
