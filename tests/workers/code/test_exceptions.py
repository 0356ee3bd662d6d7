from __future__ import annotations

import threading
from typing import Any

import pytest

from raygrad.errors import RemoteError, WorkerLost
from raygrad.workers.code.exceptions import LINKS_KEPT, pack_exception, unpack_exception
from raygrad.workers.code.pickling import pickle_value
from raygrad.workers.code.unpickling import opening_as_worker, unpickle_value


class Diverged(ArithmeticError):
    """An exception of the user's whose signature is not its args."""

    def __init__(self, step: int, residual: float) -> None:
        super().__init__(f"step {step}")
        self.step = step
        self.residual = residual


class Rude(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def there_and_back(error: BaseException) -> BaseException:
    return unpack_exception(pack_exception(error))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x", 3),
        KeyError("k"),
        FileNotFoundError(2, "no such file", "name"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        WorkerLost("gone", "worker 1"),
        ZeroDivisionError(),
    ],
)
def test_type_args_and_attributes_come_back(error: Exception):
    back = there_and_back(error)
    assert type(back) is type(error)
    assert back.args == error.args
    assert str(back) == str(error)
    assert back.__dict__ == error.__dict__


def test_an_exception_of_the_user_s_own_comes_back_as_the_very_class():
    back = there_and_back(Diverged(3, 0.5))
    assert type(back) is Diverged
    assert (back.step, back.residual, back.args) == (3, 0.5, ("step 3",))


def test_one_raised_by_the_worker_s_copy_of_the_class_does_too():
    with opening_as_worker():
        copy: Any = unpickle_value(pickle_value(Diverged))
        assert copy is not Diverged
        packed = pack_exception(copy(4, 0.25))
    back = unpack_exception(packed)
    assert type(back) is Diverged
    assert back.step == 4


def test_causes_come_along():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        back = there_and_back(error)
    assert isinstance(back.__cause__, KeyError)


def test_a_chain_without_end_is_cut():
    error = ValueError("0")
    last: BaseException = error
    for index in range(1, 1000):
        last.__context__ = last = KeyError(str(index))
    back: BaseException | None = there_and_back(error)
    count = 0
    while back is not None:
        back, count = back.__context__, count + 1
    assert count == LINKS_KEPT


def test_what_is_referred_to_and_cannot_be_rebuilt_is_named_in_its_place():
    error = ExceptionGroup("g", [of_a_class_that_stays_here("gone"), KeyError("k")])
    error.__cause__ = error.exceptions[0]
    back = there_and_back(error)
    assert isinstance(back, ExceptionGroup)
    assert [type(one) for one in back.exceptions] == [RemoteError, KeyError]
    assert back.__cause__ is back.exceptions[0]
    assert str(back.__cause__).endswith("Stays: gone")


def test_an_attribute_that_cannot_travel_is_left_behind():
    error = ValueError("x")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    error.code = 7  # type: ignore[attr-defined]
    back = there_and_back(error)
    assert type(back) is ValueError
    assert back.__dict__ == {"code": 7}


def of_a_class_that_stays_here(message: str) -> Exception:
    class Stays(Exception):
        lock = threading.Lock()

        def __str__(self) -> str:
            if self.args[0]:
                return str(self.args[0])
            raise ValueError("no")

    return Stays(message)


def test_what_cannot_be_rebuilt_is_a_remote_error_that_names_the_type():
    back = there_and_back(of_a_class_that_stays_here("gone"))
    assert type(back) is RemoteError
    assert isinstance(back, RuntimeError)
    assert back.type_name.endswith("Stays")
    assert str(back).endswith("Stays: gone")


def test_what_cannot_be_rebuilt_is_itself_in_the_same_process_without_its_frames():
    with pytest.raises(Exception, match="gone") as raised:
        raise of_a_class_that_stays_here("gone")
    error = raised.value
    assert unpack_exception(pack_exception(error, shares_process=True)) is error
    assert error.__traceback__ is None


def test_an_attribute_that_cannot_travel_takes_no_file_name_along():
    error = FileNotFoundError(2, "none", "name")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    assert str(there_and_back(error)) == str(error)


def test_an_argument_that_cannot_travel_prints_as_it_did():
    error = ValueError("x", threading.Lock())
    back = there_and_back(error)
    assert type(back) is ValueError
    assert (str(back), repr(back)) == (str(error), repr(error))


def test_a_broken_message_hides_nothing():
    assert type(there_and_back(Rude(threading.Lock()))) is Rude
    assert "raised ValueError" in str(there_and_back(of_a_class_that_stays_here("")))
