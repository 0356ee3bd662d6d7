"""Saved state of a session: its named state and the random numbers in one file, and the journal of its steps.

The implementation of `Session.save`, `load`, `track` and `steps`. A journal is such a file, which each completed step
replaces, with the number of the loop and of its next step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, cast

from raygrad.autograd.dispatch.rng_state import get_rng_state, set_rng_state
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import LoadError, SessionError
from raygrad.saving.named_state import Parametrised, Stateful, restore, state_of
from raygrad.saving.save import load, save

from ..options import path_of, shown

FORM: Final = "raygrad.session"
"""The entry of a file by which it is known as a session's; its value is the version."""

VERSION: Final = 1


class SavedState:
    """The named state of one session.

    Attributes:
        tracked: what steps save and restore, by name.
        journal: the file that completed steps are written to, None for none.
    """

    def __init__(self, journal: str | None) -> None:
        self.tracked: dict[str, Any] = {}
        self.journal = journal
        self._loops = 0
        """How many loops over steps have begun."""
        self._running = False
        """Whether one of them runs now."""

    def track(self, named: Mapping[str, Any]) -> None:
        """Have steps save and restore named state.

        Raises:
            TypeError: something that cannot be changed in place.
        """
        for name, value in named.items():
            if not isinstance(value, Tensor | Stateful | Parametrised | dict | list):
                raise TypeError(
                    f"session.track({name}=...) takes tensors, optimisers, schedules, what else has state_dict() and "
                    f"load_state_dict(), and dicts and lists of these, got {shown(value)}: put numbers into a dict, "
                    "where a resumed program finds them"
                )
        self.tracked.update(named)

    def save(self, path: str, named: Mapping[str, Any] | None, more: Mapping[str, Any]) -> None:
        """Save named state, that which is tracked if none is given, and the random numbers."""
        whole = self._named(named, more, "session.save(path, ...)")
        content = {FORM: VERSION, "state": {name: state_of(value, (name,)) for name, value in whole.items()}}
        save({**content, "rng_state": get_rng_state()}, path)

    def load(self, path: str, named: Mapping[str, Any] | None, more: Mapping[str, Any], strict: bool) -> dict[str, Any]:
        """Restore named state, that which is tracked if none is given, and the random numbers; return it by name."""
        content = _content(path)
        return _restored(path, content, self._named(named, more, "session.load(path, ...)"), strict)

    def steps(self, count: int, every: int, finish: Callable[[], None]) -> Generator[int]:
        """Yield the numbers of the steps of a loop; with a journal those that are not completed in it, and write each
        to it when the next one is asked for, after `finish()`."""
        if self.journal is None:
            yield from range(count)
            return
        if not self.tracked:
            raise ValueError(
                "session.steps(n) with a journal needs to know what a step changes: session.track(name=...) tensors, "
                "optimisers and schedules before"
            )
        if self._running:
            raise SessionError(
                "a loop over session.steps(...) runs inside another one: with a journal, only the outer loop can be "
                "one over steps; use range(...) for the inner one"
            )
        finish()  # no failure of what was recorded before, or will be later, takes back what is restored
        loop = self._loops
        first = self._resumed(loop)
        finish()
        if first is None:
            first = 0
            self._write(loop, 0)
        self._loops += 1
        self._running = True
        try:
            for step in range(first, count):
                yield step
                if (step + 1) % every == 0 or step + 1 == count:
                    finish()
                    self._write(loop, step + 1)
        finally:
            self._running = False

    def _resumed(self, loop: int) -> int | None:
        """Return the first step of a loop that the journal does not know as completed, with the state restored that
        belongs to it; None if the journal does not know the loop."""
        path = cast("str", self.journal)
        if not os.path.exists(path):
            return None
        content = _content(path)
        known: Any = content.get("position")
        if not isinstance(known, dict):
            raise LoadError(f"{path!r} was written by session.save and is no journal: give the journal another name")
        if loop < known["loop"]:  # its end is behind the journal, whose state is that of a later loop
            return 1 << 62
        if loop > known["loop"]:
            return None
        try:
            _restored(path, content, self.tracked, True)
        except LoadError as error:
            error.add_note("raygrad: remove the journal to begin anew, if the program is another one now")
            raise
        return int(cast("dict[str, int]", known)["step"])

    def _write(self, loop: int, step: int) -> None:
        state = {name: state_of(value, (name,)) for name, value in self.tracked.items()}
        content = {FORM: VERSION, "state": state, "rng_state": get_rng_state()}
        save({**content, "position": {"loop": loop, "step": step}}, cast("str", self.journal))

    def _named(self, named: Mapping[str, Any] | None, more: Mapping[str, Any], where: str) -> dict[str, Any]:
        if named is not None and not isinstance(named, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{where} takes state by keyword or as a mapping from names, got {shown(named)}")
        whole = {**(named or {}), **more} or self.tracked
        if not whole:
            raise TypeError(
                f"{where} takes the state by name, such as model=..., optimizer=..., or that of session.track(...): "
                "there is neither"
            )
        for name in whole:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"{where} takes names that are strings, got {shown(name)}")
        return dict(whole)


def _content(path: str) -> dict[str, Any]:
    found = load(path, map_location="cpu")
    content = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if content.get(FORM) != VERSION or "state" not in content or "rng_state" not in content:
        raise LoadError(f"{path!r} was not written by session.save of this version; raygrad.load reads other files")
    return content


def _restored(path: str, content: Mapping[str, Any], named: Mapping[str, Any], strict: bool) -> dict[str, Any]:
    try:
        found = restore(named, content["state"], strict=strict)
    except LoadError as error:
        raise LoadError(f"{path!r}: {error}") from None
    set_rng_state(content["rng_state"])
    return found


def checked_journal(path: Any) -> str | None:
    """Return the path of a journal, in a folder that is there; None for none.

    Raises:
        TypeError, ValueError: it is no path.
        FileNotFoundError: there is no such folder.
    """
    if path is None:
        return None
    journal = os.path.abspath(path_of("Session(journal=...)", path))
    if not os.path.isdir(os.path.dirname(journal)):
        raise FileNotFoundError(f"Session(journal={path!r}): there is no folder {os.path.dirname(journal)!r}")
    return journal
