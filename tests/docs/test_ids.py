"""The ids in comments, tests and docs (EN-12, H13) lead to docs/semantics.md and docs/hard_cases.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("autograd", "scheduler", "workers", "proto", "src", "tests", "benchmarks", "examples", "deploy", "docs")
PREFIXES = "FN CX OU BW ND LG EN HK GR MD FW VM FT GC AC DR PP".split()

PAGES = {"semantics": rf"(?:{'|'.join(PREFIXES)})-\d\d", "hard_cases": r"H\d\d?"}
"""The form of the ids that each page defines."""


def _defined(page: str) -> list[tuple[str, str]]:
    """Return anchor and id of each item of a page, in their order."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(rf'^- <a id="([^"]*)"></a>\*\*({PAGES[page]}) ', text, flags=re.MULTILINE)


def _sources() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in (".py", ".md") and "__pycache__" not in path.parts:
                yield path


@pytest.mark.parametrize("page", PAGES)
def test_each_id_is_defined_once_and_is_its_own_anchor(page: str) -> None:
    defined = _defined(page)
    assert defined
    assert not [name for name, count in Counter(name for _, name in defined).items() if count > 1]
    assert not [name for anchor, name in defined if anchor != name.lower()]
    assert (ROOT / "docs" / f"{page}.md").read_text().count("<a id=") == len(defined)


@pytest.mark.parametrize("page", PAGES)
def test_each_id_that_is_named_is_defined(page: str) -> None:
    known = {name for _, name in _defined(page)}
    form = re.compile(rf"(?<![\w-]){PAGES[page]}(?![\w-])")
    unknown = {(name, str(path.relative_to(ROOT))) for path in _sources() for name in form.findall(path.read_text())}
    assert not sorted((name, path) for name, path in unknown if name not in known)


def test_links_between_pages_lead_somewhere() -> None:
    missing: list[str] = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.partition("#")
            if "://" in link:
                continue
            at = (page.parent / target).resolve() if target else page
            if not at.exists() or (anchor and at.suffix == ".md" and anchor not in _anchors(at)):
                missing.append(f"{page.name}: {link}")
    assert not missing


def test_the_glossary_is_in_alphabetical_order() -> None:
    terms = re.findall(r"^- \*\*(.+?)\.\*\* ", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those that it writes, and those of its headings as GitHub makes them."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))
