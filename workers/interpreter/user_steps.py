"""Steps of user code as they run on a worker: what surrounds a Function's forward or backward, or a hook.

The code can be interrupted while it runs, and only then. It runs under the settings of the moment at which it was
recorded (DR-10, LG-14), again if it finds a device full, and where workers may be lost fingerprints are taken of what
it returns (H2). All that is one call around the code, since a step of small arrays takes little longer than that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeAlias

from raygrad.autograd.core.modes import state
from raygrad.autograd.dispatch.settings import (
    DEFAULT_DTYPE,
    ERRORS,
    OPTIONS,
    options_now,
    reset_errors,
    restored_settings,
    set_errors,
    set_options,
)
from raygrad.proto.ir.nodes import FunctionCall, FunctionVjp, HookCall, Settings, code_in
from raygrad.proto.ir.program import Program, Step

from ..values.fingerprints import fingerprint
from ..values.slots import Execute, Slots
from .compilation import Compilation
from .device_retry import found_device_full, rerun_on_full_device
from .functions import Host

UserCode: TypeAlias = FunctionCall | FunctionVjp | HookCall


def user_step(execute: Execute, node: UserCode, step: Step, compilation: Compilation) -> Execute:
    """Return a step whose user code `execute` runs, as a host runs it."""
    host = compilation.host
    gate = host.gate
    rerun = rerun_on_full_device(execute, step, host)
    if node.settings:
        execute, rerun = _as_recorded(execute, node.settings, host), _as_recorded(rerun, node.settings, host)

    def run(slots: Slots) -> None:
        token = set_errors(ERRORS)
        try:
            gate.open = True  # no lock: whoever requests sets `requested` before reading this
            full: MemoryError | None = None
            try:
                execute(slots)
            except MemoryError as error:
                if not found_device_full(error):
                    raise
                full = error.with_traceback(None)  # whose frames hold what was made so far
            if full is not None:  # not while that is handled: an error of the second run has nothing to do with it
                rerun(slots, full)
        finally:
            gate.open = False
            reset_errors(token)
            state.here.default_dtype = DEFAULT_DTYPE  # what the code has set ends with it
            if options_now() is not OPTIONS:
                set_options(OPTIONS)
            if gate.requested:
                gate.check()

    if not compilation.fingerprints or (isinstance(node, FunctionCall) and node.pure):
        return run
    return _with_fingerprints(run, node, step, compilation.program, host)


def _as_recorded(run: Callable[..., None], recorded: Settings, host: Host) -> Callable[..., None]:
    """Return the same under the settings of the moment of recording, which most code has none of its own of."""
    filters = next((entry[1:] for entry in recorded if entry[0] == "warnings"), None)
    code = code_in(recorded)

    def as_recorded(*given: Any) -> None:
        settings = recorded
        if code:
            known = {name: host.code(name, ()) for name in code}
            settings = tuple([(*entry[:-1], known.get(entry[-1], entry[-1])) for entry in recorded])
        with restored_settings(settings), host.filtered(*filters) if filters else nullcontext():
            run(*given)

    return as_recorded


def _with_fingerprints(run: Execute, node: UserCode, step: Step, program: Program, host: Host) -> Execute:
    """Return the same, adding fingerprints of what the code returned to the host's report: of a forward all but its
    context. What is declared pure has none: its second run is not compared."""
    index = step.index
    targets = step.outputs[isinstance(node, FunctionCall) :]
    opened = program.slots + 1 if program.open_base >= 0 and step is program.steps[-1] else -1

    def run_and_look(slots: Slots) -> None:
        run(slots)
        if opened < 0:
            found = [fingerprint(slots[target]) if target >= 0 else 0 for target in targets]
        else:
            found = [fingerprint(value) for value in slots[opened:]]
        host.report.fingerprints.add(index, found)

    return run_and_look
