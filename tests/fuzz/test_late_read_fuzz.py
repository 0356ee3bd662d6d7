"""Random programs that change what user code captures: the same numbers eagerly and in sessions (H17)."""

from __future__ import annotations

import os
from typing import Any

import pytest

import raygrad as rg

from .late_read_programs import run_program

PROGRAMS = int(os.environ.get("RAYGRAD_FUZZ_CAPTURED", "40"))
"""Programs per kind of session; more of them find what is rarer."""

pytestmark = pytest.mark.filterwarnings("ignore:.*(captures|changes).*:UserWarning")


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}], ids=str)
def test_h17_programs_that_change_what_code_captures_agree(options: Any) -> None:
    for seed in range(PROGRAMS):
        eagerly = run_program(seed)
        with rg.Session(**options):
            assert run_program(seed) == eagerly, seed


@pytest.mark.ray
def test_h17_programs_that_change_what_code_captures_agree_on_ray(ray_started: Any) -> None:
    eagerly = [run_program(seed) for seed in range(PROGRAMS // 2)]
    with rg.Session("ray", workers=2):
        for seed, expected in enumerate(eagerly):
            assert run_program(seed) == expected, seed
