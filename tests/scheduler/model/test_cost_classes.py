from dataclasses import replace

import pytest

from raygrad.proto.ir.nodes import GradSum
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.cost_classes import cost_classes_of
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import PricedGraph

from ...graph_nodes import op_node, op_vjp_node, plain_node


def names(kinds):
    return [kind.name for kind in kinds.kinds]


def prior(kinds):
    return [kind.prior for kind in kinds.kinds]


def test_nodes_of_equal_specs_are_one_class_and_those_of_like_sizes_one_kind(builder):
    build = builder()
    wide = build.spec(ArraySpec((5,), "float64"))
    value = build.op("sin", 0)
    value = build.op("sin", value)
    build.op("sin", value, spec=wide)
    build.op("sin", value, spec=build.spec(ArraySpec((500,), "float64")))
    kinds = cost_classes_of(build.graph(), Costs())
    assert list(kinds.node) == [0, 0, 1, 2]
    assert names(kinds) == ["op sin cpu 6>6", "op sin cpu 6>6", "op sin cpu 6>12"]
    assert prior(kinds) == sorted(prior(kinds))
    assert all(seconds > 0 for seconds in prior(kinds))


def test_user_code_is_named_by_its_fingerprint_and_a_vjp_is_another_kind(builder):
    build = builder()
    context, output = build.function("f00d", 0)
    build.function_vjp("f00d", context, output, 0)
    kinds = cost_classes_of(build.graph(), Costs())
    assert names(kinds) == ["function @f00d cpu 6>", "function @f00d vjp cpu context,6,6>6"]
    assert [kind.family for kind in kinds.kinds] == ["@f00d", "@f00d vjp"]


def test_the_first_run_of_a_function_is_of_the_kind_of_later_runs(builder):
    """It is recorded before anything is known of what forward makes."""
    first, later = builder(), builder()
    first.function("f00d", 0, outputs=0)
    later.function("f00d", 0, outputs=3)
    kinds = [cost_classes_of(build.graph(), Costs()).kinds[0] for build in (first, later)]
    assert kinds[0] == kinds[1]


LIKE = op_node("mul", (0, 1), (1,))
"""Reads two arrays, and makes one."""


@pytest.mark.parametrize(
    ("component", "other"),
    [
        ("role", plain_node(GradSum, (0, 1), (1,))),
        ("function", LIKE._replace(fn="add")),
        ("transforms", op_vjp_node("mul", (0, 1), (1,), (1, 0), (1, 1), (1,))),
        ("size of what is read", LIKE._replace(inputs=(0, 2))),
        ("number of inputs", LIKE._replace(inputs=(0,))),
        ("size of what is made", LIKE._replace(outputs=(2,))),
        ("number of outputs", LIKE._replace(outputs=(1, 1))),
    ],
)
def test_nodes_that_differ_in_one_thing_alone_are_priced_and_measured_apart(builder, component, other):
    costs = Costs()

    def of(*nodes):
        build = builder(externals=2)
        build.externals.append(build.spec(ArraySpec((50_000,), "float64")))
        build.values += 1
        for node in nodes:
            build.add(node)
        return build.graph()

    apart = [cost_classes_of(of(node), costs) for node in (LIKE, other)]
    together = cost_classes_of(of(LIKE, other, LIKE), costs)
    assert list(together.node) == [0, 1, 0]
    assert together.kinds == [*apart[0].kinds, *apart[1].kinds]
    assert len(set(names(together))) == 2
    seconds = [PricedGraph(of(node), costs).seconds[0] for node in (LIKE, other)]
    assert PricedGraph(of(LIKE, other, LIKE), costs).seconds == [*seconds, seconds[0]]
    measured = replace(costs, factors=dict(zip(names(together), (3.0, 7.0), strict=True)))
    assert PricedGraph(of(LIKE, other, LIKE), measured).seconds == [
        3.0 * seconds[0],
        7.0 * seconds[1],
        3.0 * seconds[0],
    ]


def test_a_sum_of_gradients_of_which_one_is_undefined_is_no_op_of_that_name(builder):
    build = builder()
    build.op("sum", 0)
    build.add(plain_node(GradSum, (0, -1), (1,)))
    kinds = cost_classes_of(build.graph(), Costs())
    assert names(kinds) == ["op sum cpu 6>6", "sum sum cpu 6>6"]
    costs = Costs(factors={names(kinds)[1]: 3.0})
    assert PricedGraph(build.graph(), costs).seconds == [prior(kinds)[0], 3.0 * prior(kinds)[1]]
