from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import raygrad as rg
from raygrad.workers.code.bytecode import writes_items
from raygrad.workers.code.effects import ADDS, READS, REPLACES, gradient_effects, name_changed_by

TABLE = {"a": 1}
SEEN: list[Any] = []


def reads(key: str) -> int:
    return TABLE[key]


def appends(value: Any) -> None:
    SEEN.append(value)


def stores(value: Any) -> None:
    def inner() -> None:
        TABLE["b"] = value

    inner()


def test_reading_is_no_writing():
    assert not writes_items(reads.__code__)


def test_methods_that_change_and_stores_are_writing_also_in_inner_functions():
    assert writes_items(appends.__code__)
    assert writes_items(stores.__code__)


class Counter:
    limit = 3

    def __init__(self) -> None:
        self.count = 0

    def up(self) -> None:
        self.count += 1

    def read(self) -> int:
        return self.count


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def scaled(self, value: float) -> float:
        return value * self.rate


COUNTER, SETTINGS = Counter(), Settings(1.0)
total = 0


def installed(obj: Any) -> bool:
    return getattr(obj, "__module__", "") != __name__


def counts_with_nonlocal() -> Any:
    seen = 0

    def hook(grad: Any) -> None:
        def inner() -> None:
            nonlocal seen
            seen += 1

        inner()

    return hook


def counts_in_a_global(grad: Any) -> None:
    global total
    total += 1


def counts_on_an_object(grad: Any) -> None:
    COUNTER.count += 1


def sets_on_an_object(grad: Any) -> None:
    COUNTER.other = grad  # type: ignore[attr-defined]


def sets_deeper(grad: Any) -> None:
    SETTINGS.rate.real.imag = grad  # type: ignore[misc]


def calls_a_method_that_counts(grad: Any) -> None:
    COUNTER.up()


def calls_who_counts(grad: Any) -> None:
    counts_in_a_global(grad)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (counts_with_nonlocal(), "seen"),
        (counts_in_a_global, "total"),
        (counts_on_an_object, "count"),
        (sets_on_an_object, "other"),
        (sets_deeper, "imag"),
        (calls_a_method_that_counts, "count"),
        (calls_who_counts, "total"),
        (COUNTER.up, "count"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_code_that_changes_what_outlives_its_call_is_found_with_the_name(code: Any, name: str):
    assert name_changed_by(code, installed) == name


def forward_like(ctx: Any, x: Any) -> Any:
    ctx.rate = SETTINGS.rate
    ctx.rate += 1
    own = Counter()
    own.up()
    own.count = 4
    total = 0

    def inner() -> None:
        nonlocal total
        total += 1

    inner()
    return SETTINGS.scaled(x)


@pytest.mark.parametrize("code", [forward_like, SETTINGS.scaled, lambda grad: grad * SETTINGS.rate, reads])
def test_code_that_changes_its_arguments_and_what_it_makes_itself_changes_nothing_that_stays(code: Any):
    assert name_changed_by(code, installed) is None


class Reenters:
    @staticmethod
    def forward(x: Any) -> Any:
        return x

    @classmethod
    def back(cls, y: Any) -> None:
        y.backward()


class Derived(Reenters):
    pass


class Holds:
    def __init__(self, run: Any) -> None:
        self.run = run

    @property
    def taken(self) -> Any:
        return self.run.grad


def replaces(w: Any) -> None:
    def inner() -> None:
        w.grad = None

    inner()


def calls(y: Any) -> None:
    Derived.back(y)


def test_what_code_may_do_with_gradients_is_told_by_the_names_that_it_reaches() -> None:
    import textwrap

    assert gradient_effects(reads) == gradient_effects(textwrap.dedent) == gradient_effects(len) == 0
    for code in (Reenters, Derived, calls, lambda y: calls(y), Holds(calls), {"f": [calls]}, Reenters.back):
        assert gradient_effects(code) & ADDS, code
    assert gradient_effects(replaces) == ADDS | READS | REPLACES
    assert gradient_effects(Holds) == gradient_effects(Holds(reads)) == READS


class Solver:
    """A solver of the user's with an adjoint, which has nothing to do with autograd."""

    def __init__(self, pace: float) -> None:
        self.pace = pace

    def backward(self, kept: Any) -> Any:
        return kept * self.pace

    @staticmethod
    def grad(kept: Any) -> Any:
        return kept + 1


class Reentering(Solver):
    def backward(self, kept: Any) -> Any:
        kept.backward()


def backward(kept: Any) -> Any:
    return 2 * kept


SOLVER, REENTERING = Solver(2.0), Reentering(2.0)


def of_own_names() -> list[Any]:
    inner = SOLVER

    def within(kept: Any) -> Any:
        def deeper() -> Any:
            return SOLVER.backward(kept)

        return inner.backward(deeper())

    return [
        lambda kept: backward(kept),
        lambda kept: SOLVER.backward(kept),
        lambda kept: Solver.grad(kept),
        lambda kept: Solver.backward(SOLVER, kept),
        within,
    ]


@pytest.mark.parametrize("code", of_own_names())
def test_functions_of_the_user_that_have_a_name_of_autograds_count_by_what_they_do(code: Any) -> None:
    assert gradient_effects(code) == 0


def test_what_a_name_may_mean_counts_where_that_is_not_sure() -> None:
    def shadowed(kept: Any) -> Any:
        SOLVER = kept

        def inner() -> Any:
            SOLVER.backward()

        return inner()

    def imported(kept: Any) -> Any:
        from raygrad.autograd import backward

        backward(kept)

    def attribute_of_attribute(kept: Any) -> Any:
        pace: Any = SOLVER.pace
        pace.backward(kept)

    space: dict[str, Any] = {"rg": rg, "backward": rg.autograd.backward, "Solver": Solver, "leaf": rg.zeros(())}
    texts = ["rg.autograd.backward(y)", "backward(y)", "missing.backward(y)", "y.backward()", "Solver(1.0).backward(y)"]
    for text in [*texts, "leaf.backward()", "[one.backward() for one in y]"]:
        exec(f"def step(y):\n    {text}", space)
        assert gradient_effects(space["step"]) & ADDS, text
    for code in (shadowed, imported, lambda kept: REENTERING.backward(kept), attribute_of_attribute):
        assert gradient_effects(code) & ADDS


def test_functions_of_modules_are_looked_into() -> None:
    module: Any = ModuleType("steps")
    module.inner, module.other = calls, replaces
    space: dict[str, Any] = {"steps": module}
    exec("def step(y):\n    steps.inner(y)", space)
    assert gradient_effects(space["step"]) == ADDS
