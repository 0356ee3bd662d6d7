"""The books of a worker in virtual time, and the names of what is waited for."""

import pytest

from raygrad.scheduler.simulation.virtual_workers import VirtualWorker, name_of


def worker():
    return VirtualWorker(saved=[(0.0, 0)], stored=[(0.0, 0)])


def test_bytes_are_booked_at_the_time_at_which_they_come_and_go():
    one = worker()
    one.store(1.0, 64, saved=True)
    one.store(2.0, 32, saved=False)
    one.store(3.0, -64, saved=True)
    assert one.stored == [(0.0, 0), (1.0, 64), (2.0, 96), (3.0, 32)]
    assert one.saved == [(0.0, 0), (1.0, 64), (3.0, 0)]


def test_nothing_is_booked_of_what_has_no_bytes():
    one = worker()
    one.store(1.0, 0, saved=True)
    one.unpin(1.0, 0, 5)  # it was never pinned
    assert one.stored == one.saved == [(0.0, 0)]


def test_a_value_that_is_unpinned_takes_its_bytes_along():
    one = worker()
    one.pinned[0, 5] = 64
    one.store(1.0, 64, saved=False)
    one.unpin(2.0, 0, 5)
    assert one.stored[-1] == (2.0, 0)
    assert not one.pinned


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ((0, 3, 1), "segment 3, export 1"),
        ((0, 3, -1), "segment 3"),
        ((0, -1, 7), "value 7"),
        ((-1, 0, 2), "external 2"),
    ],
)
def test_what_is_waited_for_has_a_name(key, name):
    assert name_of(key) == name
