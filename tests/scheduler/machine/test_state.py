import pickle
from itertools import product

import pytest

from raygrad.errors import InvalidTransition
from raygrad.scheduler.machine.events import SubmittedSegment
from raygrad.scheduler.machine.state import TRANSITIONS, LiveSegment, LiveValue, Move, SegmentState, State
from raygrad.scheduler.model.plan import InStore, OnWorker


def segment(state=SegmentState.WAITING):
    return LiveSegment(3, 1, SubmittedSegment(worker=0), state)


@pytest.mark.parametrize(("state", "move"), list(product(SegmentState, Move)))
def test_a_segment_moves_as_the_table_says_or_not_at_all(state, move):
    one = segment(state)
    if (state, move) in TRANSITIONS:
        one.move(move, 0.0)
        assert one.state is TRANSITIONS[state, move]
    else:
        with pytest.raises(InvalidTransition):
            one.move(move, 0.0)
        assert one.state is state


def test_final_states_are_left_by_no_move_and_every_state_is_reached():
    assert all(not state.final for state, _ in TRANSITIONS)
    assert {SegmentState.WAITING, *TRANSITIONS.values()} == set(SegmentState)
    assert {move for _, move in TRANSITIONS} == set(Move)


def test_a_wrong_move_tells_the_story_of_the_segment_and_survives_pickling():
    one = segment()
    one.move(Move.DISPATCHED, 1.5)
    one.move(Move.DONE, 2.5)
    with pytest.raises(InvalidTransition) as caught:
        one.move(Move.DONE, 3.0)
    error = pickle.loads(pickle.dumps(caught.value))
    assert "at 1.500000: dispatched (attempt 0), waiting -> running" in str(error)
    assert "at 2.500000: reported done" in str(error)
    assert error.key == (3, 1)


def test_a_value_in_the_store_is_pinned_nowhere():
    assert LiveValue(0, 1, InStore(0, 0, 0)).pinned_on == -1
    assert LiveValue(0, 1, OnWorker(2, 0)).pinned_on == 2


def test_peaks_stay_when_bytes_go():
    state = State()
    state.account(10, saved=True)
    state.account(5, saved=False)
    state.account(-10, saved=True)
    assert (state.saved_bytes, state.peak_saved_bytes) == (0, 10)
    assert (state.exported_bytes, state.peak_exported_bytes) == (5, 15)
