"""Bare actors give what the programs of the benchmark of ensembles give by hand, in each of their ways."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.ray


@pytest.fixture
def files(ray_started, monkeypatch: pytest.MonkeyPatch):
    """The files of the benchmark, sent to actors by value, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    pickled = importlib.import_module("ray.cloudpickle")
    names = ("programs", "by_hand", "bare_actors")
    found = {name: importlib.import_module(f"ensemble_{name}") for name in names}
    for module in found.values():
        pickled.register_pickle_by_value(module)
    yield SimpleNamespace(**found)
    for module in found.values():
        pickled.unregister_pickle_by_value(module)
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


def test_all_ways_of_bare_actors_have_the_bits_of_one_process(files):
    work = files.programs.Work(2, 3, 1_000)
    bare = files.bare_actors.BareActors()
    for program in (
        files.programs.Ensemble("seven", 7, work, 300, slow=5.0),
        files.programs.Ensemble("one", 1, work, 300, numbered=True),
        files.programs.Pipeline("pipeline", 6, 3, work, 200),
    ):
        expected = files.by_hand.stepping(program, files.by_hand.in_one_process(program))
        steps = [files.by_hand.stepping(program, way) for way in bare.begin(program).values()]
        for _ in range(2):
            wanted = expected()
            for step in steps:
                got = step()
                assert got.loss == wanted.loss
                assert [grad.tobytes() for grad in got.grads] == [grad.tobytes() for grad in wanted.grads]
    bare.close()
