"""Paths of a call's user code, moved for a replay: all at once as one by one."""

from __future__ import annotations

import pytest

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import HOOK, PASS, Path, RandomStream, StreamOrigin, origin_for, running_with
from raygrad.client.compile.stream_positions import RecordedPaths, StreamPositions

PROGRAM = StreamOrigin(3, 0)
RESEEDED = StreamOrigin(4, 7)


def positions(origin: StreamOrigin, *numbers: int) -> StreamPositions:
    stream = RandomStream(origin)
    stream.reseed(origin, numbers)
    with running_with(state.here, stream):
        return StreamPositions()


BEGAN = positions(PROGRAM, 10, 20, 30, 0)
LATER = [
    positions(PROGRAM, 10, 20, 30, 0),
    positions(PROGRAM, 17, 22, 31, 5),
    positions(RESEEDED, 0, 0, 0, 0),
]

INNER = origin_for([(PROGRAM, 12), (PROGRAM, PASS, 21)])

ALIKE: list[tuple[Path, ...]] = [((PROGRAM, 10 + i), (PROGRAM, PASS, 20 + i // 2)) for i in range(6)]
OTHERS: list[tuple[Path, ...]] = [
    ((PROGRAM, 9),),  # made before
    ((PROGRAM, HOOK, 30), (PROGRAM, PASS, 20)),
    ((PROGRAM, HOOK, 29), (PROGRAM, PASS, 20)),
    ((RESEEDED, 11), (RESEEDED, PASS, 21)),  # seeded in the call
    ((INNER, 0), (INNER, PASS, 0)),  # of a stream within user code
    ((PROGRAM, 11, PASS), (PROGRAM, 10, 3)),
]


@pytest.mark.parametrize("now", LATER, ids=["at the same place", "further on", "after another seed"])
@pytest.mark.parametrize("recorded", [ALIKE, OTHERS, ALIKE + OTHERS, []], ids=["alike", "others", "all", "none"])
def test_paths_are_moved_at_once_as_one_by_one(recorded: list[tuple[Path, ...]], now: StreamPositions):
    by_node = {3 * node: paths for node, paths in enumerate(recorded)}
    one_by_one = {node: tuple([now.moved_path(path, BEGAN) for path in paths]) for node, paths in by_node.items()}
    moved = RecordedPaths(by_node, BEGAN).moved(now)
    assert moved == one_by_one
    origins = [path[0] for paths in moved.values() for path in paths]
    assert all(type(origin) is StreamOrigin for origin in origins)


def test_what_was_made_before_a_call_keeps_its_path():
    moved = RecordedPaths({0: ((PROGRAM, 9),), 1: ((PROGRAM, 10),)}, BEGAN).moved(LATER[1])
    assert moved == {0: ((PROGRAM, 9),), 1: ((PROGRAM, 17),)}
