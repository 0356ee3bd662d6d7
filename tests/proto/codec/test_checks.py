"""What is read from a stranger has its type, or the error names it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec import checks


def test_unpack_gives_tuples_and_any_keys():
    assert checks.unpack(msgpack.packb([1, [2, {3: [4]}]]), "thing") == (1, (2, {3: (4,)}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x92\x01",
        b"\xc1",
        b"\x01\x02",
        b"\x81\x80\x01",
        b"\xa1\xff",
        msgpack.packb(msgpack.ExtType(5, b"")),
        b"\x91" * 2000 + b"\x01",
        b"\xdd\xff\xff\xff\xff",
    ],
    ids=["empty", "cut", "reserved", "two", "map as key", "not UTF-8", "extension", "too deep", "too long"],
)
def test_what_is_not_msgpack_is_a_protocol_error(data: bytes):
    with pytest.raises(ProtocolError):
        checks.unpack(data, "thing")


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_unpack_has_two_outcomes(data: bytes):
    try:
        checks.unpack(data, "thing")
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda v: checks.fields(v, 2, "pair"), [(1, 2)], [(1,), [1, 2], None, "ab"]),
        (lambda v: checks.sequence(v, "list"), [(), (1,)], [[], None, "", {}]),
        (lambda v: checks.integer(v, "id", 0, 5), [0, 4], [-1, 5, 1.0, True, None, "1"]),
        (lambda v: checks.integers(v, "ids", 0, 5), [(), (0, 4)], [(-1,), (5,), (1.0,), (True,), [1], b"\x01"]),
        (lambda v: checks.text(v, "name"), ["", "a"], [b"a", None, 1]),
        (lambda v: checks.texts(v, "names"), [(), ("a",)], ["ab", (b"a",)]),
        (lambda v: checks.one_of(v, "letter", {"a", "b"}), ["a"], ["c", None, ("a",), {}]),
        (lambda v: checks.flag(v, "flag"), [True, False], [0, 1, None]),
        (lambda v: checks.octets(v, "hash"), [b"", b"a"], ["a", None, bytearray(b"a")]),
    ],
    ids=["fields", "sequence", "integer", "integers", "text", "texts", "one_of", "flag", "octets"],
)
def test_each_check_returns_what_it_takes_and_refuses_the_rest(check: Any, good: list[Any], bad: list[Any]):
    for value in good:
        assert check(value) == value
    for value in bad:
        with pytest.raises(ProtocolError, match=r"^the \w+ "):
            check(value)


def test_an_error_shows_foreign_data_shortened():
    assert len(checks.shown("x" * 10**6)) < 100
    assert len(checks.shown(tuple(range(10**4)))) < 100
