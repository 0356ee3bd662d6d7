"""What fails in a node that a plan has added arrives as what it is: a full disk, a damaged file, a second run."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import DiskFull, ExecutionError
from raygrad.workers.values.spill_file import SpillFile


class Keeps(rg.autograd.Function):
    """Saves as much as it reads."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.sin())
        return x * 1.5

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (saved,) = ctx.saved_tensors
        return grad * saved


def chain() -> Any:
    """Need more memory than the sessions of this file have, and return the gradient."""
    x: Any = rg.tensor(np.arange(30_000.0), requires_grad=True)
    made, last = [], x
    for _ in range(6):
        last = Keeps.apply(last)
        made.append(last.exp())
    sum([one.sum() for one in made], (last * 2.0).sum()).backward()
    return x.grad.numpy()


@contextmanager
def disk_of(size: int) -> Generator[None]:
    """Let no file of this process grow beyond a size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(params=[{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}], ids=["one", "two", "strict"])
def limited(request: pytest.FixtureRequest) -> Any:
    session = rg.Session(memory="2MB", **request.param)
    yield session
    session.close(discard=True)


def step_of(parameter: Any) -> None:
    (parameter * parameter).sum().backward()
    rg.optim.SGD([parameter], lr=1.0).step()
    parameter.grad = None


WHERE = (
    r"raised (on worker \d around the run of|by node|by the (spill|load from disk) of what) "
    r".*'(Keeps|exp|mul|sum|full)( \(vjp\))?'.*[ (].*test_planned_nodes_fail.py:\d+ in (chain|<listcomp>)"
)


def note_of(error: Any) -> str:
    return "\n".join(note for note in error.__notes__ if note.startswith("raygrad: raised"))


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
def test_a_full_disk_is_told_and_the_session_goes_on(limited: Any, warm: bool) -> None:
    parameter: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    with limited:
        step_of(parameter)
        expected = chain() if warm else None
        with disk_of(100_000), pytest.raises(DiskFull, match=r"could not be spilled.*File too large") as error:
            chain()
        assert "set TMPDIR" in str(error.value)
        assert re.search(WHERE, note_of(error.value))
        assert parameter.tolist() == [-1.0, -2.0]
        step_of(parameter)
        again = chain()
        assert expected is None or again.tobytes() == expected.tobytes()
    assert parameter.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("method", ["write", "read"])
def test_each_spill_and_load_of_a_plan_says_of_what(limited: Any, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    done = getattr(SpillFile, method)
    notes: list[str] = []
    with limited:
        expected = chain()
        for failing in range(12):
            count = 0

            def fails(self: Any, *args: Any, failing: int = failing) -> Any:
                nonlocal count
                count += 1
                if count == failing + 1:
                    raise ExecutionError("no more")
                return done(self, *args)

            monkeypatch.setattr(SpillFile, method, fails)
            try:
                chain()
            except ExecutionError as error:
                notes.append(note_of(error))
            monkeypatch.undo()
        assert chain().tobytes() == expected.tobytes()
    assert notes
    assert not [note for note in notes if not re.search(WHERE, note)]
    what = "spill" if method == "write" else "load from disk"
    assert any(f"raised by the {what} of what" in note and "the plan of run" in note for note in notes)
