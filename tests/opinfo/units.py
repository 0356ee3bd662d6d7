"""Units of work: one entry in one dtype, with all its samples and kinds; CI runs a seeded share of them."""

# pyright: reportMissingImports=false
from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from . import kinds
from .compare import tolerances
from .entries import DTYPES, Entry, entries
from .kinds import Sample, sample_of

MOST = 5
"""Samples of one unit, evenly selected; a few entries have hundreds, mostly of one class. The summary takes others by
its option `--most`."""

HEAVY = 3
"""One in so many samples is compared in the kinds that take longest: second derivatives, tangents, batches."""

WITH_OUT = 1
"""Samples of one unit whose results are written to tensors that are given, too."""

IN_SESSION = 1
"""Samples of one unit that are run in a session, too."""


@dataclass(frozen=True)
class Outcome:
    """How one sample of a unit compares in one kind.

    Attributes:
        entry, dtype, kind: what was compared.
        sample: its number.
        agrees: whether raygrad does what torch does.
        message: what differs.
    """

    entry: str
    dtype: str
    kind: str
    sample: int
    agrees: bool
    message: str


@dataclass(frozen=True)
class Unit:
    """One entry in one dtype."""

    entry: Entry
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"{self.entry.name}-{str(self.dtype).removeprefix('torch.')}"

    def __str__(self) -> str:
        return self.name


def units(share: float = 1.0, seed: int = 0, only: str = "") -> list[Unit]:
    """Return the units, or a share of them that the seed picks, of all entries or one."""
    found = [Unit(entry, dtype) for entry in entries() for dtype in DTYPES if not only or entry.name in only.split(",")]
    if share >= 1:
        return found
    return [unit for unit in found if zlib.crc32(f"{seed} {unit.name}".encode()) < share * 2**32]


def outcomes(unit: Unit, most: int = MOST) -> list[Outcome]:
    """Compare samples of a unit, at most so many, in all kinds."""
    dtype = str(unit.dtype).removeprefix("torch.")
    made: list[Outcome] = []
    numbers: Counter[str] = Counter()
    for kind, compared in _comparisons(unit, most):
        result = kinds.attempt(compared)
        if result is not None:
            made.append(Outcome(unit.entry.name, dtype, kind, numbers[kind], *result))
            numbers[kind] += 1
    return made


def _comparisons(unit: Unit, most: int) -> Generator[tuple[str, Callable[[], bool]]]:
    entry, info, dtype = unit.entry, unit.entry.info, unit.dtype
    if dtype not in info.supported_dtypes("cpu"):
        for sample in _refusable(info, dtype):
            yield "refused dtypes", lambda sample=sample: kinds.refused(entry, entry.function, sample)
        return
    within = tolerances(info, dtype)
    backward = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu") and not entry.drawn
    form = entry.function
    for number, sample in enumerate(_samples(unit, backward, most)):
        yield "values", lambda s=sample: kinds.value(entry, form, s, within)
        leaves = backward and not entry.draws(sample.options) and kinds._leaves(sample)
        if leaves:
            yield "gradients", lambda s=sample: kinds.gradient(entry, form, s, within)
        if number % HEAVY == 0:
            if leaves and info.supports_gradgrad:
                yield "double backward", lambda s=sample: kinds.gradient(entry, form, s, within, True)
            if leaves and info.supports_forward_ad:
                yield "jvp", lambda s=sample: kinds.jvp(entry, form, s, within)
            yield "vmap", lambda s=sample: kinds.vmap(entry, form, s, within)
        if entry.method is not None and entry.method[0] is not form[0]:
            yield "method", lambda s=sample: kinds.value(entry, entry.method or form, s, within)
        if entry.inplace is not None and not _overlaps(sample):
            yield "in-place", lambda s=sample: kinds.inplace(entry, entry.inplace or form, s, within)
        if number < WITH_OUT and info.supports_out and not entry.name.startswith("nn.functional"):
            yield "out", lambda s=sample: kinds.out(entry, form, s)
        if number < IN_SESSION:
            yield "session", lambda s=sample: kinds.session(entry, form, s, within)
    if info.error_inputs_func is not None and dtype == torch.float32:
        for given in _errors(info):
            yield "error inputs", lambda g=given: kinds.error(entry, entry.function, g)


def _overlaps(sample: Sample) -> bool:
    """Tell whether the sample's result is of another shape than its input, so that no in-place form takes it."""
    return not isinstance(sample.input, torch.Tensor)


def _seeded(name: str) -> None:
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _samples(unit: Unit, requires_grad: bool, most: int) -> list[Sample]:
    """Return a unit's samples, of many an even selection."""
    _seeded(unit.name)
    given = list(unit.entry.info.sample_inputs("cpu", unit.dtype, requires_grad=requires_grad))
    if len(given) > most:
        given = [given[i * len(given) // most] for i in range(most)]
    return [sample_of(one) for one in given]


def _errors(info: Any) -> Iterable[Any]:
    _seeded(info.name)
    try:
        return list(info.error_inputs("cpu"))
    except Exception:  # a few generators need another device
        return []


def _refusable(info: Any, dtype: torch.dtype) -> list[Sample]:
    """Return samples in a dtype that an op does not take: PyTorch's own, or those of float32 converted."""
    _seeded(info.name)
    try:
        found = [sample_of(one) for one in islice(info.sample_inputs("cpu", dtype, requires_grad=False), 4)]
    except Exception:  # the generators know only the dtypes that the op takes
        found = []
    if found:
        return found
    try:
        plain = [sample_of(one) for one in islice(info.sample_inputs("cpu", torch.float32, requires_grad=False), 4)]
    except Exception:
        return []

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.to(dtype)
        if type(value) in (list, tuple):
            return type(value)([cast(item) for item in value])
        return value

    return [Sample(cast(one.input), cast(one.args), {k: cast(v) for k, v in one.options.items()}) for one in plain]
