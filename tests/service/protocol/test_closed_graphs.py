"""No pickle of a client's stands in a graph that a server without pickles runs."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ProtocolError, RaygradError, ServiceError
from raygrad.proto.codec.graphs import decode_graph, encode_graph
from raygrad.proto.ir.graph import Graph, structural_hash
from raygrad.proto.ir.nodes import UNPLACED, USER_CODE, HookCall
from raygrad.proto.ir.runtime_nodes import Emit
from raygrad.proto.ir.signatures import ObservedFixed
from raygrad.service import Server, ServerOptions
from raygrad.service.protocol.closed_graphs import closed_graph, emitted, opened_graph
from raygrad.service.protocol.messages import Submit
from raygrad.service.protocol.named_code import NamedModules
from raygrad.service.protocol.resumable_connection import ResumableConnection
from raygrad.workers.code.warning_filters import pack_filters, unpack_filters

from .. import allowed_programs as allowed
from ..servers import server_process

MODULES = NamedModules((allowed.__name__,))

fired: list[int] = []


def fire() -> None:
    fired.append(1)


class Trap:
    def __reduce__(self) -> Any:
        return fire, ()


TRAP = pickle.dumps(Trap())


@pytest.fixture
def near() -> Iterator[Server]:
    """A service of this process that allows one module."""
    with Server(ServerOptions(port=0, workers=1, allow=(allowed.__name__,))) as server:
        yield server


def in_place_of_submissions(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Have clients send other submissions than they would."""
    real = ResumableConnection.send

    def other(self: ResumableConnection, message: Any, **how: Any) -> None:
        if isinstance(message, Submit):
            graph, values = change(decode_graph(message.graph), message.values)
            encoded = encode_graph(graph)
            message = replace(message, graph=encoded, key=structural_hash(encoded), values=tuple(values))
        real(self, message, **how)

    monkeypatch.setattr(ResumableConnection, "send", other)


def with_settings(graph: Graph, data: Any) -> Graph:
    nodes = [
        node._replace(settings=(("warnings", 0, data),)) if isinstance(node, USER_CODE) else node
        for node in graph.nodes
    ]
    return graph._replace(nodes=tuple(nodes))


def with_fixed(graph: Graph, data: bytes) -> Graph:
    nodes: list[Any] = []
    for node in graph.nodes:
        expected: Any = getattr(node, "expected", None)
        if expected is not None and hasattr(expected, "outputs"):
            node = node._replace(expected=expected._replace(outputs=(*expected.outputs[:-1], ObservedFixed(data))))
        nodes.append(node)
    return graph._replace(nodes=tuple(nodes))


HIDDEN = ("object", np.frombuffer(TRAP, np.uint8))

ATTACKS: dict[str, tuple[Any, Any]] = {
    "filters of warnings": (lambda graph, values: (with_settings(graph, TRAP), values), allowed.scaled),
    "what an emit reads": (
        lambda graph, values: (graph, [TRAP if type(one) is bytes else one for one in values]),
        allowed.own_emits,
    ),
    "an array that an emit reads": (
        lambda graph, values: (graph, [np.frombuffer(TRAP, np.uint8) if type(one) is bytes else one for one in values]),
        allowed.own_emits,
    ),
    "a nesting": (lambda graph, values: (with_fixed(graph, TRAP), values), allowed.nested),
    "an argument": (
        lambda graph, values: (graph, [HIDDEN if type(one) is list else one for one in values]),
        allowed.scaled,
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", ATTACKS)
def test_no_pickle_in_a_submission_is_opened(near: Server, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    change, program = ATTACKS[where]
    pickle.loads(TRAP)
    assert fired.pop() == 1  # it would be noticed
    in_place_of_submissions(monkeypatch, change)
    with rg.Session(near.url), pytest.raises(RaygradError):
        program()
    assert fired == []


def test_an_emit_reads_only_what_the_client_gives_it() -> None:
    graph = Graph((), (0,), (Emit((1,), (), -1, -1),), ())
    with pytest.raises(ProtocolError, match="does not read"):
        emitted(graph)
    assert emitted(graph._replace(nodes=(Emit((0,), (), -1, -1),))) == {0: 0}


def test_filters_of_warnings_pass_as_they_are(near: Server) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.filterwarnings("error", "some text", UserWarning, "module", 3)
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.filterwarnings("error", category=type("Local", (UserWarning,), {}))
        packed = pack_filters(warnings.filters)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        with rg.Session(near.url) as session:
            graphs: list[Graph] = []
            driver: Any = session._driver
            real = driver.submit
            driver.submit = lambda one, *rest: graphs.append(one.graph) or real(one, *rest)
            allowed.Scaled.apply(rg.ones(2), 1.0, None).numpy()
    graph = next(one for one in graphs if any(isinstance(node, USER_CODE) for node in one.nodes))
    crossed = opened_graph(closed_graph(with_settings(graph, packed)), MODULES)
    (found,) = [node.settings[0][2] for node in crossed.nodes if isinstance(node, USER_CODE)]
    shown = [(one[0], one[1] and one[1].pattern, one[2], one[4]) for one in unpack_filters(found)]
    assert shown[0][2:] != ()
    assert ("error", "some text", UserWarning, 3) in shown
    assert ("always", None, RuntimeWarning, 0) in shown
    assert not any(one[2].__name__ == "Local" for one in shown)
    assert opened_graph(closed_graph(graph), MODULES) is graph  # without any, nothing is made anew


def test_warnings_that_a_filter_makes_errors_fail_there() -> None:
    allow = (allowed.__name__,)
    with server_process(allow=allow) as (url, _), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with rg.Session(url), pytest.raises(RuntimeWarning, match="mind the step"):
            allowed.Warning_.apply(rg.ones(2)).numpy()


def test_a_graph_with_a_bad_filter_is_refused() -> None:
    for bad in (b"", b"RGRD", TRAP):
        graph = Graph((), (), (), ())
        assert closed_graph(graph) is graph
        if bad:
            with pytest.raises((ProtocolError, ServiceError)):
                opened_graph(with_settings(_function_graph(), bad), MODULES)


def _function_graph() -> Graph:
    return Graph((), (), (HookCall(*UNPLACED, "@a", "tensor", 0, 0, None, ()),), ())
