"""SVG and HTML files of pictures and tables, without network access or scripts.

It fills in the templates; `layout` and `grouped` have placed everything before. jinja2 escapes every text, and
characters that such files must not contain are replaced first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .picture import Picture
from .table_rendering import Table

if TYPE_CHECKING:
    from jinja2 import Environment


_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML takes in no form, escaped ones neither."""


def _allowed(value: Any) -> Any:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("raygrad.report"),
        autoescape=True,
        finalize=_allowed,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def svg(picture: Picture) -> str:
    """Return a picture as SVG."""
    return _environment().get_template("picture.svg").render(picture=picture)


def fragment(picture: Picture, summary: Sequence[str], tables: Sequence[Table]) -> str:
    """Return a picture with lines and tables as HTML to be put into a page, as notebooks do."""
    return _environment().get_template("fragment.html").render(picture=picture, summary=summary, tables=tables)


def page(picture: Picture, summary: Sequence[str], tables: Sequence[Table]) -> str:
    """Return them as a page of their own."""
    return _environment().get_template("page.html").render(picture=picture, summary=summary, tables=tables)


def save(
    path: str | Path, picture: Picture, summary: Sequence[str], tables: Sequence[Table], data: Callable[[], Any]
) -> Path:
    """Write one of the forms, as the path's ending says: .svg, .html or .json.

    Raises:
        TypeError: it is no path.
        ValueError: it has another ending.
    """
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"save takes the path of a file, such as 'plan.html', got {path!r}")
    path = Path(path)
    match path.suffix.lower():
        case ".svg":
            text = svg(picture)
        case ".html" | ".htm":
            text = page(picture, summary, tables)
        case ".json":
            text = json.dumps(data(), indent=1)
        case other:
            raise ValueError(
                f"by the ending of the path, save writes .html, .svg or .json, but '{path.name}' ends in '{other}'"
            )
    path.write_text(text, encoding="utf-8")
    return path
