"""Ensembles on a real local Ray: which worker ran which branch, as the run's report shows it."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.report.shown import BACKWARD

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

MEMBERS = 8


class Member(rg.autograd.Function):
    """One member of an ensemble; keeps 2 MB for backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, number: int) -> Any:
        time.sleep(0.03)
        ctx.kept = np.full(250_000, float(number))
        return rg.from_numpy(x.numpy() * number)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(0.03)
        return rg.from_numpy(grad.numpy() * ctx.kept[0]), None


def stacked(x: Any) -> Any:
    return rg.stack([Member.apply(x, number).sum() for number in range(MEMBERS)]).sum()


def folded(x: Any) -> Any:
    loss: Any = 0.0
    for number in range(MEMBERS):
        loss = loss + Member.apply(x, number).sum()
    return loss


@pytest.mark.parametrize("loss_of", [stacked, folded])
def test_workers_run_contiguous_shares_of_the_members_forward_and_backward(ray_started: Any, loss_of: Any) -> None:
    with rg.Session("ray", workers=2) as session:
        x: Any = rg.tensor(np.ones(1000), requires_grad=True)
        run = None
        for _ in range(4):
            x.grad = None
            loss = loss_of(x)
            with session.deferred():
                loss.backward()
            gradient: Any = x.grad
            assert gradient.numpy().tolist() == [28.0] * 1000
            run = session.last_run
        assert run is not None
        report = run.wait().report()
        ran: dict[str, list[int]] = {"forward": [], "backward": []}
        homes: dict[int, int] = {}
        for segment in report.run.segments:
            homes.update({node: segment.worker for node, _, seconds in segment.nodes if seconds > 0.02})
        for node in sorted(homes):
            ran["backward" if report.graph.kinds[node] == BACKWARD else "forward"].append(homes[node])
        assert len(ran["forward"]) == len(ran["backward"]) == MEMBERS
        assert ran["forward"] == ran["backward"][::-1]
        changes = sum(one != other for one, other in pairwise(ran["forward"]))
        assert changes == 1
        assert abs(ran["forward"].count(0) - MEMBERS // 2) <= 1  # times measured on a busy machine may move one
        assert len(report.run.segments) <= 20
