"""Random streams over a compiled call: the paths of its user code, as each replay of the call has them.

`tracing` notes where the stream of the program stands when a call begins; `replay` moves the paths that the call
recorded, and the stream, on by as much as the call did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import (
    HOOK,
    PASS,
    Path,
    RandomStream,
    StreamOrigin,
    current_stream,
    origin_for,
)
from raygrad.proto.codec.columns import in_columns

_PLACES = {PASS: 1, HOOK: 2}
"""Of the parts that tell passes and hooks from applications, the place of their number among positions."""


class DrawOfUserCode(NamedTuple):
    """A draw of user code that ran at the client."""

    again: Callable[[], Any]
    origin: StreamOrigin
    """That of the stream of this code."""
    ordinal: int
    """The ordinal of the draw."""


class StreamPositions:
    """Where the random stream of the code that calls a function stands at one moment."""

    def __init__(self) -> None:
        stream = current_stream(state.here)
        self.origin, self.positions = stream.origin, stream.positions

    def advance(self, began: StreamPositions, ended: StreamPositions) -> None:
        """Move the stream, which stood here before a replay's draws, on as a call moved it between two moments."""
        stream = current_stream(state.here)
        if ended.origin is began.origin:
            moves = zip(self.positions, began.positions, ended.positions, strict=True)
            stream.reseed(self.origin, [now + end - start for now, start, end in moves])
        else:  # seeded in the call, and by its replay
            stream.reseed(stream.origin, ended.positions)

    def drawn(self, draw: Callable[[], Any] | DrawOfUserCode, began: StreamPositions) -> Any:
        """Repeat a draw, or a seeding, for a call that begins here."""
        if not isinstance(draw, DrawOfUserCode):
            return draw()
        here = state.here
        stream = RandomStream(self._moved_origin(draw.origin, began))
        stream.reseed(stream.origin, (0, 0, 0, draw.ordinal))
        outer, here.stream = here.stream, stream
        try:
            return draw.again()
        finally:
            here.stream = outer

    def moved_path(self, path: Path, began: StreamPositions) -> Path:
        """Return the path of a call that begins here, given that of the call that `began` there. What was made or
        registered before it, or after the call has seeded the stream, keeps its path."""
        if path[0] is not began.origin:
            return (self._moved_origin(path[0], began), *path[1:])
        kind = _PLACES.get(path[1], 0)
        first = 2 if kind else 1
        ordinal = path[first]
        if ordinal < began.positions[kind]:
            return path
        ordinal += self.positions[kind] - began.positions[kind]
        return (self.origin, *path[1:first], ordinal, *path[first + 1 :])

    def _moved_origin(self, origin: StreamOrigin, began: StreamPositions) -> StreamOrigin:
        return origin_for([self.moved_path(path, began) for path in origin.paths]) if origin.paths else origin


class RecordedPaths:
    """The paths of all user code of a call, to be moved at once: in columns, which have one origin each but for streams
    within user code that ran at the client."""

    def __init__(self, recorded: Mapping[int, tuple[Path, ...]], began: StreamPositions) -> None:
        """Of a call that `began` there, by node."""
        self._began = began
        self._nodes = tuple(recorded)
        self._tables = [
            (table.places, [self._movable(part) for part in table.parts()])
            for table in in_columns(tuple(recorded.values()))
        ]

    def _movable(self, columns: Sequence[Sequence[Any]]) -> tuple[Sequence[Sequence[Any]], int]:
        """Return the columns of paths with the place among them of the ordinals that any call moves, 0 where paths have
        to be looked at one by one."""
        origins, numbers = columns[:2]
        began = self._began
        kind = _PLACES.get(numbers[0], 0)
        ordinals = 2 if kind else 1
        alike = all([origin is began.origin for origin in origins]) and (
            set(numbers) == {numbers[0]} if kind else not _PLACES.keys() & set(numbers)
        )
        return columns, ordinals if alike and min(columns[ordinals]) >= began.positions[kind] else 0

    def moved(self, now: StreamPositions) -> dict[int, tuple[Path, ...]]:
        """Return the paths of the same code in a call that begins at `now`."""
        found: dict[int, tuple[Path, ...]] = {}
        nodes = self._nodes
        for places, parts in self._tables:
            paths = [self._moved(columns, ordinals, now) for columns, ordinals in parts]
            found.update(zip([nodes[place] for place in places], zip(*paths, strict=True), strict=True))
        return found

    def _moved(self, columns: Sequence[Sequence[Any]], ordinals: int, now: StreamPositions) -> Iterable[Path]:
        began = self._began
        if not ordinals:
            return [now.moved_path(path, began) for path in zip(*columns, strict=True)]
        kind = _PLACES.get(columns[1][0], 0)
        by = now.positions[kind] - began.positions[kind]
        moved = [number + by for number in columns[ordinals]]
        return zip(repeat(now.origin), *columns[1:ordinals], moved, *columns[ordinals + 1 :], strict=False)
