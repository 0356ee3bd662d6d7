"""The words of a failed check."""

from __future__ import annotations

import numpy as np
import pytest

from raygrad.autograd.check import check_report as report


def place(part: str = "", forward: bool = False) -> report.JacobianLabel:
    return report.JacobianLabel(1, 0, part, (2,), (2,), np.dtype(np.float64), forward=forward)


def test_title_names_part_mode_output_and_input():
    assert place().title().startswith("Jacobian mismatch for output 1 with respect to input 0")
    assert "Jacobian computed with forward mode mismatch for output 1" in place(forward=True).title()
    assert place("imaginary").title().startswith("While considering the imaginary part of complex outputs only, ")


def test_entries_are_named_by_their_indices():
    at = report.JacobianLabel(0, 0, "", (), (2, 3), np.dtype(np.float64))
    assert at.entry(4, 0) == "d output[()] / d input[1, 1]"


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        (np.zeros((2, 2)), "zero throughout: no gradient arrived"),
        (np.full((2, 2), np.nan), "has NaNs"),
        (-np.eye(2), "multiplied by -1, would be right"),
        (np.eye(2) * (1 - 1j), "is the conjugate"),
    ],
)
def test_usual_mistakes_are_named(found, hint):
    expected = np.eye(2) * (1 + 1j) if np.iscomplexobj(found) else np.eye(2)
    text = report.mismatch(place(), expected, found, 1e-3, 1e-5)
    assert hint in text


def test_fast_failure_that_no_entry_shows_is_said_to_be_one():
    whole = np.eye(2)
    text = report.fast_mismatch(place(), 1.0, 1.1, whole, whole, 1e-3, 1e-5)
    assert "Entry by entry they agree" in text
