"""Sites name the user's own line."""

from __future__ import annotations

from pathlib import Path

import raygrad as rg


def test_a_node_remembers_the_line_of_the_program_that_made_it() -> None:
    with rg.Session(workers=1):
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3.0  # this line
    said = str(y._data.record.site)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "# this line" in text)
    assert said.endswith(
        f"test_source_locations.py:{line} in test_a_node_remembers_the_line_of_the_program_that_made_it"
    )


def test_calls_inside_the_package_are_not_the_users_line() -> None:
    with rg.Session(workers=1):
        x = rg.tensor([[1.0, 2.0]], requires_grad=True)
        y = rg.softmax(x, 1)
        made = rg.linalg.inv(rg.tensor([[2.0]]))  # of the functions that autocast governs
    assert "test_source_locations.py" in str(y._data.record.site)
    assert "test_source_locations.py" in str(made._data.record.site)
