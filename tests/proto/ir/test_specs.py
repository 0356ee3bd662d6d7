"""What specs tell of values: bytes, and whether a context goes to the object store."""

from __future__ import annotations

import pickle

import pytest

from raygrad.proto.ir.specs import (
    LIVE,
    STAYS,
    UNSEEN,
    ArraySpec,
    ConstSpec,
    ContextSpec,
    ObjectSpec,
    Spec,
    UnknownSpec,
    bytes_of,
    is_sized,
    is_stored,
)


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (ArraySpec((3,), "float64"), 24),
        (ArraySpec((), "float32"), 4),
        (ArraySpec((5,), "quarter"), 40),
        (ContextSpec(), -1),
        (ContextSpec(UNSEEN), -1),
        (ContextSpec(700, LIVE), 700),
        (ConstSpec(), -1),
        (ConstSpec(9000), 9000),
        (ObjectSpec(), -1),
        (UnknownSpec(), -1),
    ],
)
def test_the_bytes_of_a_value_are_known_from_its_spec(spec: Spec, size: int) -> None:
    assert bytes_of(spec) == size


def test_a_context_goes_to_the_store_unless_it_stays() -> None:
    on = (("cuda:0", 60),)
    assert [is_stored(spec) for spec in (ContextSpec(), ContextSpec(8), ContextSpec(100, 0, on))] == [True] * 3
    assert not is_stored(ContextSpec(100, STAYS, on))
    assert not is_stored(ContextSpec(UNSEEN, LIVE))
    assert not is_stored(ObjectSpec())


def test_a_context_is_sized_if_it_is_known_to_hold_something() -> None:
    assert is_sized(ContextSpec(1))
    assert not any(map(is_sized, (ContextSpec(), ContextSpec(UNSEEN), ContextSpec(0), ConstSpec(5), ObjectSpec())))


def test_specs_of_two_kinds_are_never_equal() -> None:
    """They are interned by equality."""
    specs = [ContextSpec(), ConstSpec(), ObjectSpec(), UnknownSpec(), ArraySpec((), "")]
    assert len({*specs}) == len(specs)
    assert ContextSpec(5) == ContextSpec(5)
    assert hash(ContextSpec(5)) == hash(ContextSpec(5))


def test_specs_are_frozen_and_survive_pickling() -> None:
    spec = ContextSpec(100, STAYS, (("cuda:0", 60),))
    with pytest.raises(AttributeError):
        setattr(spec, "nbytes", 3)  # noqa: B010 - a type checker would refuse the statement
    assert pickle.loads(pickle.dumps(spec)) == spec
