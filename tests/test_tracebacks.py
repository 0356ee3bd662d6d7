"""Tracebacks of errors that leave the package: the user's frames, the line that applied a Function, the error last."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import raygrad as rg
from raygrad import tracebacks
from raygrad.autograd.tensor import tensor

HERE = os.path.abspath(__file__)


class Failing(rg.autograd.Function):
    """Raises in forward of three elements, and in any backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if x.shape[0] == 3:
            raise_something("in forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise_something("in backward")


def raise_something(where: str) -> None:
    raise LookupError(where)


def forward() -> None:
    Failing.apply(rg.ones(3)).tolist()


def backward() -> None:
    x = rg.ones(2, requires_grad=True)
    y = Failing.apply(x)  # applied here
    y.sum().backward()
    assert x.grad is not None
    x.grad.tolist()


def grad() -> None:
    x = rg.ones(2, requires_grad=True)
    y = Failing.apply(x)  # applied here
    rg.autograd.grad(y.sum(), x, create_graph=True)[0].tolist()


def hook() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: raise_something("in a hook"))
    y.sum().backward()
    assert x.grad is not None
    x.grad.tolist()


def unpack() -> None:
    x = rg.ones(2, requires_grad=True)
    with rg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: raise_something("in unpack")):
        y = x * x
    y.sum().backward()


def checkpointed() -> None:
    x = rg.ones(2, requires_grad=True)
    y = rg.utils.checkpoint.checkpoint(Failing.apply, x, use_reentrant=False)
    y.sum().backward()
    assert x.grad is not None
    x.grad.tolist()


def vmapped() -> None:
    rg.vmap(lambda x: raise_something("in vmap"))(rg.ones(2))


def transformed() -> None:
    rg.func.jvp(lambda x: raise_something("in jvp"), (rg.ones(2),), (rg.ones(2),))


def checked() -> None:
    rg.autograd.gradcheck(
        lambda x: raise_something("in gradcheck"), (rg.ones(2, dtype=rg.float64, requires_grad=True),)
    )


def stepped() -> None:
    rg.optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1).step(lambda: raise_something("in a closure"))


def operator() -> None:
    rg.ones(2) + rg.ones(3)  # pyright: ignore[reportUnusedExpression]


def function() -> None:
    rg.matmul(rg.ones(2, 3), rg.ones(2, 3))


def wrong_argument() -> None:
    rg.matmul(rg.ones(2, 3), "text")  # pyright: ignore[reportArgumentType]


def method() -> None:
    rg.ones(2, 3).reshape(7)


def matrix_product() -> None:
    rg.ones(2) @ rg.ones(3)  # pyright: ignore[reportUnusedExpression]


def in_place_operator() -> None:
    x = rg.ones(2)
    x += rg.ones(3)


def in_place() -> None:
    rg.ones(2).add_(rg.ones(3))


def item() -> None:
    rg.ones(2)[5].tolist()


def assigned_item() -> None:
    rg.ones(2)[rg.ones(2)] = 1.0


def sizes() -> None:
    rg.zeros("text")


def missing_argument() -> None:
    Failing.apply()  # pyright: ignore[reportCallIssue]


def no_gradient() -> None:
    rg.autograd.grad(rg.ones(2).sum(), rg.ones(2))


def freed() -> None:
    x = rg.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


def chained() -> None:
    class Chained(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            try:
                raise_something("first")
            except LookupError as error:
                raise ZeroDivisionError("second") from error

    Chained.apply(rg.ones(2)).tolist()


def alone() -> None:
    class Alone(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            try:
                raise_something("first")
            except LookupError:
                raise ZeroDivisionError("second") from None

    Alone.apply(rg.ones(2)).tolist()


PROGRAMS: list[Callable[[], None]] = [
    forward, backward, grad, hook, unpack, checkpointed, vmapped, transformed, checked, stepped, operator, function,
    wrong_argument, method, matrix_product, in_place_operator, in_place, item, assigned_item, sizes, missing_argument,
    no_gradient, freed, chained, alone,
]  # fmt: skip
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "in process": rg.Session,
    "strict": lambda: rg.Session(strict=True),
}


def error_of(program: Callable[[], None], mode: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Exception:
    try:
        with mode():
            program()
    except Exception as error:  # of any kind: the tests look at it
        return error
    raise AssertionError("nothing was raised")


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def line_of(text: str) -> int:
    """Return the number of the first line of this file with a text."""
    with open(HERE, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def check(error: BaseException) -> None:
    """Check that an error shows frames of this file alone, and itself last."""
    text = text_of(error)
    files = [line.split('"')[1] for line in text.splitlines() if line.lstrip().startswith('File "')]
    assert set(files) <= {HERE}, text
    last = text.splitlines()[-1]
    kind = type(error)
    assert last.startswith((f"{kind.__name__}: ", f"{kind.__module__}.{kind.__name__}: ")), text
    assert str(error).splitlines()[-1] in last


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_error_shows_the_users_frames_and_itself_last(program: Callable[[], None], mode: str) -> None:
    check(error_of(program, MODES[mode]))


WRONG_USES: dict[str, Callable[[], Any]] = {
    "a layer": lambda: rg.nn.Linear(3, 2)(rg.ones(1, 4)),
    "layers": lambda: rg.nn.Sequential(rg.nn.Flatten(), rg.nn.Linear(3, 2))(rg.ones(1, 4)),
    "a constructor of layers": lambda: rg.nn.Linear("three", 2),  # pyright: ignore[reportArgumentType]
    "a parameter": lambda: rg.nn.Parameter("text"),
    "an optimiser": lambda: rg.optim.SGD([], lr=0.1),
    "a rate": lambda: rg.optim.Adam([rg.ones(2, requires_grad=True)], lr=-1.0),
    "a schedule": lambda: rg.optim.lr_scheduler.StepLR(3, 1),  # pyright: ignore[reportArgumentType]
    "a device": lambda: rg.cuda.synchronize("cuda:9"),
    "a region": lambda: rg.amp.autocast("text"),
    "a function of torch": lambda: rg.interop.torch.function(3),
    "a function of jax": lambda: rg.interop.jax.function(3),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("use", WRONG_USES.values(), ids=list(WRONG_USES))
def test_modules_optimisers_and_their_kind_show_the_users_frames(use: Callable[[], Any]) -> None:
    check(error_of(use))


class Wrong:
    """What no function takes."""


def public_callables() -> dict[str, Callable[..., Any]]:
    """Return the methods of tensors that raygrad documents, and the functions of its modules, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(rg.Tensor):
        method = getattr(rg.Tensor, name)
        if not isinstance(method, FunctionType) or name in vars(object):
            continue
        if (name[0] != "_" or name[-2:] == "__") and method.__code__.co_filename != OWN_METHODS:
            found[f"Tensor.{name}"] = method
    for module, prefix in ((rg, "rg"), (rg.linalg, "linalg"), (rg.fft, "fft"), (rg.special, "special")):
        found |= {f"{prefix}.{name}": getattr(module, name) for name in dir(module) if name[0] != "_"}
    found |= {f"functional.{name}": function for name, function in vars(rg.nn.functional).items()}
    return {name: one for name, one in found.items() if isinstance(one, FunctionType) and name not in LEFT_OUT}


OWN_METHODS = tensor.__file__
"""Where the methods are that the package itself calls."""

LEFT_OUT = frozenset(("rg.manual_seed", "rg.set_default_dtype", "rg.set_full_tracebacks", "rg.generator"))
"""Functions that change settings of the process."""


def test_each_public_function_and_method_shows_the_users_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of them write files
    wrong: dict[str, str] = {}
    vector, other = rg.ones(2), rg.ones(3)
    tries = [(), (Wrong(),), (vector, Wrong()), (vector, other), (rg.ones(2, 3), "text"), (vector, vector, other)]
    for name, function in public_callables().items():
        for arguments in tries:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*arguments)
            except tracebacks.BUGS:
                continue
            except Exception as error:
                if {frame.filename for frame in traceback.extract_tb(error.__traceback__)} != {HERE}:
                    wrong[name] = text_of(error)
    assert not wrong, f"{sorted(wrong)}\n{next(iter(wrong.values()))}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [backward, grad], ids=["backward", "grad"])
def test_an_error_in_backward_names_the_line_that_applied_the_function(program: Callable[[], None], mode: str) -> None:
    line = line_of("y = Failing.apply(x)  # applied here")
    if program is grad:
        with open(HERE, encoding="utf-8") as file:
            line = [n for n, text in enumerate(file, 1) if text.endswith("# applied here\n")][1]
    text = text_of(error_of(program, MODES[mode]))
    assert f'File "{HERE}", line {line}, in' in text or f"test_tracebacks.py:{line} in {program.__name__}" in text
    assert "raise LookupError(where)" in text


def test_the_line_of_a_function_is_told_also_beyond_other_modes() -> None:
    def under(block: Callable[[], AbstractContextManager[Any]]) -> str:
        x = rg.ones(2, requires_grad=True)
        with block():
            y = Failing.apply(x)
        return text_of(error_of(lambda: y.sum().backward()))

    for block in (
        nullcontext,
        lambda: rg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        lambda: rg.autograd.graph.save_on_cpu(),
    ):
        assert "in under (recorded FailingBackward)\n    y = Failing.apply(x)\n" in under(block)


def test_a_pass_inside_a_backward_tells_both_lines() -> None:
    class Outer(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x = rg.ones(2, requires_grad=True)
            with rg.enable_grad():
                inner = Failing.apply(x).sum()
            inner.backward()

    def outer() -> None:
        Outer.apply(rg.ones(2, requires_grad=True)).sum().backward()

    text = text_of(error_of(outer))
    order = [text.index(part) for part in ("(recorded OuterBackward)", "(recorded FailingBackward)", "in raise_someth")]
    assert order == sorted(order)


def test_causes_and_suppressed_contexts_stay() -> None:
    for mode in MODES.values():
        error = error_of(chained, mode)
        assert type(error.__cause__) is LookupError
        if mode is nullcontext:
            assert "direct cause" in text_of(error)
            assert "raise_something" in text_of(error.__cause__)
            assert "first" not in text_of(error_of(alone, mode))


def test_an_error_is_the_same_object_and_can_be_pickled() -> None:
    class Mine(ValueError):
        pass

    mine = Mine("x", 3)

    class Raising(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise mine

    assert error_of(lambda: Raising.apply(rg.ones(2))) is mine
    error = error_of(operator)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args


@pytest.fixture
def full() -> Iterator[None]:
    rg.set_full_tracebacks(True)
    yield
    rg.set_full_tracebacks(False)


@pytest.mark.parametrize("mode", MODES)
def test_all_frames_are_shown_on_request(full: None, mode: str) -> None:
    text = text_of(error_of(backward, MODES[mode]))
    assert f"raygrad{os.sep}autograd{os.sep}" in text
    assert "raise LookupError(where)" in text
    with pytest.raises(TypeError, match="True or False"):
        rg.set_full_tracebacks(1)  # type: ignore[arg-type]


def test_the_environment_asks_for_all_frames() -> None:
    program = "import raygrad as rg\nrg.ones(2) + rg.ones(3)\n"

    def printed(**variables: str) -> str:
        environment = {**os.environ, **variables}
        environment.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
        ).stderr

    short, long = printed(RAYGRAD_FULL_TRACEBACK="0"), printed(RAYGRAD_FULL_TRACEBACK="1")
    assert short.count("  File ") == 1
    assert short.rstrip().splitlines()[-1].startswith("raygrad.errors.ShapeError: ")
    assert long.count("  File ") > 1


def test_what_shows_a_bug_keeps_its_frames() -> None:
    space = {"__name__": "raygrad.somewhere", "leave": tracebacks.leave}
    source = (
        "def entry(kind):\n"
        "    try:\n"
        "        inside(kind)\n"
        "    except BaseException as error:\n"
        "        leave(error)\n"
        "        raise\n"
        "def inside(kind):\n"
        "    raise kind('unexpected')\n"
    )
    exec(source, space)
    entry: Any = space["entry"]
    expected, unexpected = error_of(lambda: entry(ValueError)), error_of(lambda: entry(KeyError))
    assert [frame.name for frame in traceback.extract_tb(expected.__traceback__)][-1] == "<lambda>"
    assert [frame.name for frame in traceback.extract_tb(unexpected.__traceback__)][-1] == "inside"


def test_a_shown_line_needs_no_source() -> None:
    space: dict[str, Any] = {"Failing": Failing, "rg": rg}
    exec(compile("y = Failing.apply(rg.ones(2, requires_grad=True)).sum()", "<gone>", "exec"), space)
    error = error_of(lambda: space["y"].backward())
    assert 'File "<gone>", line 1, in <module> (recorded FailingBackward)' in text_of(error)
    out = io.StringIO()
    traceback.print_tb(error.__traceback__, file=out)
    assert "<gone>" in out.getvalue()


@pytest.mark.ray
def test_an_error_on_ray_shows_the_users_frames_and_itself_last(ray_started: Any) -> None:
    for program in (forward, backward, hook, operator):
        check(error_of(program, lambda: rg.Session("ray", workers=1)))
