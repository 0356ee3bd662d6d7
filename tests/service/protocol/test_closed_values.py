"""The closed data model gives values back, and nothing that came stands where a pickle would be read."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.functions.nested import flattened_tensors
from raygrad.errors import NotShippable, ProtocolError, RaygradError, ServiceError
from raygrad.proto.codec.values import Blob, pack_values, unpack_values
from raygrad.service.protocol.closed_contexts import opened_context
from raygrad.service.protocol.closed_tensors import checked_emit, closed_around, opened_around_tensors, pickle_around
from raygrad.service.protocol.closed_values import closed, closed_bytes, opened, opened_bytes
from raygrad.service.protocol.named_code import NamedModules
from raygrad.service.protocol.values import Passage
from raygrad.workers.code.pickling import pickle_around_tensors
from raygrad.workers.code.unpickling import load

from .. import allowed_programs as allowed

MODULES = NamedModules((allowed.__name__,))


class Fired(Exception):
    """What a pickle raises that is opened."""


def fire() -> None:
    raise Fired


class Trap:
    def __reduce__(self) -> Any:
        return fire, ()


TRAP = pickle.dumps(Trap())
TRAPS: tuple[Any, ...] = (TRAP, Blob(TRAP), np.frombuffer(TRAP, np.uint8), memoryview(TRAP))


def test_the_trap_fires() -> None:
    with pytest.raises(Fired):
        pickle.loads(TRAP)


VALUES: list[Any] = [
    None, True, 0, -(2**63), 2**200, -(2**200), 1.5, float("inf"), 1 - 2j, "", "ä\ud800\udfff", "x" * 10_000, b"\0\xff",
    b"y" * 10_000, ..., [], (), {}, set(), frozenset(), slice(None, 3, -1), slice((1, 2), None),
    [1, [2, (3, {4: {5, 6}})]],
    {"a": 1, (1, 2): [3], None: ()}, np.float32(1.5), np.int64(7), np.bool_(True), np.dtype("float32"),
    np.dtype("M8[s]"),
    float, np.float64, ValueError, allowed.Pair, allowed.doubled, allowed.Mode.TIMES, rg.device("cuda:1"),
    ("value", 1), ["value", 2], ["slot", 0], {"list": ["tuple"]},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values_come_back(value: Any) -> None:
    found = opened_bytes(closed_bytes(value, "it"), MODULES)
    assert type(found) is type(value)
    assert found == value


def test_arrays_lie_as_they_did() -> None:
    wide = np.arange(24.0).reshape(4, 6)
    for array in (
        wide,
        wide.T,
        wide[::2, ::-1],
        wide.astype(">f4"),
        np.array(["a", "bc"]),
        np.zeros((0, 3)),
        np.array(1),
    ):
        (found,) = opened_bytes(closed_bytes([array], "it"), MODULES)
        assert found.dtype == array.dtype
        assert found.flags.writeable
        np.testing.assert_array_equal(found, array)


def test_tensors_and_their_slots() -> None:
    x, y = rg.tensor([1.0], requires_grad=True), rg.tensor([2, 3])
    found = opened_bytes(closed_bytes({"x": x, "y": [y, y]}, "it"), MODULES)
    assert found["x"].requires_grad
    assert found["y"][1].tolist() == [2, 3]
    data, pickler = pickle_around_tensors(("name", {"x": x, "y": [y, x]}))
    again = pickle_around(closed_around(data, 2, "it"), 2, MODULES, "it")
    assert pickler.captured[0] is x
    name, held = load(again, (), [x, y])
    assert (name, held["x"] is x, held["y"][0] is y, held["y"][1] is x) == ("name", True, True, True)


def test_nestings_pickle_to_the_same_bytes_again() -> None:
    nested = {"a": rg.ones(1), "b": allowed.Pair(rg.ones(1), [None, (rg.ones(2),)]), "c": OrderedDict(a=rg.ones(1))}
    nesting = flattened_tensors(nested)[1]
    assert opened_bytes(closed_bytes(nesting, "it"), MODULES) == nesting


def test_errors_keep_what_they_can() -> None:
    error = allowed.Broken(3)
    error.__cause__ = OSError(2, "gone", "file")
    error.extra, error.odd = [1], allowed.Strange()  # type: ignore[attr-defined]
    found = opened_bytes(closed_bytes(error, "it"), MODULES)
    assert isinstance(found, allowed.Broken)
    assert (str(found), found.number, found.__dict__["extra"]) == ("number 3 is broken", 3, [1])
    assert "odd" not in found.__dict__
    assert isinstance(found.__cause__, FileNotFoundError)
    stranger = opened_bytes(closed_bytes(Fired("far"), "it"), MODULES)
    assert isinstance(stranger, rg.errors.RemoteError)
    assert "Fired: far" in str(stranger)


STRANGERS: list[Any] = [
    allowed.Strange(), [allowed.Strange()], {1: {2: allowed.Strange()}}, allowed.Pair(1, 2), object(), lambda: 1,
    np.array([None]), allowed.partly, Fired, allowed.os,
]  # fmt: skip


@pytest.mark.parametrize("value", STRANGERS, ids=lambda value: type(value).__name__)
def test_all_else_is_refused(value: Any) -> None:
    if value is Fired:  # a class with a name, of a module that is not allowed: for the other side to refuse
        with pytest.raises(ServiceError, match="does not allow"):
            opened_bytes(closed_bytes(value, "it"), MODULES)
        return
    with pytest.raises(ServiceError, match=r"^it is or holds") as raised:
        closed(value, "it")
    assert raised.value.code == "value"


def test_what_holds_itself_is_refused() -> None:
    held: list[Any] = []
    held.append(held)
    with pytest.raises(ServiceError, match="90 levels"):
        closed(held, "it")


def trees() -> list[Any]:
    """Every trap in every place of every tag."""
    tags = (
        "list tuple set dict slice slot tensor formed laid named member nesting device error leaf container context "
        "value pickle object embedding plain packed"
    ).split()
    found: list[Any] = list(TRAPS)
    for tag in tags:
        for count in range(8):
            for trap in (*TRAPS, "os", 1, [tag]):
                found.append([tag, *[trap] * count])
                found.append((tag, *[trap] * count))
    return found


def wired(tree: Any) -> Any:
    """Return a tree as the other side reads it; None of one that cannot be written."""
    try:
        (found,) = unpack_values(pack_values([tree]))
    except NotShippable:
        return None
    return found


@pytest.mark.parametrize("read", [
    lambda tree: opened(tree, MODULES),
    lambda tree: opened_bytes(tree, MODULES),
    lambda tree: Passage(False, MODULES).incoming(tree, "it"),
    lambda tree: Passage(False, MODULES).incoming(["context", tree], "it"),
    lambda tree: Passage(False, MODULES).incoming(["embedding", tree, (), 0], "it"),
    lambda tree: Passage(False, MODULES).incoming(["grouped", tree], "it"),
    lambda tree: checked_emit(tree, 0, MODULES),
    lambda tree: opened_around_tensors(tree, ((0, 0),), 0, MODULES),
    lambda tree: opened_context(_context(attributes=["a", tree]), MODULES),
    lambda tree: opened_context(_context(attributes=["a", ["value", tree]]), MODULES),
    lambda tree: opened_context(_context(hooks=[tree, None]), MODULES),
    lambda tree: opened_context(_context(saved=[tree]), MODULES),
    lambda tree: opened_context(_context(saved=[["value", 0, tree]]), MODULES),
    lambda tree: opened_context(_context(saved=[["packed", 0, ["input", None, tree]]]), MODULES),
    lambda tree: opened_context(_context(notes=tree), MODULES),
])  # fmt: skip
def test_no_trap_fires_wherever_it_stands(read: Any) -> None:
    refused = 0
    for tree in trees():
        found = wired(tree)
        if found is None:
            continue
        try:
            made = read(found)
        except RaygradError:
            refused += 1
            continue
        _open_pickles(made)
    assert refused > 100


def _open_pickles(made: Any) -> None:
    """Open what workers would open: it was pickled here, and so holds no trap."""
    if isinstance(made, dict):
        for one in made.values():
            _open_pickles(one)
    elif isinstance(made, list | tuple):
        for one in made:
            _open_pickles(one)
    elif isinstance(made, Blob):
        load(bytes(made.data), (), ())


def _context(saved: Any = (), hooks: Any = (None, None), attributes: Any = (), notes: Any = None) -> list[Any]:
    return [list(saved), list(hooks), list(attributes), notes, *[None] * 10]


def test_a_graph_has_no_place_for_a_pickle() -> None:
    passage = Passage(False, MODULES)
    for trap in (Blob(TRAP), ("object", Blob(TRAP)), ("context", {}), ("device", "cpu", 1)):
        with pytest.raises(ProtocolError):
            passage.incoming(trap, "it")
