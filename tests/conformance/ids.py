"""The behaviours that docs/semantics.md defines: ids, titles and differences from PyTorch.

The conformance suite and docs/compatibility.md take them from here. PP ids are goals and not behaviours.
"""

from __future__ import annotations

import re
from pathlib import Path

SEMANTICS = Path(__file__).parents[2] / "docs" / "semantics.md"
GOALS = "PP"

_ITEM = re.compile(
    r'^- <a id="[^"]+"></a>\*\*([A-Z]{2}-\d\d) (.+?)\.\*\* (.+?)(?=\n- |\n\n|\Z)', re.DOTALL | re.MULTILINE
)
_DIFFERENCE = "*Unlike PyTorch:* "


def _behaviours() -> dict[str, tuple[str, str]]:
    """Return title and text of each behaviour, by id."""
    items = _ITEM.findall(SEMANTICS.read_text())
    return {name: (" ".join(title.split()), " ".join(text.split())) for name, title, text in items}


_BEHAVIOURS = {name: both for name, both in _behaviours().items() if not name.startswith(GOALS)}

IDS: dict[str, str] = {name: title for name, (title, _) in _BEHAVIOURS.items()}
"""The title of each behaviour."""

DIFFERS: dict[str, str] = {
    name: text.split(_DIFFERENCE)[1] for name, (_, text) in _BEHAVIOURS.items() if _DIFFERENCE in text
}
"""Where raygrad does something else than PyTorch 2.13 on purpose, and what."""
