"""Drawings: well-formed, self-contained, and safe whatever names the user's code has."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from raygrad.report.drawing import fragment, page, svg
from raygrad.report.picture import Box, Lane, Line, Picture
from raygrad.report.table_rendering import Table

NASTY = "<script>alert('&')</script>"
PICTURE = Picture(
    NASTY,
    True,
    400.0,
    300.0,
    (Lane(100.0, 80.0, NASTY, "#2563eb"),),
    (Box(10.0, 110.0, 200.0, 60.0, "#2563eb", "frame", (NASTY,), NASTY),),
    (Line("M0,0 C1,1 2,2 3,3", "crossing", NASTY, label=NASTY),),
    tuple(Box(20.0, 120.0, 60.0, 30.0, "#2563eb", style, (NASTY,) * 2, NASTY, corner=NASTY) for style in
          ("forward", "backward", "hook", "segment", "small", "chip")),
)  # fmt: skip


def test_names_are_escaped():
    for text in (svg(PICTURE), page(PICTURE, [NASTY], [Table(NASTY, (NASTY,), ((NASTY,),))])):
        assert "<script" not in text
        assert "&lt;script&gt;alert(&#39;&amp;&#39;)" in text


def test_characters_that_xml_does_not_take_are_replaced():
    picture = Picture("a\x07b\x1b[31m\x00\t", True, 400.0, 300.0, (), (), (), ())
    text = svg(picture)
    ElementTree.fromstring(text)
    assert "a\N{REPLACEMENT CHARACTER}b" in text


@pytest.mark.parametrize("which", ["told", "told_long"])
def test_a_drawing_is_well_formed_and_needs_nothing_else(which: str, request: Any):
    told = request.getfixturevalue(which)
    text = svg(told.explanation.picture())
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    html = page(told.explanation.picture(), told.explanation.summary(), told.explanation.tables())
    links = set(re.findall(r"https?://[^\"\s]+", html))
    assert links == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|@import|\b(src|href)=", html)


def test_everything_that_is_drawn_has_a_title_to_point_at(told: Any):
    picture = told.explanation.picture()
    root = ElementTree.fromstring(svg(picture))
    titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(picture.boxes) + len(picture.frames) + len(picture.lines)
    assert all(titles)


def test_a_fragment_is_no_page():
    text = fragment(PICTURE, ["summary"], [])
    assert text.startswith("<div")
    assert "<html" not in text
    assert "<svg" not in fragment(Picture("t", True, 1.0, 1.0, (), (), (), ()), ["nothing"], [])


def test_names_of_segments_stand_on_lines_and_not_under_them():
    text = svg(PICTURE)
    assert text.index('font-size="10.5"') > text.rindex("<path d=")
