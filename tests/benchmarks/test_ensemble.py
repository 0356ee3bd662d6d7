"""The benchmark of ensembles: the programs by hand, as raygrad records them and as rivals run them give the same."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import raygrad as rg
from raygrad.autograd.core.gradient_sum import balanced_sum

FOLDER = Path(__file__).parents[2] / "benchmarks"
QUEUE = "bare actors, ray.wait queue"
SEISMIC = FOLDER.parent / "examples" / "seismic"


@pytest.fixture(scope="module")
def files():
    """The files of the benchmark, imported as `run.py` does, and forgotten afterwards with what they import."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(FOLDER))
        before = set(sys.modules)
        names = ("programs", "by_hand", "seismic", "sleeping", "verdicts")
        yield SimpleNamespace(**{name: importlib.import_module(f"ensemble_{name}") for name in names})
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent in (FOLDER, SEISMIC):
                del sys.modules[name]


def small(files):
    """Return one program of each kind, which takes no time."""
    work = files.programs.Work(2, 3, 1_000)
    ensemble, durations = files.programs.Ensemble, tuple(1.0 + index for index in range(7))
    return [
        ensemble("plain", 6, work, 300),
        ensemble("numbered", 7, work, 300, numbered=True),
        ensemble("uneven", 7, work, 300, numbered=True, durations=durations),
        ensemble("slow", 16, work, 300, slow=5.0),
        files.programs.Pipeline("pipeline", 5, 3, work, 200),
        files.seismic.Seismic("seismic", 3, 60),
    ]


def by_hand(files, program):
    return files.by_hand.stepping(program, files.by_hand.in_one_process(program))


@pytest.mark.parametrize("number", range(6))
def test_a_program_by_hand_has_the_bits_of_the_recorded_one(files, number):
    program = small(files)[number]
    step = by_hand(files, program)
    with rg.Session(workers=2) as session:
        afresh, replayed = (program.recorded(session, compiled=compiled) for compiled in (False, True))
        for _ in range(3):
            wanted = step()
            for got in (afresh(), replayed()):
                assert got.loss == wanted.loss
                assert [grad.tobytes() for grad in got.grads] == [grad.tobytes() for grad in wanted.grads]


def test_inputs_repeat_after_the_steps_that_a_program_says(files):
    for program in small(files)[:5]:
        step = by_hand(files, program)
        steps = [step() for _ in range(files.programs.PERIOD + 2)]
        for number, outcome in enumerate(steps):
            first = steps[program.same_as(number)]
            assert outcome.loss == first.loss
            assert all(np.array_equal(*pair) for pair in zip(outcome.grads, first.grads, strict=True))
        assert steps[0].loss != steps[1].loss


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sums_of_any_division_of_branches_among_workers_are_those_of_one_tree(files, data):
    branches = data.draw(st.integers(1, 40))
    owner = data.draw(st.lists(st.integers(0, 3), min_size=branches, max_size=branches))
    grads = np.random.default_rng(branches).standard_normal((branches, 5))
    parts = [
        files.by_hand.merged(
            {
                files.by_hand.leaf_of_tree(index, branches): [grads[index]]
                for index in range(branches)
                if owner[index] == w
            },
            branches,
        )
        for w in range(4)
    ]
    wanted = balanced_sum([grads[index] for index in reversed(range(branches))], np.add)
    (got,) = files.by_hand.total(parts, branches)
    assert got.tobytes() == wanted.tobytes()


def test_a_workers_block_of_branches_comes_back_as_one_sum(files):
    for branches in (8, 16, 64):
        first, second = files.by_hand.blocks_of(branches, 2)
        assert [*first, *second] == list(range(branches))
        for block in (first, second):
            leaves = {files.by_hand.leaf_of_tree(index, branches): [np.ones(1)] for index in block}
            assert len(files.by_hand.merged(leaves, branches)) == 1


def test_one_branch_of_each_step_takes_longer_and_another_one_each_time(files):
    program = small(files)[3]
    slow = [program.factors(number) for number in range(files.programs.PERIOD)]
    assert all(sorted(factors) == [1.0] * 15 + [5.0] for factors in slow)
    assert len({factors.index(5.0) for factors in slow}) == files.programs.PERIOD


def test_work_is_calibrated_to_the_time_of_a_core_that_is_asked_for(files):
    work = files.programs.calibrated((0.004, 0.008), 80_000, 1_000)
    assert 1.5 < work.backward / work.forward < 3.0
    x = np.linspace(0.1, 0.9, 1_000)
    assert files.programs.forward(work, x, 0.0, 1.0)[1].nbytes == work.kept_bytes == 80_000
    assert 0.001 < files.programs.fastest(lambda: files.programs.forward(work, x, 0.0, 1.0)) < 0.016


def figures(files, **medians):
    """Return results of all subjects: one second each, but for those given."""
    result = importlib.import_module("measure").Result
    subjects = {"by_hand": "by hand, one process", "queue": QUEUE, "block": "a call per worker"}
    subjects |= {"torch": "torch rpc", "first": files.verdicts.FIRST, "second": files.verdicts.SECOND}
    subjects |= {"afresh": files.verdicts.AFRESH, "compiled": files.verdicts.COMPILED}
    return [result("w | step", name, *[medians.get(key, 1.0)] * 3, 1) for key, name in subjects.items()]


def judged(files, case, one_run=0.1, **medians):
    results = files.verdicts.held_against(case, [QUEUE, "a call per worker"], figures(files, **medians))
    return {verdict.claim: verdict for verdict in files.verdicts.verdicts(case, results, one_run)}


def test_figures_are_held_against_the_fastest_way_of_bare_actors(files):
    case = files.verdicts.Case(small(files)[0], 3)
    found = judged(files, case, queue=2.0, afresh=1.1, compiled=1.06, second=1.15, first=1.36, torch=1.2)
    assert {claim: verdict.holds for claim, verdict in found.items()} == {
        "raygrad / bare actors": True,
        "raygrad, session.compile / bare actors": False,
        "raygrad, second step / bare actors": True,
        "raygrad, first step": True,
        "raygrad / torch rpc": True,
    }
    assert found["raygrad, session.compile / bare actors"].row()[2:] == ("1.06", "<= 1.05", "falls short")
    assert not judged(files, case, afresh=1.1, first=1.37)["raygrad, first step"].holds


def test_what_is_not_known_before_is_held_against_the_queue(files):
    case = files.verdicts.Case(small(files)[3], 3, afresh=1.15, against=QUEUE)
    found = judged(files, case, queue=2.0, block=1.0, afresh=2.2, torch=1.0)
    assert {claim: verdict.holds for claim, verdict in found.items()} == {
        f"raygrad / {QUEUE}": True,
        "raygrad / torch rpc": False,
    }


def test_a_rival_that_is_not_there_is_named_and_not_judged(files):
    assert files.verdicts.not_measured("Dask futures", "distributed is not installed").row() == (
        "all programs",
        "raygrad / Dask futures",
        "distributed is not installed",
        "< 1",
        "not measured",
    )


def test_the_slowest_step_after_the_first_of_sleepers_counts(files):
    cases = files.sleeping.cases("ray:host:1", quick=False)
    slept = [files.sleeping.Slept(case, (5.2, 4.0, case.most + 0.1, 4.0)) for case in cases]
    found = files.verdicts.verdicts_of_sleep(slept)
    assert [verdict.holds for verdict in found] == [True, False] * 3 + [False] * 4
    assert found[-1].row()[1:] == ("slowest of steps 2 to 4", "4.30 s", "<= 4.2 s", "falls short")


def test_arguments_of_sleepers_are_new_in_every_call_where_they_are_said_to_be(files):
    for case in files.sleeping.cases("local", quick=True):
        arguments = files.sleeping.numbers(case)
        drawn = [next(arguments) for _ in range(3 * case.branches)]
        assert len(set(drawn)) == (case.branches if case.arguments == "constant" else len(drawn))
        assert {type(one) for one in drawn} == {int if case.arguments == "ints" else float}
