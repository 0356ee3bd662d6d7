"""An exception of user code is the same one eagerly, in process and by value: type, message and arguments (DR-09)."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .errors_alike import HARD, LONG, parts, raised_in

NAMES = [name for name in HARD if name != "long"]


@pytest.fixture(autouse=True)
def _hooks_capture_what_they_raise() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.parametrize("where", ["forward", "backward", "hook"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_raised_is_what_is_raised_eagerly(session: Any, name: str, where: str) -> None:
    expected = parts(raised_in(name, where))
    with session:
        assert parts(raised_in(name, where)) == expected
        assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0]  # once, and the session goes on


def test_a_long_message_arrives_whole_and_is_quoted_in_part(session: Any) -> None:
    with session:
        error = raised_in("long", "forward")
        assert type(error) is ValueError
        assert error.args == ("x" * LONG,)
        assert sum(map(len, error.__notes__)) < LONG // 10
        assert "more characters" in "".join(error.__notes__)


def test_on_a_thread_of_a_worker_an_interrupt_is_an_exception_like_any_other() -> None:
    class Interrupts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, ends: bool) -> Any:
            if ends:
                raise KeyboardInterrupt("a")
            return x * 2.0

    found: list[BaseException] = []

    def program() -> None:
        with rg.Session() as session:
            try:
                Interrupts.apply(rg.ones(2), True).tolist()
            except BaseException as error:
                found.append(error)
            found.append(ValueError(Interrupts.apply(rg.ones(2), False).tolist()))
            assert session.last_run is not None

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [KeyboardInterrupt, ValueError]
    assert found[0].args == ("a",)


def test_what_cannot_be_pickled_is_raised_itself_in_process() -> None:
    lock = threading.Lock()

    class Holds(Exception):
        held = lock

    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise Holds("a", lock)

    with rg.Session(), pytest.raises(Holds) as raised:
        Fails.apply(rg.ones(2)).tolist()
    assert raised.value.args == ("a", lock)


TEXTS = {"surrogates": "a\ud800b", "long": "x" * (70 << 20), "long surrogates": "\udc80" * (1 << 20)}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts_travel_as_arguments_in_contexts_emits_and_results(session: Any, text: str) -> None:
    class Takes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, one: str, some: dict[str, Any]) -> Any:
            ctx.one = one, some
            rg.emit("one", one)
            return x * float(len(one)), one

        @staticmethod
        def backward(ctx: Any, grad: Any, _text: Any) -> Any:
            one, some = ctx.one
            assert some == {one: [one]}
            rg.emit("one", one)
            return grad * float(len(one)), None, None

    seen: list[Any] = []
    with session:
        session.on("one", seen.append)
        x: Any = rg.tensor([1.0], requires_grad=True)
        y, back = Takes.apply(x, text, {text: [text]})
        y.sum().backward()
        assert x.grad.tolist() == np.array([len(text)], np.float32).tolist()
        assert back == text
    assert seen == [text, text]


def test_a_name_of_an_emit_that_is_too_long_is_refused_eagerly_too(session: Any) -> None:
    with pytest.raises(ValueError, match=r"a name of up to 4,096 characters, got one of 5,000"):
        rg.emit("x" * 5000, 1)
    with session, pytest.raises(ValueError, match="send a text as the value"):
        rg.emit("x" * 5000, 1)


def test_names_of_emits_and_of_functions_may_hold_surrogates(session: Any) -> None:
    class Named(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.emit("a\ud800b", 1)
            return x * 2.0

    def hook(grad: Any) -> Any:
        return grad * 2.0

    hook.__name__ = hook.__qualname__ = "h\udc80"
    seen: list[Any] = []
    with session:
        session.on("a\ud800b", seen.append)
        x: Any = rg.tensor([1.0], requires_grad=True)
        x.register_hook(hook)
        Named.apply(x).tolist()
        (x * 3.0).sum().backward()
        assert x.grad.tolist() == [6.0]
    assert seen == [1]


@pytest.mark.parametrize("filename", ["b\udc80.py"])
def test_code_of_a_file_whose_name_is_no_text_can_fail_and_warn(session: Any, filename: str) -> None:
    space: dict[str, Any] = {"rg": rg}
    source = (
        "class Fails(rg.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, how):\n"
        "        if how:\n"
        "            raise ValueError('a')\n"
        "        return x * 2.0\n"
        "def program():\n"
        "    return [Fails.apply(rg.ones(2), how) for how in (False, True)][1].tolist()\n"
    )
    exec(compile(source, filename, "exec"), space)
    with session:
        with pytest.raises(ValueError, match="a"):
            space["program"]()
        assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0]
