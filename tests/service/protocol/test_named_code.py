"""Code that a service is allowed to import runs by name, and nothing is unpickled that the other side has sent."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ServiceError
from raygrad.service import Server, ServerOptions
from raygrad.service.client import remote
from raygrad.service.protocol import closed_tensors, named_code
from raygrad.service.protocol.connection import EncodedMessage, MessageConnection
from raygrad.service.protocol.messages import LearnNamed
from raygrad.service.protocol.named_code import CodeName, NamedModules
from raygrad.service.protocol.resumable_connection import ResumableConnection
from raygrad.workers.code import nested_tensors, unpickling
from raygrad.workers.interpreter import compiler
from raygrad.workers.values import device_staging

from .. import allowed_programs as allowed
from ..other_programs import Elsewhere
from ..servers import server_process

MODULE = allowed.__name__


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a service in a process of its own that allows one module, and no pickles."""
    with server_process(token="secret", allow=(MODULE,)) as (url, _):
        yield url


@pytest.fixture(scope="module")
def trusting() -> Iterator[str]:
    """The address of a service that takes code by value."""
    with server_process(token="secret", allow_pickle=True) as (url, _):
        yield url


@pytest.fixture
def near() -> Iterator[Server]:
    """The same in this process, whose log can be read."""
    with Server(ServerOptions(port=0, token="secret", workers=1, allow=(MODULE,))) as server:
        yield server


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The lines of the service's log."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logger = logging.getLogger("raygrad.service")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def plain(value: Any) -> Any:
    if isinstance(value, rg.Tensor):
        return plain(value.detach().numpy())
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


NAMES = ("scaled", "node", "leaf", "mine")


def outcome(program: Any, *, address: str, **options: Any) -> Any:
    seen: list[Any] = []
    with rg.Session(address, **options) as session:
        for name in NAMES:
            session.on(name, lambda value, name=name: seen.append((name, plain(value))))
        found = plain(program())
    return found, seen


# ---- what passes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", allowed.PROGRAMS.values(), ids=list(allowed.PROGRAMS))
def test_programs_of_an_allowed_module_run_without_pickles(url: str, program: Any) -> None:
    expected = outcome(program, address="local", workers=2, strict=True)
    assert outcome(program, address=url, token="secret") == expected


def test_errors_of_an_allowed_module_keep_type_and_attributes(url: str) -> None:
    with rg.Session(url, token="secret"):
        with pytest.raises(allowed.Broken, match="number 7 is broken") as raised:
            allowed.Refusing.apply(rg.ones(2), 7).numpy()
        assert raised.value.number == 7
        assert isinstance(raised.value.__cause__, KeyError)
        assert any("test_named_code.py" in note for note in raised.value.__notes__)


def test_nothing_is_unpickled_that_came(near: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides are of this process, so that every pickle which is opened is known here: none is on the wire."""
    sent: list[bytes] = []
    opened: list[bytes] = []
    real_send = MessageConnection.send_encoded

    def noting(self: MessageConnection, message: EncodedMessage) -> None:
        sent.append(b"".join([bytes(piece) for piece in message.pieces]))
        real_send(self, message)

    def load(data: bytes, classes: Any, captured: Any) -> Any:
        opened.append(bytes(data))
        return real(data, classes, captured)

    real = unpickling.load
    monkeypatch.setattr(MessageConnection, "send_encoded", noting)
    for module in (unpickling, nested_tensors, compiler, device_staging, closed_tensors):
        monkeypatch.setattr(module, "load", load)
    for program in allowed.PROGRAMS.values():
        outcome(program, address=near.url, token="secret")
    whole = b"".join(sent)
    opened = [one for one in opened if len(one) > 12]
    assert len(sent) > 50
    assert len(opened) > 20
    assert [one for one in opened if one in whole] == []


def test_that_test_would_see_a_pickle(trusting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    real = MessageConnection.send_encoded

    def noting(self: MessageConnection, message: EncodedMessage) -> None:
        sent.append(b"".join([bytes(piece) for piece in message.pieces]))
        real(self, message)

    monkeypatch.setattr(MessageConnection, "send_encoded", noting)
    outcome(allowed.scaled, address=trusting, token="secret", allow_pickle=True)
    assert b"\x80\x05" in b"".join(sent)


# ---- what does not -------------------------------------------------------------------------------------------------


class Mine(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def redefined(grad: Any) -> Any:  # pyright: ignore[reportRedeclaration]
    return grad


kept_before = redefined


def redefined(grad: Any) -> Any:
    return grad * 2


REFUSED: dict[str, tuple[Any, str, str]] = {
    "a module that is not listed": (lambda: Mine.apply(rg.ones(2)), "not allowed", "--allow"),
    "what an allowed module imports": (lambda: Elsewhere.apply(rg.ones(2)), "not allowed", "other_programs"),
    "a lambda": (lambda: hooked_by(lambda grad: grad), "not importable", "top of a module"),
    "a partial": (lambda: hooked_by(allowed.partly), "not importable", "no name"),
    "an instance": (lambda: hooked_by(Caller()), "not importable", "no name"),
    "another than stands there": (lambda: hooked_by(kept_before), "not importable", "redefined"),
    "an argument": (lambda: allowed.Scaled.apply(rg.ones(2), 1.0, allowed.Strange()), "value", "argument 2 of Scaled"),
    "inside an argument": (
        lambda: allowed.Scaled.apply(rg.ones(2), 1.0, {"k": [1, allowed.Strange()]}), "value", r"\['k'\]\[1\]",
    ),
    "a function as an argument": (
        lambda: allowed.Scaled.apply(rg.ones(2), 1.0, [lambda: 1]), "value", "code without a name",
    ),
    "a function of another module": (
        lambda: allowed.Scaled.apply(rg.ones(2), 1.0, [plain]), "not allowed", "--allow",
    ),
    "an emit of the client": (lambda: (rg.emit("x", allowed.Strange()), rg.ones(2) + 1)[1], "value", "rg.emit"),
    "an emit of a Function": (lambda: allowed.EmitsStrange.apply(rg.ones(2)), "value", "rg.emit.'strange'"),
    "one of many emits": (lambda: allowed.EmitsMuchAndStrange.apply(rg.ones(2)), "value", "rg.emit.'strange'"),
    "an output": (lambda: use(allowed.ReturnsStrange.apply(rg.ones(2))[1]), "value", "Strange"),
}  # fmt: skip


class Caller:
    def __call__(self, grad: Any) -> Any:
        return grad


def use(value: Any) -> Any:
    assert isinstance(value, allowed.Strange)
    return rg.ones(2)


def hooked_by(hook: Any) -> Any:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return x.grad


@pytest.mark.parametrize("case", REFUSED)
def test_each_refusal_is_told_and_logged(near: Server, lines: list[str], case: str) -> None:
    program, code, said = REFUSED[case]
    with rg.Session(near.url, token="secret"):
        with pytest.raises(ServiceError, match=said) as raised:
            program().numpy()
        assert raised.value.code == code
        assert "--allow" in str(raised.value)
        assert (rg.ones(2) + 1).numpy().tolist() == [2.0, 2.0]  # the session goes on
    refused = [line for line in lines if f"refused: {code}" in line]
    assert len(refused) == 1, lines


def test_registered_kernels_have_no_names(near: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    class Registered:
        name = "tanh"

    monkeypatch.setattr(named_code, "customised", lambda: [Registered()])
    with rg.Session(near.url, token="secret"), pytest.raises(ServiceError, match="'tanh'") as raised:
        allowed.Scaled.apply(rg.ones(2), 1.0, None)
    assert raised.value.code == "not importable"


def test_another_source_is_refused(near: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "source_digest", lambda module: b"another")
    with rg.Session(near.url, token="secret"), pytest.raises(ServiceError, match="same version") as raised:
        allowed.Scaled.apply(rg.ones(2), 1.0, None)
    assert raised.value.code == "other source"


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        (MODULE, "os.system"),
        (MODULE, "Elsewhere"),
        (MODULE, "Scaled.forward.__globals__"),
        (MODULE, "Scaled.__init_subclass__"),
        (MODULE, "partly"),
        (MODULE, "np.load"),
        (MODULE, "rg.load"),
        (MODULE, ""),
        (MODULE, "Mode.PLUS"),
        (MODULE, "Scaled.__dict__"),
        (f"{MODULE}.os", "system"),
        ("os", "system"),
        ("builtins", "eval"),
        ("subprocess", "run"),
        ("raygrad", "load"),
    ],
)
def test_no_chain_of_attributes_leads_out_of_a_module(
    near: Server, monkeypatch: pytest.MonkeyPatch, module: str, qualname: str
) -> None:
    real = ResumableConnection.send

    def other(self: ResumableConnection, message: Any, **how: Any) -> None:
        if isinstance(message, LearnNamed):
            message = replace(message, module=module, qualname=qualname)
        real(self, message, **how)

    monkeypatch.setattr(ResumableConnection, "send", other)
    with rg.Session(near.url, token="secret"), pytest.raises(ServiceError) as raised:
        allowed.Scaled.apply(rg.ones(2), 1.0, None)
    assert raised.value.code in ("not allowed", "not importable")


def test_the_client_imports_nothing_for_what_comes() -> None:
    modules = NamedModules()
    modules.add("antigravity")
    with pytest.raises(ServiceError):
        modules.found(CodeName("antigravity", "geohash"))
    assert "antigravity" not in sys.modules


def test_a_module_that_cannot_be_imported_stops_the_start() -> None:
    with pytest.raises(ValueError, match=r"no\.such\.module"):
        Server(ServerOptions(port=0, allow=("no.such.module",)))
    with pytest.raises(ValueError, match="__main__"):
        ServerOptions(allow=("__main__",))


def test_errors_of_other_classes_than_those_that_may_be_named_are_no_classes() -> None:
    modules = NamedModules()
    assert named_code.error_class(CodeName("os", "error"), modules) is None
    assert named_code.error_class(CodeName("builtins", "SystemExit"), modules) is None
    assert named_code.error_class(CodeName("builtins", "KeyError"), modules) is KeyError
