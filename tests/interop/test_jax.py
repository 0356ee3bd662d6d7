"""`interop.jax.function`: functions of JAX as nodes, in every kind of session."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import raygrad as rg

jax: Any = pytest.importorskip("jax", reason="interop with JAX: pip install 'raygrad[jax]'")
jnp: Any = jax.numpy


def data(dtype: Any = rg.float64) -> Any:
    rg.manual_seed(1)
    return rg.randn(5, 3, dtype=dtype)


def model(parameters: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ parameters["layers"][0]["w"] + parameters["layers"][0]["b"])
    return hidden @ parameters["layers"][1]["w"] * parameters["scale"]


def parameters(dtype: Any = rg.float64) -> Any:
    rg.manual_seed(2)
    layers = [
        {"w": rg.randn(3, 4, dtype=dtype, requires_grad=True), "b": rg.zeros(4, dtype=dtype, requires_grad=True)},
        {"w": rg.randn(4, 2, dtype=dtype, requires_grad=True)},
    ]
    return {"layers": layers, "scale": rg.ones((), dtype=dtype)}


def leaves_of(tree: Any) -> list[Any]:
    return [*tree["layers"][0].values(), tree["layers"][1]["w"]]


# ---- beside JAX itself ----------------------------------------------------------------------------------------------


def test_gradients_by_nested_parameters_are_jaxs() -> None:
    node = rg.interop.jax.function(model)
    held, x = parameters(), data().requires_grad_()
    (node(held, x) ** 2).sum().backward()
    with jax.enable_x64(True):
        theirs = jax.tree_util.tree_map(lambda t: jnp.asarray(t.detach().numpy()), held)
        expected = jax.grad(lambda p, x: (model(p, x) ** 2).sum(), argnums=(0, 1))(theirs, x.detach().numpy())
    assert np.allclose(x.grad.numpy(), expected[1], rtol=1e-14)
    for name in ("w", "b"):
        assert np.allclose(held["layers"][0][name].grad.numpy(), expected[0]["layers"][0][name], rtol=1e-14)
    assert held["scale"].grad is None


def test_float32_stays_float32_and_64_bits_are_there_where_an_argument_has_them() -> None:
    node = rg.interop.jax.function(lambda x: x * jnp.ones(3))
    for dtype in (rg.float16, rg.float32, rg.float64):
        x = data(rg.float32).to(dtype).requires_grad_()
        y = node(x)
        expected = rg.float32 if dtype is rg.float16 else dtype
        assert y.dtype == expected
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype
    assert not jax.config.jax_enable_x64


def test_x64_can_be_said() -> None:
    wide = rg.interop.jax.function(lambda x: x * jnp.ones(3), x64=True)
    assert wide(data(rg.float32)).dtype == rg.float64
    narrow = rg.interop.jax.function(lambda x: x, x64=False)
    with pytest.raises(RuntimeError, match=r"float64.*x64=False"):
        narrow(data())


def test_whole_numbers_of_64_bits_are_given_as_jax_takes_them_or_refused() -> None:
    node = rg.interop.jax.function(lambda x, n: x[n])
    x = data(rg.float32).requires_grad_()
    node(x, rg.tensor([1, 1])).sum().backward()
    assert x.grad is not None
    assert x.grad.sum(dim=1).tolist() == [0.0, 6.0, 0.0, 0.0, 0.0]
    with pytest.raises(TypeError, match="x64=True"):
        node(x, rg.tensor([2**40]))


class Pair(NamedTuple):
    first: Any
    second: Any


def nested(batch: Any, power: int, *, names: Any) -> Any:
    assert names == "all"
    return {"z": (batch["x"] ** power).sum(), "a": Pair(batch["x"] > 0, [batch["n"]]), "none": None}


@pytest.mark.parametrize("jit", [True, False])
def test_arguments_and_results_nest_and_constants_pass(jit: bool) -> None:
    node = rg.interop.jax.function(nested, jit=jit)
    x = data().requires_grad_()
    out = node({"x": x, "n": np.arange(3)}, 2, names="all")
    assert list(out) == ["a", "none", "z"]  # as JAX sorts dicts
    assert (type(out["a"]), out["none"]) == (Pair, None)
    assert out["a"].first.dtype == np.dtype(bool)
    assert out["a"].second[0].tolist() == [0, 1, 2]
    out["z"].backward()
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), 2 * x.detach().numpy())
    with rg.no_grad():
        assert list(node({"x": x, "n": np.arange(3)}, 2, names="all")) == ["a", "none", "z"]


def test_results_are_memory_of_their_own() -> None:
    node = rg.interop.jax.function(lambda x: (x, x))
    x = data()
    one, two = node(x)
    one *= 0.0
    assert np.array_equal(two.numpy(), x.numpy())
    assert np.array_equal(data().numpy(), x.numpy())


# ---- derivatives ----------------------------------------------------------------------------------------------------


def smooth(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y, (x * y * y).sum(), jnp.argmax(x)


def small() -> Any:
    return rg.tensor([0.5, -1.25], dtype=rg.float64, requires_grad=True)


@pytest.mark.parametrize("options", [{}, {"recompute": True}, {"jit": False}])
def test_gradcheck_to_second_order_and_in_forward_mode(options: dict[str, Any]) -> None:
    node = rg.interop.jax.function(smooth, **options)
    x, y = small(), (small().detach() + 1.0).requires_grad_()
    both = lambda x, y: node(x, y)[:2]  # noqa: E731
    assert rg.autograd.gradcheck(both, (x, y), check_forward_ad=True)
    assert rg.autograd.gradgradcheck(both, (x, y), check_fwd_over_rev=True)


def test_gradcheck_by_complex_arguments() -> None:
    node = rg.interop.jax.function(lambda z: (z * z * 1j, jnp.abs(z) ** 2))
    z = rg.tensor([1.0 + 2.0j, -0.5 + 0.25j], dtype=rg.complex128, requires_grad=True)
    assert rg.autograd.gradcheck(node, (z,))


def test_third_derivatives_in_a_session() -> None:
    node = rg.interop.jax.function(smooth)
    found = []
    for session in (None, rg.Session(workers=2)):
        x, y = data().requires_grad_(), (data() + 1.0).requires_grad_()
        with session or rg.enable_grad():
            first = rg.autograd.grad(node(x, y)[0].sum(), x, create_graph=True)[0]
            second = rg.autograd.grad(first.sum(), x, create_graph=True)[0]
            third = rg.autograd.grad(second.sum(), x)[0].numpy()
        found.append(third)
        assert np.allclose(third, -(x.cos() * y).detach().numpy())
    assert found[0].tobytes() == found[1].tobytes()


# ---- sessions -------------------------------------------------------------------------------------------------------


def dropped(x: Any, seed: Any) -> Any:
    return jnp.where(jax.random.bernoulli(jax.random.key(seed), 0.5, x.shape), x, 0.0)


def train(steps: int = 3, compiled: Any = None, **options: Any) -> list[bytes]:
    node = rg.interop.jax.function(model, **options)
    drop = rg.interop.jax.function(dropped, **options)
    held, x = parameters(), data()
    optimizer = rg.optim.Adam(leaves_of(held), lr=0.05)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (node(held, drop(x, rg.randint(0, 2**31 - 1, ()))) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(step) if compiled else step
    losses = [run(x + float(number)) for number in range(steps)]
    return [value.detach().numpy().tobytes() for value in (*losses, *leaves_of(held))]


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"workers": 3}])
def test_training_is_the_same_in_a_session(options: dict[str, Any]) -> None:
    eager = train()
    assert train(recompute=True) == eager
    with rg.Session(**options):
        assert train() == eager
        assert train(recompute=True) == eager


def test_training_is_the_same_compiled() -> None:
    eager = train(steps=5)
    with rg.Session(workers=1) as session:
        assert train(5, session.compile) == eager


def test_h3_a_function_does_not_wait_to_be_known() -> None:
    node = rg.interop.jax.function(model)
    with rg.Session(workers=1) as session:
        held = parameters()
        y = node(held, data())
        assert session.last_run is None
        assert not session._observed.first_runs
        (y**2).sum().backward()
        assert held["layers"][1]["w"].grad.shape == (4, 2)


def test_code_that_looks_at_values_needs_jit_off_and_is_known_by_running() -> None:
    def looks(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x * 3

    with pytest.raises(TypeError, match="traced"):
        rg.interop.jax.function(looks)(data())
    node = rg.interop.jax.function(looks, jit=False)
    with rg.Session(workers=1) as session:
        x = rg.ones(3, requires_grad=True)
        node(x).sum().backward()
        assert "looks" in session._observed.first_runs
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0, 2.0]


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_what_is_no_function_is_refused() -> None:
    wrong: Any
    for wrong in (3, dict):
        with pytest.raises(TypeError, match=r"interop\.jax\.function takes"):
            rg.interop.jax.function(wrong)


def test_what_a_node_cannot_return_is_refused() -> None:
    with pytest.raises(TypeError, match="returned a"):
        rg.interop.jax.function(lambda x: "text", jit=False)(data())
    with pytest.raises(TypeError, match=r"bfloat16.*float32"):
        rg.interop.jax.function(lambda x: x.astype(jnp.bfloat16))(data())


def test_a_node_does_not_stand_inside_a_trace() -> None:
    node = rg.interop.jax.function(lambda x: x)
    with pytest.raises(TypeError, match="traced by JAX"):
        jax.jit(node)(np.ones(3))


COMPILED = jax.jit(lambda x: jnp.sin(x) * 2.0)


def with_jit_inside(x: Any) -> Any:
    return jax.nn.relu(jax.jit(lambda y, n: y * n, static_argnums=1)(x, 3))


@pytest.mark.parametrize(
    "made",
    [
        lambda: jax.jit(lambda x: x * 2.0),
        lambda: jnp.exp,
        lambda: jax.nn.relu,
        lambda: with_jit_inside,
        lambda: lambda x: COMPILED(x),
    ],
)
def test_compiled_functions_travel_as_what_they_compile(made: Any) -> None:
    function = made()
    x = data().requires_grad_()
    with rg.Session():
        y = rg.interop.jax.function(function)(x)
        y.sum().backward()
        got = y.detach().numpy(), x.grad.numpy()
    expected, pull = jax.vjp(function, x.detach().numpy())
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)
    np.testing.assert_allclose(got[1], pull(np.ones_like(expected))[0], rtol=1e-6)


def test_a_compiled_function_keeps_what_is_static() -> None:
    from raygrad.workers.code.pickling import pickle_value
    from raygrad.workers.code.unpickling import unpickle_value

    power = unpickle_value(pickle_value(jax.jit(lambda x, n: x if n == 0 else x * n, static_argnames="n")))
    assert power(np.float32(2.0), n=3) == 6.0
