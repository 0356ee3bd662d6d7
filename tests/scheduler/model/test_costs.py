from raygrad.proto.graph import Node, Spec
from raygrad.scheduler.model.costs import Costs

COSTS = Costs()
MATRIX = Spec("array", (512, 512), "float32")


def node(role, fn, transforms=()):
    return Node(role, fn, transforms, (), (), ())


def test_an_array_has_its_bytes_and_what_is_unknown_gets_a_guess():
    assert COSTS.value_bytes(MATRIX) == 512 * 512 * 4
    assert COSTS.value_bytes(Spec("array", (), "bool")) == 1
    assert COSTS.value_bytes(Spec("context")) == COSTS.context_bytes
    assert COSTS.value_bytes(Spec("unknown")) == COSTS.value_bytes(Spec("object")) == COSTS.unknown_bytes
    assert COSTS.value_bytes(Spec("const")) == COSTS.const_bytes


def test_a_dtype_that_numpy_does_not_know_is_taken_to_have_eight_bytes():
    assert COSTS.value_bytes(Spec("array", (3,), "no such dtype")) == 24


def test_a_transfer_takes_a_hop_and_its_bytes():
    assert COSTS.transfer_seconds(0) == COSTS.hop_seconds
    assert COSTS.transfer_seconds(10**9) == COSTS.hop_seconds + 1.0


def test_every_node_takes_time_and_user_code_takes_more():
    op = COSTS.node_seconds(node("op", "sin"), [], [])
    hook = COSTS.node_seconds(node("hook", "@h"), [], [])
    function = COSTS.node_seconds(node("function", "@f"), [], [])
    assert 0 < op < hook < function
    assert COSTS.node_seconds(node("sum", "sum"), [], []) > 0


def test_a_matmul_is_priced_by_its_flops_and_its_vjp_by_as_many_per_gradient():
    forward = COSTS.node_seconds(node("op", "matmul"), [MATRIX, MATRIX], [MATRIX])
    flops = 2 * 512**3 / COSTS.flops
    assert flops < forward < 1.1 * flops
    assert forward > 10 * COSTS.node_seconds(node("op", "add"), [MATRIX, MATRIX], [MATRIX])
    backward = COSTS.node_seconds(node("op", "matmul", ("vjp",)), [MATRIX, MATRIX, MATRIX], [MATRIX, MATRIX])
    assert 2 * flops < backward < 2.1 * flops
    rows, columns = Spec("array", (100, 20), "float64"), Spec("array", (20, 300), "float64")
    out = Spec("array", (100, 300), "float64")
    one = COSTS.node_seconds(node("op", "matmul", ("vjp",)), [columns, out], [rows])
    assert one > 2 * 100 * 20 * 300 / COSTS.flops


def test_a_contraction_of_unknown_shapes_is_priced_by_bytes():
    unknown = Spec("unknown")
    assert COSTS.node_seconds(node("op", "matmul"), [unknown], [unknown]) > 0
    assert COSTS.node_seconds(node("op", "matmul"), [MATRIX], []) > 0
