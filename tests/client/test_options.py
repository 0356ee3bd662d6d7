"""What users pass to sessions is refused where they pass it, with what was given and what is taken."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.client.options import shown
from raygrad.errors import NotShippable, SessionError

HUGE = 10**30
NAN = float("nan")

SESSIONS: list[tuple[str, list[Any], type[Exception]]] = [
    ("address", [7, b"local"], TypeError),
    ("address", ["", "ray:", "ray:host", "ray:host:", "ray::6379", "ray:host:abc", "ray:host:0", "Local"], ValueError),
    ("address", ["ray:host:99999", "ray://host:10001", "ray://host", "ray:ho st:1", " ray"], ValueError),
    ("address", ["ray: host:1", "ray:::1:6379", "ray:host:\u0663", "auto", "ray:auto", "host:6379"], ValueError),
    ("workers", ["a", 1.5, True, [2]], TypeError),
    ("workers", [-1, 0, HUGE], ValueError),
    (
        "memory",
        [b"1MB", "9" * 5000, object(), {"worker 7": 1}, {0.5: 1}, {None: 1}, {0: [1]}, "1MB per GPU"],
        ValueError,
    ),
    ("gpu_memory", [-5, "1GB per worker", b"1", {7: 1}, [1]], ValueError),
    ("gpus", ["a", 1.5, True], TypeError),
    ("gpus", [-1, 3, HUGE], ValueError),
    ("memory", ["a", 1.5, True, NAN, -5, 0, [], [1], [1, 0], [1, "a"], {7: 1}], ValueError),
    ("strict", ["yes", None, 2], TypeError),
    ("sync", ["no", None, 0.0], TypeError),
    ("seed", ["a", None, 1.5, True], TypeError),
    ("timeout", ["a", True, [1]], TypeError),
    ("timeout", [-1, 0, NAN], ValueError),
    ("recovery_time", ["a", True, [1]], TypeError),
    ("recovery_time", [-1, NAN], ValueError),
    ("blas_threads", ["a", 1.5, None, True], TypeError),
    ("blas_threads", [0, -1, HUGE], ValueError),
    ("costs", [7, b"x"], TypeError),
    ("costs", [""], ValueError),
    ("worker_options", ["a", [{}], {"num_cpus": "a"}, {"num_cpus": True}, {"resources": [1]}], TypeError),
    ("worker_options", [{"resources": {"a": "b"}}, {"resources": {1: 1}}], TypeError),
    ("worker_options", [{"nosuch": 1}, {1: 1}, {"num_cpus": -1}, {"memory": NAN}, {"resources": {"": 1}}], ValueError),
    ("wokers", [2], ValueError),
    ("runtime_env", [{}], ValueError),
]


@pytest.mark.parametrize(
    ("name", "value", "kind"), [(name, value, kind) for name, values, kind in SESSIONS for value in values]
)
def test_an_option_that_is_none_is_refused_naming_it_and_what_was_given(
    name: str, value: Any, kind: type[Exception]
) -> None:
    options: dict[str, Any] = {"workers": 2, name: value}
    with pytest.raises(kind) as raised:
        rg.Session(**options)
    assert name in str(raised.value) or name == "address"
    if name not in ("wokers", "runtime_env"):
        given = value if not isinstance(value, list | dict) else next(iter(value), value)
        assert re.search(re.escape(str(given)[:20]), str(raised.value))


@pytest.mark.parametrize(
    "options",
    [
        {"nosuch": 1},
        {"runtime_env": 3},
        {"object_store_memory": 0},
        {"worker_options": {"num_cpus": -1}},
        {"worker_options": {"max_restarts": 3}},
    ],
)
def test_options_for_ray_are_checked_before_ray_is_looked_for(options: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        rg.Session("ray", **options)


NONE_FOR_RAY: list[Any] = [
    {"memory": -1},
    {"memory": "2XB"},
    {"memory": 1.5},
    {"memory": []},
    {"memory": ["1MB"] * 3, "workers": 2},
    {"memory": {5: "1MB"}, "workers": 2},
    {"memory": {"worker x": "1MB"}},
    {"memory": {-1: "1MB"}},
    {"memory": {0: "much"}},
    {"gpu_memory": "1GB"},
    {"gpu_memory": "1GB", "gpus": 0},
    {"gpu_memory": "much", "gpus": 1},
    {"gpus": HUGE},
    {"worker_options": {"num_cpu": 1}},
    {"worker_options": {"num_gpus": 1.5}},
    {"worker_options": {"resources": {"CPU": 1}}},
    {"worker_options": {"label_selector": 5}},
    {"worker_options": {"scheduling_strategy": "SPRAED"}},
    {"worker_options": {"name": "mine"}},
    {"worker_options": {"lifetime": "detached"}},
    {"worker_options": {"runtime_env": {"env_vars": {"A": 1}}}},
    {"runtime_env": {"env_vars": {"A": 1}}},
    {"runtime_env": {"working_dir": "/no/such/folder"}},
    {"placement_group": "mine"},
    {"object_store_memory": 10**6},
    {"object_store_memory": "1GB"},
    {"blas_threads": 0},
    {"saved": "nowhere"},
    {"strict": True},
]


@pytest.mark.parametrize("options", NONE_FOR_RAY)
def test_whatever_is_wrong_is_told_before_a_ray_is_started_or_joined(
    monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    pytest.importorskip("ray")
    executor: Any = importlib.import_module("raygrad.workers.executors.ray.executor")

    def connect(*_: Any) -> None:
        raise AssertionError("Ray is about to be used")

    monkeypatch.setattr(executor, "connect", connect)
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        rg.Session("ray", **options)


def test_an_object_store_is_for_a_ray_that_is_started_here() -> None:
    with pytest.raises(ValueError, match=r"object_store_memory=.*'ray:127\.0\.0\.1:1' is running"):
        rg.Session("ray:127.0.0.1:1", object_store_memory=10**9)


def test_the_address_of_ray_client_is_told_from_that_of_a_ray() -> None:
    with pytest.raises(ValueError, match=r"Ray Client, which is not used.*'ray:HOST:PORT'"):
        rg.Session("ray://host:10001")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("timeout", "a", TypeError), ("timeout", 0, ValueError), ("timeout", NAN, ValueError), ("sync", 1, TypeError)],
)
def test_what_can_be_set_later_is_checked_too(name: str, value: Any, kind: type[Exception]) -> None:
    with rg.Session() as session, pytest.raises(kind, match=rf"session\.{name} takes"):
        setattr(session, name, value)


@pytest.mark.parametrize(
    "options",
    [
        {"workers": np.int64(2), "memory": 10**6, "seed": -1, "timeout": np.float64(5.0)},
        {"memory": [None, 10**6], "workers": 2, "seed": HUGE, "timeout": float("inf"), "strict": np.True_},
        {"recovery_time": None},
        {"recovery_time": 0, "timeout": None},
        {"timeout": HUGE, "worker_options": {"num_cpus": 0, "resources": {"fpga": 0.5}}},
    ],
)
def test_what_means_something_is_taken(options: Any) -> None:
    with rg.Session(**options):
        assert (rg.ones(2) * 3.0).tolist() == [3.0, 3.0]


emit: Any = rg.emit
"""As users may call it, whatever its types say."""

CALLS: list[tuple[Any, type[Exception], str]] = [
    (lambda s, y: s.explain(y, workers="a"), TypeError, r"explain\(workers=\.\.\.\) takes .* got 'a'"),
    (lambda s, y: s.explain(y, workers=-1), ValueError, r"explain\(workers=\.\.\.\) takes .* got -1"),
    (lambda s, y: s.explain(y, workers=0), ValueError, "got 0"),
    (lambda s, y: s.explain(y, workers=HUGE), ValueError, "from 1 to 100,000"),
    (lambda s, y: s.explain(y, workers=1.5), TypeError, "got 1.5"),
    (lambda s, y: s.explain(y, gpus="a"), TypeError, r"explain\(gpus=\.\.\.\) takes .* got 'a'"),
    (lambda s, y: s.explain(y, gpus=-1), ValueError, "got -1"),
    (lambda s, y: s.explain([y]), TypeError, "takes tensors, got .* give each as an argument"),
    (lambda s, y: s.explain(None), TypeError, "takes tensors, got None"),
    (lambda s, y: s.run(1), TypeError, r"session\.run takes tensors, got 1"),
    (lambda s, y: s.on(1, print), TypeError, "takes a name, a string, got 1"),
    (lambda s, y: s.on("", print), ValueError, "got an empty one"),
    (lambda s, y: s.on("a", None), TypeError, r"session\.on\('a', handler\) takes a function of the value, got None"),
    (lambda s, y: s.compile(y), TypeError, "compile takes a function"),
    (lambda s, y: s.put(object()), TypeError, r"session\.put takes an array of numbers"),
    (lambda s, y: s.put("abc"), TypeError, r"session\.put takes an array of numbers, got 'abc'"),
    (lambda s, y: s.put([1, [2]]), TypeError, r"session\.put takes an array of numbers"),
    (
        lambda s, y: rg.place(worker=True).__enter__(),
        TypeError,
        "a worker, takes a whole number of at least 0, got True",
    ),
    (lambda s, y: emit(7, 1), TypeError, r"rg\.emit\(name, value\) takes a name, a string, got 7"),
    (lambda s, y: rg.emit("a", iter(n for n in [1])), NotShippable, r"^rg\.emit\('a', \.\.\.\) at .*test_options\.py"),
    (lambda s, y: s.close(discard="x"), TypeError, r"close\(discard=\.\.\.\) takes True or False, got 'x'"),
    (lambda s, y: s.run(y).wait("a"), TypeError, r"run\.wait\(timeout\) takes a number of seconds.* got 'a'"),
    (lambda s, y: s.run(y).wait(-1), ValueError, "got -1"),
    (lambda s, y: s.run(y).trace(7), TypeError, r"run\.trace\(path\) takes the path of a file, got 7"),
    (lambda s, y: s.run(y).report().save(7), TypeError, "save takes the path of a file"),
    (lambda s, y: s.explain(y).save(None), TypeError, "save takes the path of a file"),
    (lambda s, y: s.explain(y).save("plan"), ValueError, "by the ending of the path, .* but 'plan' ends in ''"),
    (lambda s, y: s.costs.save(None), TypeError, r"costs\.save\(path\) takes the path"),
    (lambda s, y: s.costs.load(""), ValueError, "got an empty one"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_an_argument_that_is_none_is_refused_and_the_session_goes_on(
    call: Any, kind: type[Exception], message: str
) -> None:
    with rg.Session(workers=2) as session:
        y = rg.ones(2) * 2.0
        with pytest.raises(kind, match=message):
            call(session, y)
        assert y.tolist() == [2.0, 2.0]


def test_a_closed_session_says_so_wherever_it_is_used() -> None:
    session = rg.Session(workers=1)
    session.close()
    for use in (session.explain, lambda: session.put([1.0]), session.start, session.compile(lambda: None)):
        with pytest.raises(SessionError, match="closed"):
            use()


def test_a_session_that_was_started_twice_is_ambient_no_more_once_it_is_closed() -> None:
    session = rg.Session(workers=1).start()
    session.start()
    session.close()
    assert state.recorder is None
    assert (rg.ones(2) * 3.0).tolist() == [3.0, 3.0]


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_shown_does_not_hide_what_is_wrong_with_it() -> None:
    with pytest.raises(TypeError, match=r"timeout=.*\(its repr raised RuntimeError\) \(Unshown\)"):
        rg.Session(timeout=Unshown())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"workers=.*\(its repr raised ValueError\) \(int\)"):
        rg.Session(workers=10**5000)


def test_what_was_given_is_shown_cut_with_its_type() -> None:
    assert shown("a") == "'a' (str)"
    assert len(shown("a" * 1000)) < 80
