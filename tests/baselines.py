"""The schedulers and the check of schedules in benchmarks/, for tests of placement."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _loaded(name: str) -> ModuleType:
    file = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_baselines = _loaded("baselines")
cpop, heft, peft = _baselines.cpop, _baselines.heft, _baselines.peft
WorkerTimeline, optimistic_cost_table = _baselines.WorkerTimeline, _baselines.optimistic_cost_table
check_schedule = _loaded("schedule_checks").check_schedule
