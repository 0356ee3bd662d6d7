"""Each operation beside PyTorch's, by the samples of PyTorch's own table: a seeded tenth, or all with `--opinfo=all`.

What differs and is known stands in `known_differences`, each with its reason; an entry there that differs in nothing
any more fails where all are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from .known_differences import KNOWN

GROUPS = 20
"""Tests into which the units are divided."""

TENTH = 0.1

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

_compared: dict[int, set[tuple[str, str]]] = {}
"""By group, the entries and kinds in which something differed."""


def groups(everything: bool) -> Iterator[list[Any]]:
    """Yield the units of each group."""
    units = import_module(f"{__package__}.units")
    found = units.units(1.0 if everything else TENTH)
    return iter([found[group::GROUPS] for group in range(GROUPS)])


@pytest.fixture(scope="module")
def everything(request: pytest.FixtureRequest) -> bool:
    pytest.importorskip("torch")
    return request.config.getoption("--opinfo") == "all"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", range(GROUPS))
def test_operations_do_what_pytorchs_do(everything: bool, group: int) -> None:
    units = import_module(f"{__package__}.units")
    unknown: dict[str, list[str]] = defaultdict(list)
    differing = _compared[group] = set()
    for unit in list(groups(everything))[group]:
        for outcome in units.outcomes(unit):
            if outcome.agrees:
                continue
            differing.add((outcome.entry, outcome.kind))
            if outcome.kind not in KNOWN.get(outcome.entry, {}):
                unknown[f"{outcome.entry} {outcome.kind}"].append(f"{unit.name} {outcome.sample}: {outcome.message}")
    assert not unknown, "\n".join(f"{name} ({len(said)}): {said[0][:300]}" for name, said in unknown.items())


def test_no_difference_that_is_known_is_gone(everything: bool) -> None:
    if not everything or len(_compared) < GROUPS:
        pytest.skip("asks for all units: --opinfo=all")
    differing = set[tuple[str, str]]().union(*_compared.values())
    gone = [(entry, kind) for entry, kinds in KNOWN.items() for kind in kinds if (entry, kind) not in differing]
    assert not gone
