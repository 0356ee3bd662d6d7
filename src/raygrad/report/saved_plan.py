"""A plan that was saved as data (`plan.save("plan.json")`), read again as the explanation that it was."""

from __future__ import annotations

import json
from pathlib import Path

from raygrad.errors import LoadError

from .explanation import Explanation
from .plain_data import from_plain_data


def load_explanation(path: Path) -> Explanation:
    """Return the explanation that a file of `Explanation.save` holds.

    Raises:
        OSError: the file cannot be read.
        LoadError: it holds none, or one of another version of raygrad.
    """
    try:
        return from_plain_data(Explanation, json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise LoadError(
            f"{path} is no plan that this version of raygrad has saved ({error}): save it with "
            "session.explain().save('plan.json')"
        ) from None
