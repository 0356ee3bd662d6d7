"""Forward must not write to the arrays of its arguments unsaid: one rule, eagerly and in sessions (DR-03, PP-15)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import AutogradError

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "in process": rg.Session,
    "strict": lambda: rg.Session(strict=True),
}


def item(x: Any) -> None:
    x.numpy()[0] = 5.0


def in_place(x: Any) -> None:
    array = x.numpy()
    array += 1.0


def out(x: Any) -> None:
    np.negative(x.numpy(), out=x.numpy())


def of_a_view(x: Any) -> None:
    x[1:].numpy()[:] = 3.0


def of_an_alias(x: Any) -> None:
    x.detach().numpy().fill(3.0)


def as_array(x: Any) -> None:
    np.asarray(x)[0] = 5.0


def by_read(x: Any) -> None:
    x.read()[0] = 5.0


WRITES = [item, in_place, out, of_a_view, of_an_alias, as_array, by_read]


def writing(write: Callable[[Any], None], **flags: Any) -> Any:
    class Writes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            write(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    for name, value in flags.items():
        setattr(Writes, name, value)
    return Writes


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("write", WRITES)
def test_dr_03_a_write_that_is_not_marked_is_refused(mode: Any, write: Any) -> None:
    x = rg.ones(3)
    with (
        mode(),
        pytest.raises(AutogradError, match=r"Writes changed an argument in place without saying so.*mark_dirty"),
    ):
        writing(write).apply(x).tolist()
    assert x.tolist() == [1, 1, 1]
    assert x.numpy().flags.writeable


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_dr_03_a_write_that_is_marked_changes_the_argument(mode: Any) -> None:
    class Marks(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.numpy()[0] = 5.0
            return x

    x = rg.ones(2)
    with mode():
        assert Marks.apply(x).tolist() == [5, 1]
        assert x.tolist() == [5, 1]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_dr_03_copies_and_what_forward_made_are_its_own(mode: Any) -> None:
    class Copies(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            made, copy = x * 2.0, x.numpy().copy()
            made.numpy()[0] = 7.0
            copy[1] = 9.0
            return made, rg.from_numpy(copy)

    x = rg.ones(2)
    with mode():
        assert [one.tolist() for one in Copies.apply(x)] == [[7, 2], [1, 9]]
        assert writing(item, writable_inputs=True).apply(x).tolist() == [5, 1]
        assert x.tolist() == [1, 1]
