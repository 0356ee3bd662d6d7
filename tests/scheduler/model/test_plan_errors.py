"""What cannot be planned, said of nodes."""

from raygrad.errors import PlanError
from raygrad.scheduler.model.plan_errors import describe_node, plan_error

from ...graph_nodes import function_vjp_node, op_node

NODES = (op_node("sin", (0,), (0,)), function_vjp_node("@f00d", (1,), (0,)))


def test_a_node_is_called_by_its_index_and_what_the_graph_calls_it() -> None:
    assert describe_node(7, NODES[0]) == "node 7 (sin)"
    assert describe_node(1, NODES[1]) == "node 1 (vjp.@f00d)"


def test_a_refusal_tells_which_nodes_it_names() -> None:
    error = plan_error((1, NODES[1]), " {} stands beside ", (0, NODES[0]), ".")
    assert str(error) == "node 1 (vjp.@f00d) {} stands beside node 0 (sin)."
    assert error.nodes == ((1, "node 1 (vjp.@f00d)"), (0, "node 0 (sin)"))
    error.call_nodes(["first", "second"].__getitem__)
    assert str(error) == "second {} stands beside first."
    assert error.nodes == ((1, "second"), (0, "first"))


def test_a_message_without_nodes_stays() -> None:
    error = PlanError("the cluster has no workers")
    error.call_nodes(lambda index: "never")
    assert (str(error), error.nodes) == ("the cluster has no workers", ())
