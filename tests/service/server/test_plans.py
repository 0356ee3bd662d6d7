"""Links as plain data: what comes back is what went, what is none is refused, and both sides go by them."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import ProtocolError, ServiceError
from raygrad.scheduler.model.costs import LinkCost
from raygrad.scheduler.model.measured_costs import LINK_FIGURES
from raygrad.service import Server, ServerOptions
from raygrad.service.protocol.plans import links_data, links_of
from raygrad.service.server import session_host
from raygrad.workers.executors.inprocess import InProcessExecutor

from ..servers import here as here, only_session

MEASURED: dict[str, Any] = {
    "call_seconds": 0.0005,
    "follow_seconds": 0.0,
    "store_bandwidth": 8e8,
    "hop_seconds": 0.002,
    "bandwidth": 1e9,
    "links": {("a", "b"): LinkCost(0.001, 1e9), ("b", "a"): LinkCost(0.003, 2e9)},
}


@pytest.mark.parametrize("figures", [{}, MEASURED, {"hop_seconds": 1e-3}])
def test_measured_links_come_back(figures: dict[str, Any]) -> None:
    assert links_of(links_data(figures)) == figures


@pytest.mark.parametrize(
    "data",
    [
        (),
        ((), (), ()),
        ((("recovery_time", 1.0),), ()),
        ((("call_seconds", -1.0),), ()),
        ((("call_seconds", float("nan")),), ()),
        ((("call_seconds", 1),), ()),
        ((("bandwidth", 0.0),), ()),
        ((), (("a", "b", 0.1),)),
        ((), (("a", "b", 0.1, float("inf")),)),
        ((), (("a", 7, 0.1, 1.0),)),
    ],
)
def test_what_is_no_links_is_refused(data: Any) -> None:
    with pytest.raises(ProtocolError):
        links_of(data)


@pytest.mark.usefixtures("here")
def test_both_sides_of_a_session_go_by_the_links_that_the_service_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcessExecutor, "links", lambda self: MEASURED)
    with Server(ServerOptions(port=0, token="secret", workers=2)) as server:
        with rg.Session(server.url, token="secret") as session:
            rg.tensor([1.0, 2.0]).sum().item()
            known = only_session(server)
            for costs in (known._measured.latest, session._driver.costs):
                for name, figure in MEASURED.items():
                    assert getattr(costs, name) == figure, name


@pytest.mark.usefixtures("here")
def test_a_client_learns_nothing_of_links_by_its_own_clock_which_is_another() -> None:
    with Server(ServerOptions(port=0, token="secret", workers=2)) as server:
        with rg.Session(server.url, token="secret") as session:
            driver: Any = session._driver
            driver._ahead += 1e6
            before = session.costs.model
            for _ in range(6):
                rg.tensor([1.0, 2.0]).sum().item()
            known = only_session(server)
            assert known._measured.latest.return_seconds > 0.0, "the server does, by one clock"
            after = session.costs.model
            assert session.costs.runs >= 5
            for name in LINK_FIGURES:
                assert name == "client_seconds" or getattr(after, name) == getattr(before, name), name


@pytest.mark.usefixtures("here")
def test_a_welcome_that_holds_no_links_is_a_service_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_host, "links_data", lambda figures: ((("speed", 1.0),), ()))
    with Server(ServerOptions(port=0, token="secret", workers=1)) as server:
        with pytest.raises(ServiceError, match="speed") as raised:
            rg.Session(server.url, token="secret")
        assert raised.value.code == "version"
