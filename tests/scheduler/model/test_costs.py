from raygrad.proto.ir.nodes import GradSum
from raygrad.proto.ir.specs import ArraySpec, ConstSpec, ContextSpec, ObjectSpec, UnknownSpec
from raygrad.scheduler.model.costs import Costs

from ...graph_nodes import function_node, hook_node, op_node, op_vjp_node, plain_node

COSTS = Costs()
MATRIX = ArraySpec((512, 512), "float32")


def test_an_array_has_its_bytes_and_what_is_unknown_gets_a_guess():
    assert COSTS.value_bytes(MATRIX) == 512 * 512 * 4
    assert COSTS.value_bytes(ArraySpec((), "bool")) == 1
    assert COSTS.value_bytes(ContextSpec()) == COSTS.context_bytes
    assert COSTS.value_bytes(UnknownSpec()) == COSTS.value_bytes(ObjectSpec()) == COSTS.unknown_bytes
    assert COSTS.value_bytes(ConstSpec()) == COSTS.const_bytes


def test_a_dtype_that_numpy_does_not_know_is_taken_to_have_eight_bytes():
    assert COSTS.value_bytes(ArraySpec((3,), "no such dtype")) == 24


def test_a_transfer_takes_a_hop_and_its_bytes():
    assert COSTS.transfer_seconds(0) == COSTS.hop_seconds
    assert COSTS.transfer_seconds(10**9) == COSTS.hop_seconds + 1.0


def test_every_node_takes_time_and_user_code_takes_more():
    op = COSTS.node_seconds(op_node("sin"), [], [])
    hook = COSTS.node_seconds(hook_node("@h"), [], [])
    function = COSTS.node_seconds(function_node("@f"), [], [])
    assert 0 < op < hook < function
    assert COSTS.node_seconds(plain_node(GradSum), [], []) > 0


def test_a_matmul_is_priced_by_its_flops_and_its_vjp_by_as_many_per_gradient():
    forward = COSTS.node_seconds(op_node("matmul"), [MATRIX, MATRIX], [MATRIX])
    flops = 2 * 512**3 / COSTS.flops
    assert flops < forward < 1.1 * flops
    assert forward > 10 * COSTS.node_seconds(op_node("add"), [MATRIX, MATRIX], [MATRIX])
    backward = COSTS.node_seconds(op_vjp_node("matmul"), [MATRIX, MATRIX, MATRIX], [MATRIX, MATRIX])
    assert 2 * flops < backward < 2.1 * flops
    rows, columns = ArraySpec((100, 20), "float64"), ArraySpec((20, 300), "float64")
    out = ArraySpec((100, 300), "float64")
    one = COSTS.node_seconds(op_vjp_node("matmul"), [columns, out], [rows])
    assert one > 2 * 100 * 20 * 300 / COSTS.flops


def test_a_contraction_of_unknown_shapes_is_priced_by_bytes():
    unknown = UnknownSpec()
    assert COSTS.node_seconds(op_node("matmul"), [unknown], [unknown]) > 0
    assert COSTS.node_seconds(op_node("matmul"), [MATRIX], []) > 0
