"""What pictures are made of."""

from __future__ import annotations

from raygrad.report.picture import COLOURS, arched, colour, cropped, sideways, upright


def test_workers_have_colours_in_turn_and_none_has_that_of_crossing():
    assert colour(0) == COLOURS[0] == colour(len(COLOURS))
    assert len(set(COLOURS)) == len(COLOURS)
    assert "#ea580c" not in COLOURS


def test_long_names_are_cropped():
    assert cropped("short", 5) == "short"
    assert cropped("longer", 5) == "long…"


def test_curves_begin_and_end_where_they_should():
    for curve in (sideways(1, 2, 30, 4), upright(1, 2, 30, 4)):
        assert curve.startswith("M1.0,2.0 ")
        assert curve.endswith(" 30.0,4.0")
    assert arched(1, 30, 20, 8) == "M1.0,20.0 C1.0,12.0 30.0,12.0 30.0,20.0"
