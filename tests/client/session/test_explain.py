"""`session.explain`: what would be submitted, and nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import PlanError
from raygrad.scheduler.explain.explanation import Reason


def test_explaining_submits_nothing_and_changes_nothing() -> None:
    with rg.Session(workers=2) as session:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        with session.deferred():
            loss = (x * 3.0).sum()
            loss.backward()
        first, second = session.explain(), session.explain()
        assert first == second
        assert session.last_run is None
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
        assert session.last_run is not None
        assert session.last_run.number == 1
        assert session.last_run.nodes == len(first.graph.names)
        assert session.last_run.plan.predicted_seconds == first.plan.seconds


def test_tensors_restrict_it_to_what_they_need() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0])
        a = x.exp()
        b, _other = a * 2.0, x.tanh()
        assert set(session.explain(b).graph.names) == {"exp", "mul"}
        assert set(session.explain(a).graph.names) == {"exp"}
        assert set(session.explain(a, _other).graph.names) == {"exp", "tanh"}
        assert set(session.explain().graph.names) == {"exp", "mul", "tanh"}


def test_what_was_submitted_or_is_no_result_needs_nothing() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0])
        y = x.exp()
        assert y.item() > 0
        for explanation in (session.explain(y), session.explain(x), session.explain()):
            assert explanation.plan.segments == ()
            assert explanation.summary()[0].startswith("Nothing would be submitted")


def test_it_takes_tensors_only() -> None:
    with (
        rg.Session(workers=1) as session,
        pytest.raises(TypeError, match=r"explain takes tensors, got .*ndarray"),
    ):
        session.explain(np.ones(2))  # pyright: ignore[reportArgumentType]


def test_values_of_earlier_runs_and_pins_are_reasons() -> None:
    with rg.Session(workers=2) as session:
        x = rg.tensor(np.ones(4))
        with rg.place(worker=1):
            y = x.exp()
        assert session.explain().plan.node_reason == (Reason.PINNED,)
        session.run(y).wait(30)
        with rg.place(worker=0):
            y.tanh()
        z = y * 2.0
        explanation = session.explain(z)
        assert explanation.plan.segments[0].worker == 1
        assert explanation.graph.places[0].startswith("tests")


class Halve(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(x.numpy() / 2)

    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype


class Third(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(x.numpy() / 3)


def test_functions_that_were_waited_for_are_named_unless_they_infer() -> None:
    with rg.Session(workers=1) as session:
        for size in (1, 2):
            x = rg.tensor(np.ones(size))
            Halve.apply(x)
            assert Third.apply(x).shape == (size,)
        Third.apply(rg.tensor(np.ones(2)))
        assert [(waited.name, waited.waits) for waited in session.explain().infer] == [("Third", 2)]


def test_passes_and_steps_that_are_deferred_go_with_the_next_read() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        optimiser = rg.optim.SGD([x], lr=0.5)
        with session.deferred():
            (x * x).sum().backward()
            optimiser.step()
            optimiser.zero_grad()
            (x * 3.0).sum().backward()
        assert session.last_run is None
        assert x.tolist() == [0.0, 0.0]
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
        assert session.last_run is not None
        assert session.last_run.number == 1
        (x * x).sum().backward()  # submits again
        assert session.last_run.number == 2


@pytest.mark.ray
def test_explained_and_reported_on_ray(tmp_path: Any) -> None:
    with rg.Session("ray", workers=2) as session:
        x = rg.tensor(np.linspace(0.0, 1.0, 20_000), requires_grad=True)
        with session.deferred():
            with rg.place(worker=0):
                y = (x * 2.0).tanh()
            with rg.place(worker=1):
                loss = (y.exp() * 2.0).sum()
            loss.backward()
        explanation = session.explain()
        run = session.run().wait(60)
        report = run.report()
        assert {one.status for one in report.run.segments} == {"done"}
        assert len(report.run.segments) == len(explanation.plan.segments) > 1
        assert report.run.moved
        assert {one.target for one in report.run.moved} == {one.target for one in explanation.plan.moved}
        for one in report.run.segments:
            assert 0 <= one.sent <= one.start <= one.end <= one.came <= report.run.seconds
            assert one.inputs + one.seconds + one.outputs > 0
        assert all(offset.seconds == 0.0 for offset in session.clocks.values())  # one machine, one clock
        assert run.trace(tmp_path / "run.json").stat().st_size > 1000


def test_other_machines_are_planned_for_and_simulated() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor(np.ones((400, 400)))
        ends = [x @ (x * float(branch)) for branch in range(8)]
        total = ends[0]
        for end in ends[1:]:
            total = total + end
        here = session.explain()
        other = session.explain(total, workers=8).elsewhere
        assert here.elsewhere is None
        assert other is not None
        assert (other.workers, other.gpus) == (8, 0)
        assert other.used > 1
        assert other.moved_bytes > 0
        assert 0 < other.seconds < here.plan.seconds / 2
        text = str(session.explain(total, workers=8, gpus=2))
        assert "What other machines would bring" in text
        assert "On 8 workers, 2 with a GPU, it would take" in " ".join(text.split())
        assert session.last_run is None


def test_other_machines_have_the_memory_of_those_here_and_nodes_go_where_they_fit() -> None:
    with rg.Session(workers=2, memory={0: "100kB"}) as session:
        x = rg.tensor(np.ones((200, 200)))
        plan = session.explain((x * 2.0).sum(), workers=4)
        assert [one.segments for one in plan.plan.workers] == [0, 1]
        assert plan.elsewhere is not None
        assert plan.elsewhere.used == 1
        with pytest.raises(PlanError, match=r"worker 0 has memory=100000 and needs memory=640"):
            session.explain(x * 2.0, workers=1)


def test_more_gpus_than_workers_are_refused() -> None:
    with rg.Session(workers=1) as session:
        rg.tensor([1.0]).exp()
        y = rg.tensor([1.0]).exp()
        with pytest.raises(PlanError, match="3 GPUs need as many workers; there are 2"):
            session.explain(y, workers=2, gpus=3)


def test_hooks_at_the_client_are_named() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0, 2.0], requires_grad=True)

        def look(grad: Any) -> None:
            seen.append(grad.tolist())

        seen: list[Any] = []
        x.register_hook(look, client=True)
        x.register_hook(lambda grad: grad * 2.0)
        assert session.explain().hooks == ()
        for _ in range(2):
            (x * 3.0).sum().backward()
        assert seen == [[3.0, 3.0]] * 2
        assert session.explain().hooks == (("look", 2),)
        assert "Hooks at the client" in str(session.explain())


def test_hooks_at_the_client_are_counted_in_batched_passes_too() -> None:
    def look(grad: Any) -> None:
        assert grad.shape == (2,)

    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3.0
        y.register_hook(look, client=True)
        (g,) = rg.autograd.grad(y, x, rg.tensor(np.eye(2, dtype="float32")), is_grads_batched=True)
        assert g.tolist() == [[3.0, 0.0], [0.0, 3.0]]
        assert session.explain().hooks == (("look", 1),)
