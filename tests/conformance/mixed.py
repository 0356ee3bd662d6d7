"""The mode "mixed": a program in a session of workers with and without a simulated GPU, where factories make tensors.

Rules of this file: what PyTorch keeps on the host goes there and comes from there by the copies that a program for a
GPU has in these places, as in "standin". Each transfer that the simulated GPU sees is told apart by who asked for it: a
node that the plan lists, the program's own code where it runs, or anybody else, which is a failure.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .harness import Outcome, Watched, run_in
from .programs import Program
from .standin import through_copies

WORKERS, GPUS = 3, 2

LISTED, OWN, HIDDEN = "listed", "the program's own", "hidden"

_OF_A_NODE = ("placed.py", "move")
"""The function that a node runs which moves a value."""


_ASKED_FOR = frozenset(("saving.py",))
"""Files whose code moves what a program asked to be kept on the host (`save_on_cpu`)."""

CONTAINERS = "a tensor of a device is not pickled, as one in a container that is an argument would be"

SHOWN_ELSEWHERE = dict.fromkeys(
    """
    tensors_inside_a_list decorated_functions_cast_their_inputs a_rule_is_given_containers_and_their_in_dims
    tensors_in_containers_are_not_tracked
    """.split(),
    CONTAINERS,
)
"""Why a program that has a form for devices has none in a session, by its name."""


FAILING = frozenset(
    """
    error_in_a_tensor_hook error_in_backward_is_caught hook_returns_a_wrong_shape hook_returns_no_tensor
    failure_in_the_third_of_five_steps
    """.split()
)
"""Programs with runs that end early: they do not move all that their plans list."""


def watching() -> tuple[Any, Counter[str]]:
    """Return simulated GPUs, and who asked for the transfers that they have seen."""
    devices = importlib.import_module("raygrad.autograd.devices")
    seen: Counter[str] = Counter()

    class Watching(devices.StandIn):
        def count_to_device(self, size: int) -> None:
            seen[_asker()] += 1
            super().count_to_device(size)

        def count_to_host(self, size: int) -> None:
            seen[_asker()] += 1
            super().count_to_host(size)

        def copy_to(self, array: Any, index: int) -> Any:
            seen[_asker()] += 1
            return super().copy_to(array, index)

    return Watching(GPUS), seen


def _asker() -> str:
    """Return who asked for what happens now: the innermost that is known of those that are at work."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        folder, _, file = code.co_filename.rpartition("/")
        if (file, code.co_name) == _OF_A_NODE:
            return LISTED
        if "conformance" in folder or file in _ASKED_FOR:
            return OWN
        if (file, code.co_name) == ("host.py", "run"):
            return HIDDEN
        frame = frame.f_back
    return HIDDEN


def run_mixed(program: Program) -> tuple[Outcome, Counter[str], int]:
    """Run a program; return also who asked for transfers, and how many the plans of its runs list."""
    with _served() as seen:
        rg = importlib.import_module("raygrad")
        watched = Watched(workers=WORKERS, gpus=GPUS)
        try:
            with rg.device("cuda:0"), through_copies(rg):
                outcome = run_in(program, watched)
        except BaseException:
            watched.close(discard=True)
            raise
        watched.close()
        return outcome, seen, watched.listed()


@contextmanager
def _served() -> Generator[Counter[str]]:
    serving = importlib.import_module("raygrad.autograd.devices.serving")
    devices, seen = watching()
    before = serving.serve(devices)
    try:
        yield seen
    finally:
        serving.serve(before)
