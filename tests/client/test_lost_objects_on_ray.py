"""What is lost with the object store of a node (H13): it is made again, with the same bits, and told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.client.test_life_with_ray import run_alone

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

PROGRAM = """
from ray.cluster_utils import Cluster
from raygrad.client.session.session import executor_of

class Piece(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, number):
        rg.emit("forward", number)
        y = rg.tanh(x * w + number / 7)
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, w, y = ctx.saved_tensors
        inner = grad * (1 - y * y)
        rg.emit("backward", float(inner.numpy().sum()))
        return inner * w, inner * x, None

small = {"num_cpus": 1, "object_store_memory": 80_000_000}
checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
cluster = Cluster(
    initialize_head=True, head_node_args={**small, "include_dashboard": False, "_system_config": checks}
)
other = cluster.add_node(**small)

def gradient(session, lose):
    "Contexts of pieces on the other node are in its store when that goes away."
    emitted = []
    for name in ("forward", "backward"):
        session.on(name, lambda value, name=name: emitted.append((name, value)))
    executor = executor_of(session)
    away = next(index for index, node in enumerate(executor.node_ids()) if node != executor.host)
    x, w = (rg.from_numpy(np.linspace(0.1, end, 20_000)).requires_grad_() for end in (1.0, 2.0))
    Piece.apply(x, w, 0).sum().item()  # shows that its context pickles
    with rg.place(worker=away):
        pieces = [Piece.apply(x, w, number) for number in range(6)]
    loss = sum([piece.sum() for piece in pieces])
    loss.item()
    if lose:
        cluster.remove_node(other, allow_graceful=False)
        cluster.add_node(**small)
    loss.backward()
    found = [w.grad.numpy().tobytes(), x.grad.numpy().tobytes(), *[one.detach().numpy().tobytes() for one in pieces]]
    return found, sorted(emitted), session.last_run
"""


def test_what_was_in_the_store_of_a_node_that_is_gone_is_made_again(tmp_path: Path) -> None:
    program = (
        PROGRAM
        + """
with rg.Session("ray:" + cluster.address, workers=2) as session:
    undisturbed = gradient(session, False)
with rg.Session("ray:" + cluster.address, workers=2) as session:
    disturbed = gradient(session, True)
    assert disturbed[0] == undisturbed[0]
    assert disturbed[1] == undisturbed[1], (disturbed[1], undisturbed[1])
cluster.shutdown()
"""
    )
    run_alone(program, tmp_path)
