from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices.serving import backend_for_kind, disable_cuda, serve
from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import DeviceError
from raygrad.proto.codec.values import pack_values, unpack_values
from raygrad.proto.ir.program import Call, Item, Pinned, Program, Record
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.code.shipping import ship
from raygrad.workers.executors.ray import actor as module
from raygrad.workers.executors.ray.actor import WorkerActor
from raygrad.workers.process.blas_threads import release_blas
from raygrad.workers.values.packed_values import POISON, WITHDRAWN
from raygrad.workers.values.wire import Order, compact, decode_answer, encode_call, encode_order, encode_program


class Leaves(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        sys.exit(3)


class OnThread(Function):
    """Returns the thread that it ran on."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(np.full(4, float(threading.get_ident())))


@pytest.fixture
def actor(monkeypatch: Any) -> Any:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "9")
    with warnings.catch_warnings():  # an actor takes over those of its process
        yield WorkerActor("worker 5", 1)
    release_blas(1)
    gc.unfreeze()


def program_of(g: Any) -> Program:
    return Planner(Cluster.of(1)).plan(g.graph(), (-1,) * len(g.externals), b"key").programs[0]


def order(*calls: Call, number: int = 1, after: tuple[int, ...] = (), exports: int = 0) -> Any:
    """Return an order to run calls; the program was message 0."""
    frames = tuple([compact(encode_call(call)) for call in calls])
    return encode_order(Order(number, after, exports, frames))


def call(*externals: Any, run: int = 1) -> Call:
    return Call(run, 0, 0, b"key", externals)


def records_of(answer: Any) -> list[Record]:
    """Return the records of an answer of which no call was withdrawn."""
    records = decode_answer(answer)
    assert None not in records
    return [record for record in records if record is not None]


def test_what_its_process_has_loaded_is_left_out_of_the_collector_s_walks(actor: Any):
    assert gc.get_freeze_count() > 10_000


def test_a_call_returns_its_record_and_its_objects(actor: Any, graphs: Any):
    g = graphs(2)
    g.keep(g.mul(0, 1), in_store=True)
    actor.load(0, {b"key": compact(encode_program(program_of(g)))}, {})
    answer, packed = actor.run(*order(call(Item(0, 0), np.full(4, 2.0)), exports=1), pack_values([np.arange(4.0)]))
    (record,) = records_of(answer)
    assert (record.status, record.worker, record.pid) == ("done", "worker 5", os.getpid())
    assert unpack_values(packed)[0].tolist() == [0, 2, 4, 6]


def test_calls_of_one_order_run_in_turn_and_are_answered_together(actor: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    actor.load(0, {b"key": encode_program(program_of(g))}, {})
    answer = actor.run(*order(call(np.full(4, 2.0)), call(Pinned(1, out), run=2), call(Pinned(7, out), run=3)))
    assert isinstance(answer, bytes)
    first, second, third = records_of(answer)
    assert (first.run, second.run, third.run) == (1, 2, 3)
    assert second.results[0][1].tolist() == [16.0] * 4
    assert third.status == "failed"


def test_an_order_waits_for_the_messages_that_it_names(actor: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    actor.load(0, {b"key": encode_program(program_of(g))}, {})
    answers: list[Any] = []
    late = order(call(Pinned(1, out), run=2), number=2, after=(1,))
    thread = threading.Thread(target=lambda: answers.append(actor.run(*late)))
    thread.start()
    actor.run(*order(call(np.full(4, 3.0)), number=1))
    thread.join(10)
    assert records_of(answers[0])[0].results[0][1].tolist() == [81.0] * 4


def test_user_code_runs_on_one_thread_whoever_calls(actor: Any, graphs: Any):
    shipped = ship(OnThread)
    g = graphs()
    out = g.call(shipped.fingerprint, 0)
    g.keep(out)
    actor.load(0, {b"key": encode_program(program_of(g))}, {shipped.fingerprint: shipped.shipment})
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(actor.run(*order(call(np.ones(4), run=n), number=n))))
        for n in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    ran = {records_of(answer)[0].results[0][1][0] for answer in answers}
    assert len(ran) == 1
    assert ran.isdisjoint([float(thread.ident or 0) for thread in threads])


def test_what_follows_a_message_that_never_comes_is_skipped(actor: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    actor.load(0, {b"key": encode_program(program_of(g))}, {})
    actor.abandon_message(1, (Pinned(1, out),))
    (record,) = records_of(actor.run(*order(call(Pinned(1, out), run=2), number=2, after=(1,))))
    assert record.status == "skipped"


def test_calls_of_a_program_that_cannot_be_read_fail_with_the_reason(actor: Any):
    actor.load(0, {b"key": b"damaged"}, {})
    for number in (1, 2):
        (record,) = records_of(actor.run(*order(call(), number=number, after=(0,))))
        assert record.failure is not None
        assert (record.status, record.failure.type) == ("failed", "ProtocolError")


def test_a_program_that_cannot_be_read_is_in_the_way_of_no_other_that_came_with_it(actor: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    actor.load(0, {b"other": b"damaged", b"key": encode_program(program_of(g))}, {})
    (record,) = records_of(actor.run(*order(call(np.ones(4)), after=(0,))))
    assert record.status == "done"


def test_code_that_leaves_the_process_fails_its_segment_only(actor: Any, graphs: Any):
    shipped = ship(Leaves)
    g = graphs()
    g.keep(g.call(shipped.fingerprint, 0), in_store=True)
    actor.load(0, {b"key": encode_program(program_of(g))}, {shipped.fingerprint: shipped.shipment})
    answer, packed = actor.run(*order(call(np.ones(4)), exports=1))
    (record,) = records_of(answer)
    assert record.failure is not None
    assert (record.status, record.failure.type) == ("failed", "SystemExit")
    assert packed is POISON


def test_a_pinned_value_is_fetched_until_it_is_unpinned(actor: Any, graphs: Any):
    g = graphs()
    out = g.mul(0, 0)
    g.keep(out)
    actor.load(0, {b"key": encode_program(program_of(g))}, {})
    actor.run(*order(call(np.ones(4))))
    (ok, size, left), packed = actor.fetch(1, out, False)
    assert (ok, left) == (True, ())
    assert size >= 32
    assert unpack_values(packed)[0].tolist() == [1.0] * 4
    actor.unpin(2, (), (Pinned(1, out),))
    assert actor.fetch(1, out, False) == ((False, 0, ()), POISON)


def test_a_worker_says_who_and_where_it_is_and_limits_its_blas(actor: Any):
    assert actor.hello(lambda: "here") == (os.getpid(), "here")
    assert {os.environ[f"{library}_NUM_THREADS"] for library in ("OMP", "OPENBLAS", "MKL")} == {"1"}


def test_a_worker_serves_the_gpus_that_it_was_given(actor: Any):
    before = serve(None)
    try:
        missing, classes = actor.serve((3,), True)
        assert (missing, dict(classes)["cuda"]) == ("", "simulated")
        assert list(backend_for_kind("cuda").numbers()) == [3]
        missing, classes = actor.serve((), True)
        assert (missing, [kind for kind, _ in classes]) == ("", ["cpu"])
        with pytest.raises(DeviceError, match="worker 5 of this session serves no GPU"):
            backend_for_kind("cuda")
    finally:
        disable_cuda("")
        serve(before)


def test_the_repository_is_taken_off_the_path_of_a_worker(monkeypatch: Any, tmp_path: Path):
    marker = Path("proto", "ir", "graph.py")
    assert (Path(__file__).resolve().parents[4] / marker).exists(), "a file by which the repository is known"
    (tmp_path / marker).parent.mkdir(parents=True)
    (tmp_path / marker).touch()
    monkeypatch.setattr(module, "__file__", str(tmp_path.joinpath("workers", "executors", "ray", "actor.py")))
    monkeypatch.setattr(sys, "path", ["/elsewhere", str(tmp_path), "/last"])
    module._remove_repository_from_path()
    assert sys.path == ["/elsewhere", "/last"]


def test_of_the_calls_of_a_message_those_that_are_withdrawn_do_not_run(actor: Any, graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    actor.load(0, {b"key": encode_program(program_of(g))}, {})
    assert actor.withdraw([(1, (0, 2), False)]) == (1,)
    calls = [call(np.full(4, float(n)), run=n) for n in range(3)]
    records = decode_answer(actor.run(*order(*calls, number=1)))
    assert [None if record is None else record.run for record in records] == [None, 1, None]
    assert actor.withdraw([(1, (1,), False)]) == ()


def test_what_reads_what_was_withdrawn_is_withdrawn_too_and_said_when_asked(actor: Any, graphs: Any):
    g = graphs(2)
    g.keep(g.mul(0, 1), in_store=True)
    actor.load(0, {b"key": compact(encode_program(program_of(g)))}, {})
    assert actor.withdraw([(1, (0,), True)]) == (1,)
    reads = call(Item(0, 0), np.full(4, 2.0))
    nothing, made = actor.run(*order(reads, number=1, exports=1), pack_values([np.arange(4.0)]))
    assert (nothing, made) == (None, WITHDRAWN)
    nothing, made = actor.run(*order(reads, number=2, exports=1), made)
    assert (nothing, made) == (None, WITHDRAWN)
    assert actor.withdraw([(2, (0,), True)]) == (2,)
    answer, _ = actor.run(*order(reads, number=3, after=(1, 2), exports=1), pack_values([np.arange(4.0)]))
    assert records_of(answer)[0].status == "done"


def test_placeholders_of_what_was_withdrawn_are_the_same_in_every_process():
    assert pickle.loads(pickle.dumps(WITHDRAWN)) is WITHDRAWN
