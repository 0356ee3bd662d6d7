from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raygrad.errors import ExecutionError
from raygrad.proto.ir.program import INTERRUPTED, Call, Pinned, Program, Step
from raygrad.scheduler.model.plan import Cluster
from raygrad.workers.code.shipping import ship, unpack_exception
from raygrad.workers.executors import base
from raygrad.workers.executors.base import (
    Executor,
    ObjectId,
    Report,
    SegmentId,
    Work,
    failed_record,
    offered_resources,
    value_object,
)

from ...graph_nodes import hook_node


class Idle(Executor):
    """An executor that does nothing."""

    def start(self, work: Work) -> None: ...

    def fetch(self, worker: int, run: int, value: int, after: SegmentId | None, *, requested: bool = False) -> None: ...

    def forget_programs(self, keys: Any) -> None: ...

    def withdraw(self, names: Any) -> None:
        raise NotImplementedError

    def unpin(self, worker: int, values: Sequence[Pinned]) -> None: ...

    def poll(self, timeout: float) -> list[Report]:
        return []

    def read(self, name: ObjectId, timeout: float | None) -> Any: ...

    def drop(self, name: ObjectId) -> None: ...

    @property
    def busy(self) -> bool:
        return False

    def stored_bytes(self) -> int:
        return 0

    def pids(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None: ...


def step(fn: str) -> Step:
    return Step(0, hook_node(fn, (0,), (0,)), (0,), ())


def test_a_program_s_code_is_found_by_the_names_of_its_steps():
    executor = Idle(Cluster.of(1))
    shipped = ship(lambda grad: grad)
    executor.learn(shipped.fingerprint, shipped.shipment)
    program = Program(1, (), (), (), (), (step("@" + shipped.fingerprint), step("@unknown"), step("add")), (), (), ())
    assert executor.code_of(program) == {shipped.fingerprint: shipped.shipment}


def test_code_not_named_for_long_is_forgotten(monkeypatch: Any):
    monkeypatch.setattr(base, "CODE_CACHE_SIZE", 2)
    executor = Idle(Cluster.of(1))
    shipment = ship(lambda grad: grad).shipment
    for name in ("a", "b", "a", "c"):
        executor.learn(name, shipment)
    program = Program(1, (), (), (), (), (step("@a"), step("@b"), step("@c")), (), (), ())
    assert list(executor.code_of(program)) == ["a", "c"]


def test_the_object_of_a_pinned_value_is_named_apart_from_those_of_segments():
    assert value_object(3, 7) not in {ObjectId(3, segment, 7) for segment in range(3)}


def test_the_record_of_a_call_that_could_not_run_carries_the_error():
    record = failed_record(Call(1, 2, 0, b"", ()), "worker 0", 7, ValueError("x"))
    assert (record.run, record.segment, record.status, record.worker) == (1, 2, "failed", "worker 0")
    assert record.failure is not None
    error = unpack_exception(record.failure.exception)
    assert type(error) is ValueError
    assert error.args == ("x",)


def test_an_interrupt_is_not_raised_again_from_its_record():
    record = failed_record(Call(1, 2, 0, b"", ()), "worker 0", 7, KeyboardInterrupt(), interrupted=True)
    assert record.failure is not None
    assert record.failure.type == "KeyboardInterrupt"
    assert record.failure.index == INTERRUPTED
    assert type(unpack_exception(record.failure.exception)) is ExecutionError


def test_workers_offer_what_their_options_ask_of_ray():
    options = {"num_cpus": 2, "memory": None, "resources": {"fpga": 1}, "max_concurrency": 4}
    assert offered_resources(options) == (("fpga", 1.0), ("num_cpus", 2.0))
    assert offered_resources({}) == ()
