"""Paths and streams: what depends on them, and what they do not depend on."""

from __future__ import annotations

from raygrad.autograd.core.modes import Modes
from raygrad.autograd.core.random_streams import (
    PROGRAM,
    PassStream,
    RandomStream,
    StreamOrigin,
    UnopenedStream,
    current_stream,
    mixed,
    origin_for,
    path_of_application,
    path_of_pass,
)


def test_keys_of_one_origin_differ():
    keys = {mixed(5, part) for part in range(10_000)} | {mixed(6, part) for part in range(10_000)}
    assert len(keys) == 20_000


def test_a_path_that_has_travelled_opens_the_same_stream():
    path = next(RandomStream(StreamOrigin(3, 7)).applications)
    assert origin_for([path])[:2] == origin_for([((3, 7), 0)])[:2]


def test_ordinals_are_told_without_taking_one():
    stream = RandomStream(StreamOrigin(1, 2))
    for _ in range(3):
        next(stream.applications)
    stream.next_pass()
    assert stream.positions == stream.positions == (3, 1, 0, 0)
    stream.reseed(stream.origin, stream.positions)
    assert next(stream.applications)[1] == 3


def test_applications_inside_another_one_count_from_its_own_beginning():
    here = Modes()
    here.stream = (StreamOrigin(1, 0), 4)
    assert [path_of_application(here)[1] for _ in range(2)] == [0, 1]
    assert type(here.stream) is RandomStream
    assert current_stream(here) is not PROGRAM


def test_a_part_of_a_pass_has_its_path_and_another_pass_one_of_its_own():
    here, whole = Modes(), PassStream()
    whole.path, whole.application = (StreamOrigin(1, 0), 9), (StreamOrigin(1, 0), 2)
    here.stream = whole
    assert path_of_pass(here, within=True) is whole.path
    assert path_of_pass(here, within=False) != path_of_pass(here, within=False)


def test_backwards_of_two_applications_in_one_pass_have_two_streams():
    one = PassStream()
    made = []
    for ordinal in range(2):
        one.path, one.application, one.of_node = (StreamOrigin(1, 0), 9), (StreamOrigin(1, 0), ordinal), None
        made.append(one.opened().origin.key)
    assert made[0] != made[1]
    hook = UnopenedStream((StreamOrigin(1, 0), 1), (StreamOrigin(1, 0), 9))
    assert hook.opened() is hook.opened()
    assert hook.opened().origin.key not in made
