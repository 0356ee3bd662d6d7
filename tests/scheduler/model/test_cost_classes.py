from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.cost_classes import kinds_of
from raygrad.scheduler.model.costs import Costs


def test_nodes_of_equal_specs_are_one_class_and_those_of_like_sizes_one_kind(builder):
    build = builder()
    wide = build.spec(ArraySpec((5,), "float64"))
    value = build.op("sin", 0)
    value = build.op("sin", value)
    build.op("sin", value, spec=wide)
    build.op("sin", value, spec=build.spec(ArraySpec((500,), "float64")))
    kinds = kinds_of(build.graph(), Costs())
    assert list(kinds.node) == [0, 0, 1, 2]
    assert kinds.names == ["op sin cpu 6>6", "op sin cpu 6>6", "op sin cpu 6>12"]
    assert kinds.prior == sorted(kinds.prior)
    assert all(seconds > 0 for seconds in kinds.prior)


def test_user_code_is_named_by_its_fingerprint_and_a_vjp_is_another_kind(builder):
    build = builder()
    context, output = build.function("f00d", 0)
    build.function_vjp("f00d", context, output, 0)
    kinds = kinds_of(build.graph(), Costs())
    assert kinds.names == ["function @f00d cpu 6>context,6", "function @f00d vjp cpu context,6,6>6"]
