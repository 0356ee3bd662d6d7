"""Compiled steps of a program, as the host runs them: a list, or of a large program one step at a time.

The host asks for them once per program; recipes of values pick single ones by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, overload

from raygrad.proto.ir.program import Program, Step

from ..values.fingerprints import with_fingerprints
from ..values.slots import Execute
from .compilation import Compilation
from .compiler import compile_step, compile_steps
from .functions import Host

KEPT_COMPILED: Final = 65_536
"""The most steps of a program that stay compiled between its runs. A compiled step takes 0.5 to 4 KiB, several times
what it is made from; to compile it takes a fifth of the time of a run."""

CompiledStep: TypeAlias = tuple[Execute, tuple[int, ...]]
"""What runs a step, and the slots that it frees."""


def compiled_steps(program: Program, host: Host, *, fingerprints: bool = False) -> Sequence[CompiledStep]:
    """Return the steps of a program, ready to run in order; with `fingerprints`, the host's report gets those of what
    user code returns."""
    if len(program.steps) > KEPT_COMPILED:
        return _StepsOnDemand(program, host, fingerprints)
    steps = compile_steps(program, host)
    if fingerprints:
        steps = [
            with_fingerprints(one, step, program, lambda: host.report.fingerprints)
            for one, step in zip(steps, program.steps, strict=True)
        ]
    return list(zip(steps, [step.frees for step in program.steps], strict=True))


class _StepsOnDemand(Sequence[CompiledStep]):
    """The steps of a large program, each compiled just before it runs and released right after."""

    __slots__ = ("_compilation", "_fingerprints", "_host", "_program")

    def __init__(self, program: Program, host: Host, fingerprints: bool) -> None:
        self._program = program
        self._host = host
        self._compilation = Compilation(program, host)
        self._fingerprints = fingerprints

    def __len__(self) -> int:
        return len(self._program.steps)

    def __iter__(self) -> Iterator[CompiledStep]:
        for step in self._program.steps:
            yield self._compiled(step)

    @overload
    def __getitem__(self, index: int) -> CompiledStep: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CompiledStep, ...]: ...
    def __getitem__(self, index: int | slice) -> CompiledStep | tuple[CompiledStep, ...]:
        if isinstance(index, slice):
            return tuple([self[one] for one in range(*index.indices(len(self)))])
        return self._compiled(self._program.steps[index])

    def _compiled(self, step: Step) -> CompiledStep:
        program, host = self._program, self._host
        execute = compile_step(step, self._compilation)
        if self._fingerprints:
            execute = with_fingerprints(execute, step, program, lambda: host.report.fingerprints)
        return execute, step.frees
