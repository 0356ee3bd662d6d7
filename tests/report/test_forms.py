"""What is reported has all four forms from its picture, summary and tables."""

from __future__ import annotations

import json

import pytest

from raygrad.report.forms import Report
from raygrad.report.picture import Picture
from raygrad.report.table_rendering import Table


class Small(Report):
    """A report of one table."""

    def as_dict(self):
        return {"answer": 42}

    def picture(self):
        return Picture("Small", True, 10.0, 10.0, (), (), (), ())

    def summary(self):
        return ["The answer is known."]

    def tables(self):
        return [Table("Answers", ("answer>",), (("42",),))]


def test_text_has_the_summary_and_the_tables():
    text = str(Small())
    assert "The answer is known." in text
    assert "Answers" in text
    assert "42" in text


def test_a_file_has_the_data(tmp_path):
    path = Small().save(tmp_path / "report.json")
    assert json.loads(path.read_text()) == {"answer": 42}


def test_a_report_without_one_of_its_parts_cannot_be_made():
    class Half(Report):
        """A report of nothing."""

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
