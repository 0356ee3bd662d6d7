"""A device that runs out of memory gives back what no array holds, tries once more, and then says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.backends.device_memory import describe_shapes, evicting_with, with_memory_retry
from raygrad.autograd.devices.simulated.simulated_device import StandIn, StandInMemoryError
from raygrad.errors import OutOfDeviceMemory

SIZE = 100_000
ARRAY = 8 * SIZE


class Caching(StandIn):
    """Counts how often it was asked to give back what no array holds."""

    given_back = 0

    def empty_cache(self) -> None:
        self.given_back += 1


def test_what_succeeds_once_memory_was_given_back_is_no_error():
    backend = Caching()

    def work() -> str:
        if not backend.given_back:
            raise StandInMemoryError("full")
        return "made"

    assert with_memory_retry(backend, 0, lambda: "here", work) == "made"
    assert backend.given_back == 1


def test_what_fails_twice_says_where_what_and_what_would_help():
    backend, tried = Caching(2), []

    def work() -> None:
        tried.append(1)
        raise StandInMemoryError("full")

    with pytest.raises(OutOfDeviceMemory, match=r"^cuda:1 is out of memory in sin of \[3\]: full; free") as info:
        with_memory_retry(backend, 1, lambda: "in sin of [3]", work)
    assert isinstance(info.value.__cause__, StandInMemoryError)
    assert (len(tried), backend.given_back) == (2, 1)


def test_any_other_error_is_raised_at_once():
    backend = Caching()
    with pytest.raises(ZeroDivisionError):
        with_memory_retry(backend, 0, str, lambda: 1 // 0)
    assert backend.given_back == 0


def test_shapes_are_those_of_arrays():
    assert describe_shapes([rg.ones(2, 3), 1.0, None, rg.ones(())]) == "[2, 3], []"
    assert describe_shapes([None]) == "nothing"


def moved() -> Any:
    return [rg.ones(SIZE, dtype=rg.float64).cuda() for _ in range(4)]


def made() -> Any:
    return [rg.ones(SIZE, dtype=rg.float64, device="cuda") for _ in range(4)]


def computed() -> Any:
    y = rg.ones(SIZE, dtype=rg.float64).cuda().requires_grad_()
    for _ in range(4):
        y = y.sin()
    return y


def differentiated() -> Any:
    x = rg.ones(SIZE, dtype=rg.float64).cuda().requires_grad_()
    y = x.sin()
    y.sum().backward()  # the gradient of the sum, and the cosine
    return y


def summed() -> Any:
    x = rg.ones(SIZE, dtype=rg.float64).cuda().requires_grad_()
    y = (x + 1.0) + (x - 1.0)
    y.backward(rg.ones(SIZE, dtype=rg.float64).cuda())
    return y


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (moved, r"when \[100000\] came from cpu"),
        (made, "when a tensor was made"),
        (computed, r"in sin of \[100000\]"),
        (differentiated, r"in 'sin'|in .*SinBackward0"),
        (summed, r"in a sum of gradients of \[100000\]|in add of|in .*Backward0"),
    ],
    ids=["moved", "made", "computed", "differentiated", "summed"],
)
def test_whatever_needs_room_on_a_device_tells_what_it_was(program: Callable[[], Any], message: str) -> None:
    with use_stand_in(1, memory=3 * ARRAY + 100), pytest.raises(OutOfDeviceMemory, match=message):
        program()


@pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")
@pytest.mark.parametrize(
    ("program", "arrays", "message"),
    [
        (moved, 0.5, r"when \[100000\] came from cpu"),
        (made, 0.5, "when .* came from cpu"),
        (computed, 1.5, r"in sin of \[100000\]"),
        (differentiated, 2.0, r"in the derivative of sin of \[100000\]"),
        (summed, 2.0, r"in a sum of gradients of \[100000\]|in add of"),
    ],
    ids=["moved", "made", "computed", "differentiated", "summed"],
)
def test_in_a_session_what_alone_needs_more_than_there_is_tells_what_it_was(
    program: Callable[[], Any], arrays: float, message: str
) -> None:
    with use_stand_in(1, memory=int(arrays * ARRAY) + 100), rg.Session(workers=1, gpus=1) as session:

        def run() -> None:
            held = program()
            session.run().wait()
            assert held is not None

        with pytest.raises(OutOfDeviceMemory, match=message):
            run()


def test_what_can_give_way_does_so_until_there_is_room():
    backend, asked = Caching(2), list[tuple[str, str]]()

    def gives(device: str, what: str) -> bool:
        asked.append((device, what))
        return len(asked) < 4

    def work() -> str:
        if len(asked) < enough:
            raise StandInMemoryError("full")
        return "made"

    with evicting_with(gives):
        enough = 3
        assert with_memory_retry(backend, 1, lambda: "here", work) == "made"
        assert asked == [("cuda:1", "here")] * 3
        assert backend.given_back == 4, "once before, and whenever something gave way"
        enough = 9
        with pytest.raises(OutOfDeviceMemory, match="cuda:1 is out of memory here: full"):
            with_memory_retry(backend, 1, lambda: "here", work)
        assert len(asked) == 4, "that was all"
    with pytest.raises(OutOfDeviceMemory):
        with_memory_retry(backend, 1, lambda: "here", work)
    assert len(asked) == 4, "outside nothing does"
