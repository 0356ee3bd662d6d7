"""The codec alone knows the positions of fields: elsewhere nodes and specs are read by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("proto", "scheduler", "workers", "src/raygrad/client", "src/raygrad/report")
CODEC = ROOT / "proto" / "codec"

BY_POSITION = re.compile(r"\bparams\[|\bnode\[\d|itemgetter\(\d[^)]*\), nodes")
"""A param of a node by its number, or a field of a node by its place."""


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_but_the_codec_reads_fields_by_position(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if CODEC not in path.parents
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BY_POSITION.search(line)
    ]
    assert not found, "\n".join(found)
