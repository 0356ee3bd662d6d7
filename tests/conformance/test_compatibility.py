"""docs/compatibility.md is what the suite says; RAYGRAD_WRITE_DOCS=1 (`make docs`) writes it anew."""

from __future__ import annotations

import importlib
import os

import pytest

from .compatibility import ABSENT, ABSENT_FUNCTIONS, NAMES, PAGE, eager_only, named_in_tests, page, present
from .ids import DIFFERS, IDS
from .programs import PROGRAMS

EAGER_SHARE = 0.05
"""Of all ids, how many may hold eagerly alone."""


def test_the_page_is_up_to_date():
    if os.environ.get("RAYGRAD_WRITE_DOCS"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "make docs"


def test_programs_name_behaviours_that_there_are():
    named = {name for program in PROGRAMS.values() for name in program.ids if "-" in name}
    assert not {name for name in named if not name.startswith("PP-")} - set(IDS)
    assert not set(DIFFERS) - set(IDS)


def test_each_behaviour_has_a_test_that_names_it():
    assert not [name for name, files in named_in_tests().items() if not files]


def test_few_behaviours_hold_eagerly_alone():
    assert len(eager_only()) <= EAGER_SHARE * len(IDS), sorted(eager_only())


def test_what_is_absent_is_absent():
    assert not [name for name in ABSENT if present(*name.rsplit(".", 1))]


@pytest.mark.oracle
@pytest.mark.parametrize("module", NAMES)
def test_the_names_are_those_of_pytorch(module: str):
    pytest.importorskip("torch")
    home = importlib.import_module(f"torch.{module}")
    assert not [name for name in NAMES[module] if not hasattr(home, name)]
    assert not set(getattr(home, "__all__", [])) - set(NAMES[module])


@pytest.mark.oracle
def test_the_missing_operations_are_those_that_pytorch_has_samples_of():
    pytest.importorskip("torch")
    opinfo = importlib.import_module("tests.opinfo.entries")
    missing = {info.name for info in opinfo.op_db} - {entry.info.name for entry in opinfo.entries()}
    assert {name for names in ABSENT_FUNCTIONS.values() for name in names.split()} == missing
