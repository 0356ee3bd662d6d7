"""Errors of planning name what the user wrote, and where (DR-09)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.client.submission.node_names import added_name, node_name
from raygrad.errors import PlanError
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import CheckDefined, Emit, GradSum, Load, Node, Spill
from raygrad.proto.ir.specs import ArraySpec

from ...graph_nodes import function_node, function_vjp_node, hook_node, op_node, op_vjp_node, plain_node


class Twice(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class Heavy(Twice):
    resources: ClassVar = {"fpga": 1}


class OnGpu(Twice):
    devices: ClassVar = ("cuda",)


def test_each_kind_has_its_words() -> None:
    def name(node: Node) -> str:
        return node_name(node, None, {"@f": "Solve"}.__getitem__)

    assert name(op_node("mul")) == "'mul'"
    assert name(op_vjp_node("mul")) == "the backward of 'mul'"
    assert name(function_node("@f")) == "'Solve'"
    assert name(function_vjp_node("@f")) == "the backward of 'Solve'"
    assert name(hook_node("@f")) == "the hook 'Solve'"
    assert name(plain_node(Emit)) == "an emit"
    assert name(plain_node(GradSum)) == "a sum of gradients"
    assert name(plain_node(CheckDefined)) == "the check 'defined' of a gradient"


def test_nodes_of_a_plan_are_called_by_what_they_do() -> None:
    nodes = (
        op_node("mul", (0, 0)),  # makes 1
        function_node("@f", (1,), (0, 0)),  # makes 2 and 3
        op_node("exp", (6,)),  # makes 4, of what was loaded
        plain_node(Spill, (3,)),  # makes 5
        plain_node(Load, (5,)),  # makes 6
        op_node("mul", (0, 0)),  # makes 7
        plain_node(Spill, (7,)),  # makes 8
        plain_node(Spill, (0,)),
    )
    graph = Graph((ArraySpec((4,), "float64"),), (0,), nodes, ())
    sites: list[Any] = ["a.py:1", "a.py:2", "a.py:3", *[None] * 5]
    names = [added_name(graph, index, range(3, 8), sites, {"@f": "Solve"}.__getitem__) for index in range(3, 8)]
    assert names == [
        "the spill of what 'Solve' (a.py:2) made",
        "the load from disk of what 'Solve' (a.py:2) made",
        "the rematerialisation of 'mul' (a.py:1)",
        "the spill of what 'mul' (a.py:1) made",
        "the spill of an input",
    ]


def lines(function: Callable[..., Any], text: str) -> list[int]:
    """Return the lines of a function that contain a text."""
    source, first = inspect.getsourcelines(function)
    return [first + number for number, line in enumerate(source) if text in line]


def no_resources(session: Any) -> None:
    Heavy.apply(rg.ones(2))  # here


def no_device(session: Any) -> None:
    OnGpu.apply(rg.ones(2))  # here


def no_memory(session: Any) -> None:
    y = rg.ones(1_000_000) + 1.0  # here
    y.tolist()


def two_pins(session: Any) -> None:
    Twice.apply(rg.ones(2, requires_grad=True))
    with session.deferred():
        with rg.place(worker=0):
            y = Twice.apply(rg.ones(2, requires_grad=True))  # here
        with rg.place(worker=1):
            y.sum().backward()
    session.run()


def compiled(session: Any) -> None:
    @session.compile
    def step(x: Any) -> Any:
        return Heavy.apply(x)  # here

    step(rg.ones(2))


REFUSED: list[tuple[Callable[[Any], None], str, str]] = [
    (no_resources, "'Heavy'", r"asks for fpga 1, and no worker offers it .*: ask for less in Heavy\.resources, or let"),
    (
        no_device,
        "'OnGpu'",
        r"asks for device cuda, and no worker offers it .*: let workers serve it with Session\(gpus=",
    ),
    (no_memory, "'add'", r"has memory=1000000 and needs memory=\d+, most of all for .* Give it that much"),
    (two_pins, "the backward of 'Twice'", r"must run on worker 1 and on worker 0: .* beside 'Twice' .* leave `rg\.pla"),
    (compiled, "'Heavy'", "asks for fpga 1, and no worker offers it"),
]


@pytest.mark.parametrize(("program", "name", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("strict", [False, True])
def test_what_cannot_be_planned_is_named_with_its_line_and_the_fix(
    program: Callable[[Any], None], name: str, message: str, strict: bool
) -> None:
    with rg.Session(workers=2, strict=strict, memory=1_000_000) as session:
        with pytest.raises(PlanError, match=message) as raised:
            program(session)
        (line,) = lines(program, "# here")
        assert re.search(rf"{name} \(\S*test_node_names\.py:{line} in \w+\)", str(raised.value))
        assert "@" not in str(raised.value)
        assert (rg.ones(2) * 3.0).tolist() == [3.0, 3.0]  # it goes on


def test_an_explanation_that_cannot_be_made_names_them_too() -> None:
    with use_stand_in(1), rg.Session(workers=2, gpus=1) as session:
        x = rg.ones(2, device="cuda")
        with rg.place(worker=1):
            y = x + 1.0  # here
        line = lines(test_an_explanation_that_cannot_be_made_names_them_too, "# here")[0]
        for options in ({}, {"workers": 4, "gpus": 1}):
            with pytest.raises(
                PlanError, match=rf"^'add' \(\S*test_node_names\.py:{line} in test_an_expl\w+\) must run on worker 1"
            ):
                session.explain(y, **options)
        del y
