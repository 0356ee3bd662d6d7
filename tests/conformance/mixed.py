"""The modes "mixed" and "mixedray": a program in a session of workers with and without a simulated GPU, where factories
make tensors; in this process, and on Ray.

What PyTorch keeps on the host goes there and comes from there by the copies that a program for a
GPU has in these places, as in "standin". Each transfer that the simulated GPU sees is told apart by who asked for it: a
node that the plan lists, the program's own code where it runs, a value on its way to another process, or anybody else,
which is a failure. On Ray the GPU is in a worker's process: a Function that runs there brings home what it saw. In this
process its streams are late, so that a value that is not waited for is a wrong one.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from .harness import Outcome, Watched, run_in
from .programs import PROGRAMS, Program
from .standin import HOST_ONLY, through_copies

WORKERS, GPUS = 3, 2

LISTED, OWN, CROSSING, HIDDEN = "listed", "the program's own", "from process to process", "hidden"

_OF_A_NODE = ("device_steps.py", "move")
"""The function that a node runs which moves a value."""

_OF_PROCESSES = (("host.py", "pack"), ("packed_values.py", "unpack_all"))
"""Those by which an object that other processes read is made, and read."""


_ASKED_FOR = frozenset(("saved_tensor_hooks.py",))
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


_HERE = "mixed.py"


AWAY_FROM_RAY = {
    **dict.fromkeys(
        ("contiguous_is_the_tensor_itself", "repeated_tensors_are_copies"),
        "it asks for strides that only a kernel knows, for which the value is brought to the client",
    ),
    "inputs_that_cannot_be_checked": "what is expanded is dense once it has crossed",
}
"""Why a program that runs with GPUs in this process does not with those of another, by its name."""

READING = frozenset(
    """
    tensors_as_plain_attributes what_comes_back_from_the_saved attributes_set_in_backward_stay
    attributes_set_through_grad_fn what_was_saved_read_through_grad_fn packed_values_are_read_from_outside
    containers_that_are_one_output copies_of_leaves
    """.split()
)
"""Programs that read at the client what a context or another object holds on a device, or copy it there: it comes when
they ask."""

ON_RAY = [
    name
    for name, program in PROGRAMS.items()
    if not any(one.startswith("GC-") for one in program.ids)  # gradcheck reads each number at the client
    and not program.eager_only
    and name not in {**HOST_ONLY, **SHOWN_ELSEWHERE, **AWAY_FROM_RAY}
]
"""Names of programs that run with GPUs of Ray's workers."""


def check_transfers(program: Program, asked: Counter[str], listed: int, brought: int = 0) -> None:
    """Assert that a run made the transfers that its plans list, and no others; one that ends early may lack some. What
    went to other processes are those values that reports say were `brought` to the client."""
    assert not asked[HIDDEN], f"{asked[HIDDEN]} transfers that no plan lists"
    assert asked[CROSSING] == brought, f"{asked[CROSSING]} values went to other processes; reports list {brought}"
    assert not brought or program.name in READING
    if program.name in FAILING or program.errors is not None:
        assert asked[LISTED] <= listed
    else:
        assert asked[LISTED] == listed, f"{asked[LISTED]} of the {listed} transfers that plans list"


def watching(seed: int) -> tuple[Any, Counter[str]]:
    """Return simulated GPUs, whose streams are late by a seed, and who asked for the transfers that they have seen."""
    devices = importlib.import_module("raygrad.autograd.devices")
    staging = importlib.import_module("raygrad.autograd.devices.backends.staging")
    seen: Counter[str] = Counter()

    backend = devices.StandIn(GPUS, late=seed)
    backend.staging = staging.Staging(backend.xp, size=64, count=2, direct=0)
    watch(backend, seen)
    return backend, seen


def watch(backend: Any, seen: Counter[str]) -> None:
    """Count who asks for the transfers that a simulated GPU sees from now on."""

    def counted(method: Any) -> Any:
        def ask(*args: Any) -> Any:
            seen[_asker()] += 1
            return method(*args)

        return ask

    for name in ("count_to_device", "count_to_host", "copy_to"):
        setattr(backend, name, counted(getattr(backend, name)))


def _asker() -> str:
    """Return who asked for what happens now: the innermost that is known of those that are at work."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        folder, _, file = code.co_filename.rpartition("/")
        if (file, code.co_name) == _OF_A_NODE:
            return LISTED
        if ("conformance" in folder and file != _HERE) or file in _ASKED_FOR:
            return OWN
        if (file, code.co_name) in _OF_PROCESSES:
            return CROSSING
        if (file, code.co_name) == ("host.py", "run"):
            return HIDDEN
        frame = frame.f_back
    return HIDDEN


def run_mixed(program: Program) -> tuple[Outcome, Counter[str], int]:
    """Run a program; return also who asked for transfers, and how many the plans of its runs list."""
    with _served(crc32(program.name.encode())) as seen:
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
def _served(seed: int) -> Generator[Counter[str]]:
    serving = importlib.import_module("raygrad.autograd.devices.serving")
    devices, seen = watching(seed)
    before = serving.serve(devices)
    try:
        yield seen
    finally:
        serving.serve(before)


class MixedOnRay:
    """A session on Ray of a worker with a simulated GPU and one without, for one program after the other."""

    def __init__(self) -> None:
        self.rg = importlib.import_module("raygrad")
        self._devices = importlib.import_module("raygrad.autograd.devices").use_stand_in(1)
        self.watched: Watched | None = None
        self._told = told_by(self.rg)

    def run(self, program: Program) -> tuple[Outcome, Counter[str], int, int]:
        """Run a program; return also who asked for transfers, how many the plans of its runs list, and how many values
        the reports of its runs say were brought here."""
        if self.watched is None:
            # no copies in case of a loss: they are transfers that no plan lists
            self.watched = Watched(address="ray", workers=2, gpus=1, recovery_time=None)
            self.seen()
        try:
            with self.rg.device("cuda:0"), through_copies(self.rg):
                outcome = run_in(program, self.watched)
            self.watched.wait()
            listed, brought = self.watched.listed(), self.watched.brought()
            return outcome, self.seen(), listed, brought
        except BaseException:
            self.close(discard=True)
            raise

    def seen(self) -> Counter[str]:
        """Return who has asked for transfers since the last question."""
        assert self.watched is not None
        self.watched.forget()
        with self.rg.place(worker=0):
            self._told.apply(self.rg.ones(1)).tolist()
        ((_, counts),) = self.watched.log()
        return Counter(counts)

    def close(self, discard: bool = False) -> None:
        """Close the session; the next program gets another one."""
        watched, self.watched = self.watched, None
        if watched is not None:
            watched.close(discard)

    def end(self) -> None:
        """Close the session, and let what served GPUs here before serve them again."""
        self.close()
        self._devices.close()


def told_by(rg: Any) -> Any:
    """Return a Function that emits who has asked for transfers in its process since it was last applied there. The
    first time it lets programs make their copies in that process, as in this."""

    class Told(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            backend = importlib.import_module("raygrad.autograd.devices.serving").backend_for_kind("cuda").inner
            if "seen" not in vars(backend):
                backend.seen = Counter()
                watch(backend, backend.seen)
                backend.copies = through_copies(importlib.import_module("raygrad"))
                backend.copies.__enter__()
            rg.emit("transfers", dict(backend.seen))
            backend.seen.clear()
            return x * 1.0

    return Told
