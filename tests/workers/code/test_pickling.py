from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import NotShippable
from raygrad.workers.code.pickling import CodePickler, pickle_around_tensors, pickle_value
from raygrad.workers.code.unpickling import load, opening_as_worker, opens_as_worker, unpickle_value


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: float
    colour: Colour = Colour.RED


class Pair(NamedTuple):
    a: int
    b: int


def as_worker(value: Any) -> Any:
    with opening_as_worker():
        return unpickle_value(pickle_value(value))


@pytest.mark.parametrize("value", [None, 1.5, "x", (1, [2, {"a": 3}]), np.float32(2), slice(1, None), b"raw", {1, 2}])
def test_plain_values_come_back(value: Any):
    assert unpickle_value(pickle_value(value)) == value


def test_arrays_come_back_with_dtype_and_shape():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    back = unpickle_value(pickle_value(array))
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()


def test_code_that_goes_by_value_says_in_which_file_and_lines_it_was_written():
    def function() -> int:
        return 1

    code = as_worker(function).__code__
    assert code is not function.__code__
    assert (code.co_filename, list(code.co_lines())) == (__file__, list(function.__code__.co_lines()))


def test_tensors_are_taken_out_of_a_value_once_each_and_put_back_as_what_they_proved_to_be():
    one, two = rg.tensor([1.0]), rg.tensor([2.0])
    data, pickler = pickle_around_tensors(("name", {"a": [one, two], "b": one, "point": Point(3.0)}))
    assert [tensor is taken for tensor, taken in zip(pickler.captured, (one, two), strict=True)] == [True, True]
    name, value = load(data, (), [np.array([5.0]), None])
    assert (name, value["point"]) == ("name", Point(3.0))
    assert value["a"][0].tolist() == [5.0]
    assert value["a"][1] is None
    assert value["b"] is value["a"][0]
    with pytest.raises(NotShippable, match="lock"):
        pickle_around_tensors([threading.Lock()])


def test_instances_of_user_classes_come_back_as_such():
    assert unpickle_value(pickle_value(Point(1.0))) == Point(1.0)
    assert unpickle_value(pickle_value(Pair(1, 2))) == Pair(1, 2)
    assert unpickle_value(pickle_value(Colour.BLUE)) is Colour.BLUE


class Slotted:
    __slots__ = ("__own", "given", "never")

    def __init__(self, own: int) -> None:
        self.__own = self.given = own

    def own(self) -> int:
        return self.__own


def test_a_class_with_slots_has_them_as_a_copy_too():
    made = as_worker(Slotted)(3)
    back = as_worker(Slotted(3))
    assert type(back) is type(made) is not Slotted
    for one in (made, back):
        assert (one.own(), one.given, hasattr(one, "never"), hasattr(one, "__dict__")) == (3, 3, False, False)
        with pytest.raises(AttributeError, match="mistyped"):
            one.mistyped = 1


def test_opened_as_a_worker_classes_are_copies_and_one_copy_each():
    one, two = as_worker(Point(1.0)), as_worker(Point(1.0, Colour.BLUE))
    assert type(one) is not Point
    assert type(one) is type(two)
    assert type(one.colour) is type(two.colour)
    assert two.colour.name == "BLUE"
    assert one == as_worker(Point(1.0))


def test_a_copy_sent_back_is_the_class_again():
    with opening_as_worker():
        back = pickle_value(unpickle_value(pickle_value(Point(2.0))))
    assert unpickle_value(back) == Point(2.0)


def test_the_client_s_class_is_never_changed_by_opening():
    Point(1.0).__reduce_ex__(2)  # after which Python itself has its `__slotnames__` in the class
    before = dict(vars(Point))
    as_worker(Point(1.0))
    unpickle_value(pickle_value(Point(1.0)))
    assert dict(vars(Point)) == before


def test_classes_that_name_each_other_travel():
    class Tree:
        def children(self) -> Any:
            return [Leaf()]

    class Leaf:
        def parent(self) -> Any:
            return Tree()

    tree = as_worker(Tree())
    assert type(tree.children()[0].parent()) is type(tree)


def test_nothing_stays_registered_with_cloudpickle():
    pickle_value(Point(1.0))
    assert __name__ not in cloudpickle.list_registry_pickle_by_value()


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(NotShippable, match=r"\['lock'\] \(a lock\)"):
        pickle_value({"fine": 1, "lock": threading.Lock()})


def test_the_side_is_a_matter_of_the_thread():
    with opening_as_worker():
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(opens_as_worker()))
        thread.start()
        thread.join()
        assert opens_as_worker()
    assert seen == [False]
    assert not opens_as_worker()


def test_cloudpickle_still_makes_classes_as_we_take_them_apart():
    """`CodePickler` relies on the shape of cloudpickle's reduction of a class: its random name comes second to last."""
    import io

    reduced: Any = cloudpickle.Pickler(io.BytesIO()).reducer_override(type("Made", (), {}))
    assert len(reduced) == 6
    assert isinstance(reduced[1][-2], str)
    assert len(reduced[1][-2]) == 32
    assert isinstance(reduced[2][0], dict)
    assert CodePickler.__mro__[3] is cloudpickle.Pickler
