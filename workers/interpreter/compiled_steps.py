"""Compiled steps of a program, as the host runs them: a list, or of a large program one step at a time.

The host asks for them once per program; recipes of values pick single ones by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, overload

from raygrad.proto.ir.program import Program, Step

from ..values.slots import Execute
from .compilation import Compilation
from .compiler import compile_step
from .functions import Host

KEPT_COMPILED: Final = 65_536
"""The most steps of a program that stay compiled between its runs. A compiled step takes 0.5 to 4 KiB, several times
what it is made from; to compile it takes a fifth of the time of a run."""

CompiledStep: TypeAlias = tuple[Execute, tuple[int, ...]]
"""What runs a step, and the slots that it frees."""


def compiled_steps(program: Program, host: Host, *, fingerprints: bool = False) -> Sequence[CompiledStep]:
    """Return the steps of a program, ready to run in order; with `fingerprints`, the host's report gets those of what
    user code returns."""
    steps = _StepsOnDemand(Compilation(program, host, fingerprints))
    return steps if len(steps) > KEPT_COMPILED else list(steps)


class _StepsOnDemand(Sequence[CompiledStep]):
    """The steps of a program, each compiled when it is asked for: just before it runs, and released right after."""

    __slots__ = ("_compilation",)

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation

    def __len__(self) -> int:
        return len(self._compilation.program.steps)

    def __iter__(self) -> Iterator[CompiledStep]:
        for step in self._compilation.program.steps:
            yield self._compiled(step)

    @overload
    def __getitem__(self, index: int) -> CompiledStep: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CompiledStep, ...]: ...
    def __getitem__(self, index: int | slice) -> CompiledStep | tuple[CompiledStep, ...]:
        if isinstance(index, slice):
            return tuple([self[one] for one in range(*index.indices(len(self)))])
        return self._compiled(self._compilation.program.steps[index])

    def _compiled(self, step: Step) -> CompiledStep:
        return compile_step(step, self._compilation), step.frees
