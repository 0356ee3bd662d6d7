"""What a plan was saved as is read as what it was, and nothing else is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pytest

import raygrad as rg
from raygrad.errors import LoadError
from raygrad.report.plain_data import from_plain_data
from raygrad.report.saved_plan import load_explanation
from raygrad.report.shown import as_plain_data


class Shade(StrEnum):
    DARK = "as night"
    LIGHT = "as day"


class Pair(NamedTuple):
    left: int
    right: float


@dataclass(frozen=True)
class Sample:
    shade: Shade
    pairs: tuple[Pair, ...]
    fixed: tuple[str, int]
    maybe: Pair | None = None


SAMPLE = Sample(Shade.LIGHT, (Pair(1, 2.5), Pair(3, 4.0)), ("a", 1), Pair(0, 0.0))


def test_data_comes_back_as_it_was():
    assert from_plain_data(Sample, json.loads(json.dumps(as_plain_data(SAMPLE)))) == SAMPLE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shade": "grey"}, "Sample.shade is 'grey'"),
        ({"pairs": [{"left": 1, "right": "x"}]}, "Sample.pairs[0].right"),
        ({"pairs": 3}, "where a list is expected"),
        ({"fixed": ["a"]}, "1 entries where 2"),
        ({"fixed": ["a", True]}, "Sample.fixed[1] is True"),
        ({"maybe": 7}, "fields of Pair"),
        ({"more": 1}, "they differ in: more"),
    ],
)
def test_what_does_not_fit_says_where(change: dict[str, object], said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        from_plain_data(Sample, as_plain_data(SAMPLE) | change)


def test_a_saved_plan_is_the_plan(tmp_path: Path):
    with rg.Session(workers=2) as session:
        x = rg.ones(3, requires_grad=True)
        with session.deferred():
            (x * 2).sum().backward()
        plan = session.explain(workers=4)
    assert load_explanation(plan.save(tmp_path / "plan.json")) == plan


def test_another_file_is_no_plan(tmp_path: Path):
    path = tmp_path / "other.json"
    for text in ("[1, 2", "{}", '{"plan": 1}'):
        path.write_text(text)
        with pytest.raises(LoadError, match="no plan that this version of raygrad has saved"):
            load_explanation(path)
