"""Cells fall back to their newest version that does not depend on a failure (H8)."""

from __future__ import annotations

from typing import Any

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.storage.view import LostData
from raygrad.client.recording.variables import VariableLog, Write
from raygrad.client.submission.rollback import roll_back


class Cell:
    def __init__(self) -> None:
        self.value: Any = "start"


def never(value: Any) -> bool:
    return False


def test_a_log_keeps_the_first_old_and_the_last_new_version() -> None:
    cell, log = Cell(), VariableLog()
    one, two = _pending("one"), _pending("two")
    log.write(cell, "value", one)
    log.write(cell, "value", two)
    assert cell.value is two
    assert log.take() == [Write(cell, "value", "start", two)]
    assert log.take() == []


def test_h8_a_failed_submission_gives_back_the_version_before_it() -> None:
    cell = Cell()
    cell.value = "two"
    first, second = Write(cell, "value", "start", "one"), Write(cell, "value", "one", "two")
    roll_back([([first], False), ([second], True)], never)
    assert cell.value == "one"


def test_h8_a_later_write_that_does_not_depend_on_the_failure_stays() -> None:
    cell = Cell()
    cell.value = "three"
    writes = [
        Write(cell, "value", "start", "one"),
        Write(cell, "value", "one", "two"),
        Write(cell, "value", "two", "three"),
    ]
    roll_back([([writes[0]], False), ([writes[1]], True), ([writes[2]], False)], never)
    assert cell.value == "three"


def test_h8_a_version_that_depends_on_the_failure_is_skipped() -> None:
    cell = Cell()
    cell.value = "three"
    writes = [Write(cell, "value", "start", "two"), Write(cell, "value", "two", "three")]
    roll_back([([writes[0]], True), ([writes[1]], False)], lambda value: value in ("two", "three"))
    assert cell.value == "start"


def test_h8_clearing_a_gradient_before_the_failed_step_stays_cleared() -> None:
    cell, log = Cell(), VariableLog()
    cell.value = _pending("gradient of the step before")
    log.write(cell, "value", None)
    log.write(cell, "value", _pending("gradient of the failed step"))
    roll_back([(log.take(), True)], never)
    assert cell.value is None


def test_cells_that_a_failure_did_not_reach_are_left_alone() -> None:
    cell = Cell()
    cell.value = "set by hand since"
    roll_back([([Write(cell, "value", "start", "one")], False)], never)
    assert cell.value == "set by hand since"


class _Silent:
    recorder: Any = None

    def released(self, index: int) -> None:
        pass


def _pending(name: str) -> Pending:
    return Pending(_Silent(), 0, (), None, name)  # type: ignore[arg-type]


def test_a_view_that_is_to_be_made_anew_needs_computing() -> None:
    cell, log = Cell(), VariableLog()
    stale = object.__new__(LostData)
    log.write(cell, "value", stale)
    log.write(cell, "value", _pending("later"))
    (write,) = log.take()
    assert write.old == "start"


def test_attributes_of_one_cell_and_cells_of_one_attribute_fall_back_apart() -> None:
    cells, log = [Cell(), Cell()], VariableLog()
    for cell in cells:
        cell.other = "first"  # type: ignore[attr-defined]
        log.write(cell, "value", _pending("failed"))
        log.write(cell, "other", _pending("failed, too"))
    assert len(log.pending()) == 4
    roll_back([(log.take(), True)], never)
    assert [vars(cell) for cell in cells] == [{"value": "start", "other": "first"}] * 2


def test_h8_a_write_that_was_not_submitted_and_depends_on_the_failure_is_undone() -> None:
    cell = Cell()
    cell.value = "one"
    roll_back([([Write(cell, "value", "start", "one")], False)], lambda value: value == "one")
    assert cell.value == "start"
